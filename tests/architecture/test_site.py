"""The site's pages: all in its navigation, their links whole, its tables complete.

`make site` holds the same for the HTML, and needs MkDocs; this needs PyYAML alone.
"""

import ast
import posixpath
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.site import configuration_reference, decisions
from docs.site.command_reference import help_of
from docs.site.generated import pages
from docs.site.links import BESIDE, ROOT, for_site, links, repository_path
from docs.site.model_zoo import PRESETS, Header
from tests.docs import FIRST, commands
from tests.e2e.cases import CASES, YAML
from transbeam.__main__ import ROOMS
from transbeam.configs.base.reflection import section_keys, walk
from transbeam.configs.loader.yaml_config import parse_run
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.task_file import Task, TaskFileConfig
from transbeam.pipeline.objectives.kinds import contract

SETTINGS = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
WRITTEN = sorted(
    path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")
)
# A table of these is on a page of its own.
RECORDS = [page for page in WRITTEN if re.fullmatch(r"adr/\d.*", page)]
HEADING = re.compile(r"^#+ (.*?)(?: \{ #(?P<id>[\w.-]+) \})?$", re.MULTILINE)


def in_nav(entry: Any) -> Iterator[str]:
    match entry:
        case str():
            yield entry
        case dict():
            for below in entry.values():
                yield from in_nav(below)
        case list():
            for below in entry:
                yield from in_nav(below)


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """The Markdown of every page, as it is before links are rewritten."""
    generated = {path: write() for path, write in pages().items()}
    files = {page: ROOT / repository_path(page) for page in (*WRITTEN, *BESIDE)}
    return generated | {page: file.read_text("utf-8") for page, file in files.items()}


def test_every_page_is_in_the_navigation_once(texts: dict[str, str]) -> None:
    listed = list(in_nav(SETTINGS["nav"]))
    assert sorted(listed) == sorted(set(texts) - set(RECORDS))


def test_links_lead_to_pages_and_headings(texts: dict[str, str]) -> None:
    broken = []
    for page, text in texts.items():
        for link in links(for_site(text, page)):
            path, _, heading = link.partition("#")
            folder = posixpath.dirname(page)
            target = posixpath.normpath(posixpath.join(folder, path)) if path else page
            if target not in texts:
                if not (ROOT / repository_path(target)).is_file():
                    broken.append(f"{page}: {link}")
            elif heading and heading not in anchors(texts[target]):
                broken.append(f"{page}: {link}: no such heading")
    assert not broken


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as Python-Markdown makes them."""
    found = set()
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for heading in HEADING.finditer(outside):
        bare = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[1])
        slug = re.sub(r"[^\w\s-]", "", bare).strip().lower()
        found.add(heading["id"] or re.sub(r"[-\s]+", "-", slug))
    return found


def test_lists_in_lists_are_indented_by_four(texts: dict[str, str]) -> None:
    # GitHub takes two, Python-Markdown reads on in the paragraph above.
    for page, text in texts.items():
        outside = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
        assert re.findall(r"^ {1,3}(?:[-*]|\d+\.) .*", outside, re.MULTILINE) == [], (
            page
        )


def test_links_are_rewritten_to_where_the_site_has_them() -> None:
    text = "[a](../bench/RESULTS.md#serving) [b](../configs/demo.yaml) [c](https://d.e)"
    assert for_site(text, "cost.md") == (
        "[a](bench/RESULTS.md#serving) b (`configs/demo.yaml`) [c](https://d.e)"
    )
    assert for_site("[a](docs/adr/0001.md)", "CONTRIBUTING.md") == "[a](adr/0001.md)"


def test_every_key_is_described() -> None:
    described = {
        (Path(page).stem, row)
        for page, write in configuration_reference.pages().items()
        for row in re.findall(r"^\| \[?`(\w+)`", write(), re.MULTILINE)
    }
    for path, key in walk(RunConfig):
        section, _, below = path.partition(".")
        page = section if below else "index"
        assert key.name == "kind" or (page, key.name) in described, path
    for section in (TaskFileConfig, *typing.get_args(Task)):
        for name in {*section_keys(section)} - {"kind"}:
            assert ("task_file", name) in described, name


@pytest.mark.parametrize("command", ["run", *ROOMS])
def test_every_command_shows_its_help(command: str) -> None:
    assert help_of(command).startswith(f"usage: transbeam {command}")


def test_every_preset_says_its_parameters() -> None:
    for file in PRESETS.glob("*.yaml"):
        head = Header(file.read_text("utf-8"))
        assert head.title
        assert re.match(r"[\d,]+", head.fields["parameters"]), file.name


def test_every_decision_has_a_title() -> None:
    rows = re.findall(r"^\| (\d+) \| \[.+\]\(.+\) \|$", decisions.page(), re.MULTILINE)
    assert len(rows) == len(RECORDS)


@pytest.mark.parametrize("case", CASES)
def test_the_record_contract_is_told(case: str) -> None:
    text = YAML
    for key in ("source", "layout", "tokenizer", "objective"):
        text = text.replace(key.upper(), getattr(CASES[case], key))
    page = (ROOT / "docs/explanation/records.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    for feature in contract(parse_run(text.replace("FOLDER", "/"), "case.yaml")):
        told = [row for row in rows if f"`{feature.name}`" in row]
        assert any(f"| {feature.dtype} |" in row for row in told), feature


def test_headlines_are_those_of_the_measurements() -> None:
    page = (ROOT / "docs/results.md").read_text("utf-8")
    measured = (ROOT / "bench/RESULTS.md").read_text("utf-8")
    figures = re.findall(r"[\d.,]+x? \([\d.,x-]+\)", page)
    assert len(figures) > 40
    assert [figure for figure in figures if figure not in measured] == []


def test_the_measurements_have_a_table_of_contents() -> None:
    text = (ROOT / "bench/RESULTS.md").read_text("utf-8")
    listed = re.findall(r"^ *- \[(.*)\]\(#", text, re.MULTILINE)
    assert listed == re.findall(r"^##+ (.*)$", text, re.MULTILINE)


def test_the_readme_shows_two_commands_that_the_tutorials_run() -> None:
    assert commands(ROOT / "README.md") == ["make demo", "make test"]
    assert commands(ROOT / FIRST)[0] == "make demo"


def test_pictures_ask_no_other_server() -> None:
    namespaces = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    for picture in (ROOT / "docs").rglob("*.svg"):
        named = re.findall(r"https?://[^\"' ]+", picture.read_text("utf-8"))
        assert set(named) <= namespaces, Path(picture).name


DESCRIBED = [
    name
    for page in sorted((ROOT / "docs/reference/python").glob("*.md"))
    for name in re.findall(r"^::: transbeam\.([\w.]+)", page.read_text("utf-8"), re.M)
]


MIGRATED = re.findall(
    r"`transbeam\.([\w.]+\w)[.…]*`",
    (ROOT / "CHANGELOG.md").read_text("utf-8").split("### Migrating", 1)[1],
)


@pytest.mark.parametrize("name", [*DESCRIBED, *MIGRATED])
def test_every_name_of_the_pages_is_defined_there(name: str) -> None:
    """Without an import, which for the site's environment would be too much."""
    parts = name.split(".")
    if ROOT.joinpath(*parts).is_dir():
        return
    files = [ROOT.joinpath(*parts[:n]).with_suffix(".py") for n in range(1, 9)]
    file = next((file for file in files if file.exists()), None)
    assert file, f"no module of {name}"
    depth = len(file.relative_to(ROOT).parts)
    defined = {
        node.name
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }
    assert set(parts[depth:]) <= defined
