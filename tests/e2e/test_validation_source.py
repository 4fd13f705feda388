"""A validation split of the user's own: whole, and nothing of it in training."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from transbeam.configs.base.errors import DataError
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.yaml_config import load_run
from transbeam.pipeline.__main__ import main
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.stage import data
from transbeam.pipeline.steps import deduplicate_documents

YAML = """
name: held_out
seed: 3
data:
  source: {kind: text, path: FOLDER/train/*.txt}
  validation_source: {kind: jsonl, path: FOLDER/held/*.jsonl}
  deduplication: {near: {similarity: 0.7}}
  sequence_length: 64
  shard_megabytes: 0.006
tokenizer: {kind: wordpiece, vocabulary_size: 90}
"""
NO_NEAR = "data.deduplication={}"
NO_EXACT = "data.deduplication={exact: false}"

WORDS = [f"word{i}" for i in range(60)]


def text(number: int, *more: str) -> str:
    """A text like no other, but for those of the same number."""
    return " ".join([*random.Random(number).choices(WORDS, k=30), *more])


TRAINING = [text(n) for n in range(80)]
VALIDATION = [text(1000 + n) for n in range(30)]
# In training: what validation has, too, and what training has.
EXACT, NEAR = VALIDATION[:10], [f"{text} end" for text in VALIDATION[10:20]]
OWN = text(0, "end")
# In validation: what it has itself.
AGAIN, ALIKE = VALIDATION[0], text(1029, "end")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("held_out")
    write(folder)
    return folder


def write(folder: Path) -> None:
    texts = [*EXACT, *TRAINING, *NEAR, OWN]
    for name in ("train", "held"):
        (folder / name).mkdir()
    for number in range(2):
        part = folder / f"train/{number}.txt"
        part.write_text("\n\n".join(texts[number::2]), "utf-8")
    rows = [json.dumps({"text": text}) for text in (*VALIDATION, AGAIN, ALIKE)]
    (folder / "held/rows.jsonl").write_text("\n".join(rows), "utf-8")


def invocation(folder: Path, run: str, *overrides: str, workers: int = 1) -> Invocation:
    file = folder / "held_out.yaml"
    file.write_text(YAML.replace("FOLDER", str(folder)), "utf-8")
    return Invocation(
        config=load_run(file, overrides),
        config_file=file,
        overrides=overrides,
        run_folder=folder / run,
        console=Console(quiet=True),
        workers=workers,
    )


@pytest.fixture(scope="module")
def run(folder: Path) -> tuple[Path, dict[str, Any]]:
    """A run's records and its result, for all that is asked of them."""
    made = invocation(folder, "run")
    return made.run_folder / "data", data(made)


def texts_of(folder: Path, split: str) -> list[str]:
    """The texts of a split's records, by what provenance says of them."""
    text_at = {}
    for path in (folder / "documents").iterdir():
        batch = DocumentBatch.load(path)
        places = zip(batch.values("source"), batch.values("offset"), strict=True)
        text_at.update(zip(places, batch.texts(), strict=True))
    places = {
        (row["source"], row["offset"])
        for path in (folder / "provenance").glob(f"{split}-*")
        for row in pq.read_table(path).to_pylist()
    }
    return sorted(text_at[place].decode() for place in places)


def test_training_has_nothing_of_validation(run) -> None:
    folder, result = run
    train, validation = texts_of(folder, "train"), texts_of(folder, "validation")
    assert len(train) == 80
    assert set(train) <= {*TRAINING, OWN}
    assert len(validation) == 30
    assert set(VALIDATION[:-1]) < set(validation) <= {*VALIDATION, ALIKE}
    counts = result["counts"]
    assert counts["read"] == 101 + 32
    assert counts["documents"] == {"train": 80, "validation": 30}
    assert counts["filtered"] == {"exact duplicate": 10 + 1, "near duplicate": 10 + 2}


def test_leaks_are_told(run) -> None:
    folder, result = run
    assert result["leaks_prevented"] == 20
    told = "; 20 documents kept out of training as validation has them"
    assert result["summary"].endswith(told)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["leaks_prevented"], manifest["leaks_left"]) == (20, 0)
    names = [source["name"] for source in manifest["sources"]]
    assert names == ["0.txt", "1.txt", "rows.jsonl"]
    card = (folder / "card.md").read_text("utf-8")
    assert "20 training documents were dropped because validation has them." in card


def test_without_near_duplicates(folder: Path) -> None:
    made = invocation(folder, "exact", NO_NEAR)
    result = data(made)
    train = texts_of(made.run_folder / "data", "train")
    assert train == sorted([*TRAINING, *NEAR, OWN])
    validation = texts_of(made.run_folder / "data", "validation")
    assert validation == sorted([*VALIDATION, ALIKE])
    assert result["counts"]["filtered"] == {"exact duplicate": 11}
    assert result["leaks_prevented"] == 10


def test_leaks_that_stay_are_warned_of(folder: Path, capsys) -> None:
    made = invocation(folder, "leaky", NO_EXACT)
    for _ in range(2):  # also when there is nothing to do
        result = data(made)
        said = capsys.readouterr().err
        # One of the ten is in validation twice.
        assert "warning: the texts of 11 validation documents are also in" in said
    assert result["counts"]["filtered"] == {}
    assert (result["leaks_prevented"], result["leaks_left"]) == (0, 11)
    card = (made.run_folder / "data/card.md").read_text("utf-8")
    assert "11 validation documents have texts that are in training too." in card


def contents(folder: Path) -> dict[str, bytes]:
    names = ("records", "documents", "provenance", "tokenizer", "quarantine")
    paths = [path for name in names for path in folder.glob(f"{name}/*")]
    paths += [folder / "manifest.json", folder / "card.md"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_same_bytes_with_two_workers(run, folder: Path) -> None:
    made = invocation(folder, "two", workers=2)
    data(made)
    assert contents(made.run_folder / "data") == contents(run[0])


def test_same_bytes_after_a_stop_among_the_duplicates(
    run, folder: Path, monkeypatch
) -> None:
    made, marked = invocation(folder, "stopped"), []
    mark_done = deduplicate_documents.mark_done

    def stopped(*arguments: Any) -> None:
        marked.append(arguments)
        if len(marked) == 3:
            raise DataError("stopped here")
        mark_done(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(deduplicate_documents, "mark_done", stopped)
        with pytest.raises(DataError, match="stopped here"):
            data(made)
    assert len(list(made.run_folder.glob("data/state/duplicates-*"))) == 2
    data(made)
    assert contents(made.run_folder / "data") == contents(run[0])


def test_changed_validation_files_make_the_records_anew(tmp_path: Path) -> None:
    write(tmp_path)
    made = invocation(tmp_path, "run", NO_NEAR)
    first = data(made)
    assert data(made) == {**first, "skipped": True}
    with (tmp_path / "held/rows.jsonl").open("a") as file:
        file.write("\n" + json.dumps({"text": TRAINING[0]}))
    second = data(made)
    assert second["leaks_prevented"] == 11
    assert second["records_sha256"] != first["records_sha256"]
    train = texts_of(made.run_folder / "data", "train")
    assert train == sorted([*TRAINING[1:], *NEAR, OWN])
    assert len(list((made.run_folder / "superseded").iterdir())) == 1


def error_of(capsys, made: Invocation) -> str:
    arguments = ["data", str(made.config_file), "--run", str(made.run_folder)]
    arguments += [word for text in made.overrides for word in ("--set", text)]
    assert main(arguments) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["data.validation_source.path=none/*.jsonl"],
            "error: data.validation_source: no file matches 'none/*.jsonl'",
        ),
        (
            ["data.validation_source={kind: text, path: FOLDER/train/1.txt}"],
            "error: data.validation_source: the same file would be read twice: ",
        ),
        (
            ["data.validation_source.columns={text: words}"],
            "could not be used (32 × no field 'words')",
        ),
        (
            [
                "data.validation_source.columns={text: words}",
                "data.maximum_quarantine_fraction=1",
            ],
            "error: data.validation_source: no document of it is left",
        ),
        (
            [
                "data.source.path=FOLDER/again/*.txt",
                "data.validation_source={kind: text, path: FOLDER/train/*.txt}",
            ],
            "error: data: validation has all 51 training documents",
        ),
    ],
)
def test_what_is_wrong_is_loud(
    folder: Path, capsys, overrides: list[str], message: str
) -> None:
    (folder / "again").mkdir(exist_ok=True)
    copied = (folder / "train/0.txt").read_bytes()
    (folder / "again/copy.txt").write_bytes(copied)
    given = [override.replace("FOLDER", str(folder)) for override in overrides]
    assert message in error_of(capsys, invocation(folder, "wrong", *given))


def test_inspection_names_the_files(run, folder: Path, capsys) -> None:
    made = invocation(folder, "run")
    arguments = ["data", str(made.config_file), "--run", str(made.run_folder)]
    assert main([*arguments, "--inspect", "1", "--split", "validation"]) == 0
    said = capsys.readouterr().out
    assert "\n  from  rows.jsonl:" in said


def test_same_text_with_another_label_is_told(folder: Path, capsys) -> None:
    rows = [{"text": f"A text about number {n}.", "label": "yes"} for n in range(40)]
    changed = [{**row, "label": "no"} for row in rows[:3]]
    for name, content in (("taught", rows), ("asked", [*rows[5:7], *changed])):
        lines = "".join(json.dumps(row) + "\n" for row in content)
        (folder / f"{name}.jsonl").write_text(lines)
    columns = "columns: {text: text, label: label}}"
    made = invocation(
        folder,
        "labels",
        f"data.source={{kind: jsonl, path: {folder}/taught.jsonl, {columns}",
        f"data.validation_source={{kind: jsonl, path: {folder}/asked.jsonl, {columns}",
        "data.deduplication={}",
        "objective={kind: classification, labels: ['yes', 'no']}",
        "tokenizer.vocabulary_size=50",
    )
    result = data(made)
    assert (result["leaks_prevented"], result["leaks_left"]) == (2, 3)
    assert "the texts of 3 validation documents are also in" in capsys.readouterr().err
