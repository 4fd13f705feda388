"""Every byte and every document of a damaged corpus is in the books."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.without_beam import run
from tests.pipeline.accounting.damaged_corpora.all_corpora import corpora
from tests.pipeline.accounting.damaged_corpora.corpus import LEVELS, TORN
from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.pipeline import stage
from transbeam.pipeline.__main__ import main
from transbeam.pipeline.accounting.byte_accounting import UnreadFile, unread_files
from transbeam.pipeline.accounting.document_accounting import sum_document_counts
from transbeam.pipeline.documents.step_markers import read_states
from transbeam.pipeline.sources.corpus_files import list_files
from transbeam.pipeline.sources.work_units import plan_units
from transbeam.pipeline.steps.clean_documents import prepare_unit

CORPORA = corpora()


@pytest.fixture
def job(tmp_path: Path, monkeypatch) -> Callable[..., tuple[int, Path]]:
    """Runs the data job with some overrides; gives its exit code and its folder.

    All that is Beam's is left out, which takes most of the time.
    """
    monkeypatch.setattr(stage, "_run", run)

    def make(configuration: str, *overrides: str) -> tuple[int, Path]:
        (tmp_path / "run.yaml").write_text(configuration)
        folder = tmp_path / f"run-{len(overrides)}"
        words = [word for override in overrides for word in ("--set", override)]
        command = ["data", f"{tmp_path}/run.yaml", "--run", str(folder), *words]
        return main([*command, "--quiet", "--workers=1"]), folder / "data"

    return make


@pytest.mark.parametrize("corpus", CORPORA, ids=[corpus.name for corpus in CORPORA])
def test_books_and_exit_code_of(tmp_path: Path, job, capsys, corpus) -> None:
    configuration = corpus.write(tmp_path)
    name = f"b{corpus.ending}"
    doubtful = corpus.codes == (2, 2, 0)
    level = corpus.codes.index(0)
    for refused in LEVELS[:level]:
        code, data = job(configuration, *refused)
        assert (code, (data / "manifest.json").exists()) == (2, False)
        said = capsys.readouterr().err
        assert said.startswith("error: data")
        assert not corpus.unread or name in said
        assert ("accept_incomplete_files" in said) == doubtful
    code, data = job(configuration, *LEVELS[level])
    assert code == 0
    manifest = json.loads((data / "manifest.json").read_text())

    counts = manifest["counts"]
    filtered = {"exact duplicate": 1}
    assert sum(counts["documents"].values()) == corpus.used
    assert (counts["filtered"], counts["quarantined"]) == (filtered, corpus.quarantined)
    assert counts["read"] == corpus.used + 1 + sum(corpus.quarantined.values())
    entries = read_quarantine(data / "quarantine")
    assert Counter(entry["reason"] for entry in entries) == corpus.quarantined

    size, damaged = len(corpus.whole), len(corpus.damaged)
    bytes_ = counts["bytes"]
    assert bytes_["source"] == size + damaged
    assert bytes_["unread"] == manifest["unread"]["bytes"] == corpus.unread
    read = bytes_["used"] + bytes_["filtered"] + bytes_["quarantined"]
    assert read == size + damaged - corpus.unread
    assert min(bytes_["used"], bytes_["filtered"]) > 0
    if not corpus.unread and not doubtful:
        assert manifest["unread"]["files"] == []
        return
    (file,) = manifest["unread"]["files"]
    assert file == {
        "name": name,
        "size": damaged,
        "unread": corpus.unread,
        "documents": corpus.used - 300,
        "doubtful": doubtful,
        "reasons": [reason for reason in corpus.quarantined if reason != TORN],
    }


def read_quarantine(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for path in folder.iterdir()
        for line in path.read_text("utf-8").splitlines()
    ]


def test_the_rest_of_a_broken_array_is_in_quarantine_with_its_bytes(
    tmp_path: Path, job
) -> None:
    (corpus,) = (corpus for corpus in CORPORA if corpus.name.startswith("JSON array"))
    _, data = job(corpus.write(tmp_path), *LEVELS[1])
    bytes_ = json.loads((data / "manifest.json").read_text())["counts"]["bytes"]
    lost = len(corpus.damaged) * 200 // 300
    assert 0.9 * lost < bytes_["quarantined"] < 1.5 * lost


def test_a_file_in_several_units_is_one_file() -> None:
    row = {"name": "b", "size": 9, "doubtful": False}
    one = {**row, "unread": 2, "documents": 5, "reasons": ["x"]}
    two = {**row, "unread": 3, "documents": 7, "reasons": ["x", "y"]}
    last = {**one, "name": "a", "doubtful": True}
    assert unread_files([{"unread": [one]}, {"unread": [two, last]}]) == [
        UnreadFile("a", 9, 2, 5, True, ("x",)),
        UnreadFile("b", 9, 5, 12, False, ("x", "y")),
    ]


def test_unread_bytes_are_those_of_the_spans(tmp_path: Path) -> None:
    """Of a file in another encoding only the first span finds the mark."""
    text = "\ufeff" + "a line of text\n" * 200
    (tmp_path / "a.txt").write_bytes(text.encode("utf-16-le"))
    source = TextSourceConfig(path=str(tmp_path / "a.txt"), document="line")
    config = RunConfig(name="x", data=DataConfig(source=source))
    for part in ("state", "documents"):
        (tmp_path / part).mkdir()
    units = plan_units(list_files(source), source, 1000)
    assert len(units) == 7
    for unit in units:
        prepare_unit(unit, config, tmp_path)
    (file,) = unread_files(read_states(tmp_path, "documents"))
    assert (file.unread, file.size) == (1000, 6002)
    assert sum_document_counts(tmp_path)["bytes"]["unread"] == 1000
