"""The mechanical part of the project's language: names, first words, words that go."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import ROOT

ROOMS = ("configs", "pipeline", "model", "trainer", "serving")
# Folders whose summaries follow the rule.
PLAIN = (*ROOMS, "docs/site", "tests", "bench")
QUESTIONS = {"What", "Which", "Who", "Whose", "Whether", "How", "Where"}
# Each has a term of the field in its place: told → counts or message, wishes → sampling
# parameters, storey → block, judged → evaluated, begun → started or initialized.
GONE = re.compile(
    r"(?<![a-z])(storeys?|wishe?s?|told|telling|stirred|begun|yardsticks?|mend(ed|s|ing)?|"
    r"judged?|judges|judging|watchers?|asked[_ ]of|strangers?|what came of|"
    r"gone on with|goes on with|stands? for|the one who)(?![a-z])",
    re.IGNORECASE,
)
# A reason in manifests, and the seed of a sample: other words would change records.
KEPT = ('"encoding cannot be told"', 'f"strangers/{name}"')
# Shipped to users as they are.
SAMPLES = ROOT / "serving/phone/tokenizer/sources"


def trees(*folders: str) -> Iterator[tuple[Path, ast.Module]]:
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            if SAMPLES not in file.parents:
                yield file.relative_to(ROOT), ast.parse(file.read_text("utf-8"))


@pytest.fixture(scope="module")
def classes() -> dict[str, list[Path]]:
    found = defaultdict(list)
    for file, tree in trees(*ROOMS):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(file)
    return found


def test_class_names_are_unique(classes):
    assert {name: files for name, files in classes.items() if len(files) > 1} == {}


def test_classes_of_the_schema_are_configs(classes):
    schema = Path("configs/schema")
    about_sections = {"ByKind", "ObjectiveTraits"}
    assert [
        name
        for name, files in classes.items()
        if schema in files[0].parents
        and not name.endswith("Config")
        and name not in about_sections
    ] == []


def test_no_function_is_called_of():
    found = [
        f"{file}: {node.lineno}"
        for file, tree in trees(*ROOMS)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "of"
    ]
    assert found == []


def test_summaries_are_statements():
    found = [
        f"{file}: {text.splitlines()[0]}"
        for file, tree in trees(*PLAIN)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and (text := ast.get_docstring(node))
        and text.split()[0] in QUESTIONS
    ]
    assert found == []


def test_words_of_a_dialect_are_gone():
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for room in ROOMS
        for file in sorted((ROOT / room).rglob("*.py"))
        if SAMPLES not in file.parents
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if GONE.search(line) and not any(kept in line for kept in KEPT)
    ]
    assert found == []
