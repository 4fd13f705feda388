"""A corpus with everything that can be wrong with one: nothing is lost, nothing hidden.

`python -m pytest tests/e2e/test_spoiled_corpus.py -s -k ledger` prints the ledger.
"""

import bz2
import errno
import gzip
import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import zstandard

from tests.small_run import SENTENCE, paragraphs
from transbeam.configs.base.errors import ArtifactError, DataError
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.yaml_config import load_run
from transbeam.pipeline.__main__ import main
from transbeam.pipeline.accounting.document_accounting import LEFT_OUT
from transbeam.pipeline.records import shard_writer
from transbeam.pipeline.records.manifest import read_manifest
from transbeam.pipeline.sources.files import file_access as reader_files
from transbeam.pipeline.stage import data

YAML = """
name: spoiled
seed: 3
data:
  source:
    kind: mixture
    parts:
      - source: {kind: text, path: CORPUS/texts/*}
      - source: {kind: jsonl, path: CORPUS/lines/*, columns: {label: mood}}
      - source: {kind: csv, path: CORPUS/tables/*.csv, columns: {label: mood}}
      - source: {kind: parquet, path: CORPUS/tables/*.parquet, columns: {label: mood}}
        weight: 0.5
      - source: {kind: squad, path: CORPUS/questions/*}
  cleaning: {control_characters: remove, maximum_characters: 1500000}
  sequence_length: 32
  validation_fraction: 0.1
  maximum_quarantine_fraction: 0.9  # most of the bytes are those of one text
  accept_incomplete_files: true
tokenizer: {kind: wordpiece, vocabulary_size: 120}
objective: {kind: classification, labels: [calm, cross]}
"""

# What the corpus below comes to: how many documents of each fate, by reason.
DOCUMENTS = 215
FILTERED = {
    # controls.txt, and the row of blanks
    "empty": 2,
    # three rows that say all that other rows say
    "exact duplicate": 3,
    # of ten rows, by their hash
    LEFT_OUT: 7,
}
QUARANTINED = {
    "not as many fields as the header": 1,
    "answer offset does not match": 3,
    "binary": 1,
    "broken quotes: never closed": 1,
    "broken quotes: text after a closed one": 1,
    "contains NUL, so it is binary": 1,
    "damaged gzip stream": 1,
    "field 'mood' is empty": 1,
    "field 'text' contains a lone surrogate": 1,
    "field 'text' is not text": 1,
    "label 'furious' is not one of the configured labels (calm, cross)": 1,
    "longer than 1500000 characters": 1,
    "no field 'answer_start'": 1,
    "no field 'mood'": 1,
    "no field 'text'": 1,
    "no label": 2,
    "not JSON": 1,
    "not JSON: Unterminated string starting at": 1,
    "not UTF-8": 1,
    "not a JSON object": 1,
    "truncated bzip2 stream": 1,
    "truncated gzip stream": 1,
    "truncated or damaged Parquet file": 2,
    "truncated zstandard stream": 1,
}


def text_of(size: int) -> str:
    """A text of about `size` bytes on one line."""
    return f"{SENTENCE} " * (size // len(SENTENCE))


def labelled(first: int, end: int) -> list[dict[str, str]]:
    """Good documents, all different."""
    numbered = list(enumerate(paragraphs(end)))[first:]
    return [{"text": text, "mood": ("calm", "cross")[i % 2]} for i, text in numbered]


def texts() -> Iterator[tuple[str, bytes]]:
    """None has a label, so what is read of them is quarantined in the last step."""
    yield "latin.txt", b"caf\xe9 au lait\n"
    yield "binary.txt", b"\x7fELF\0\0\xff\n"
    yield "nul.txt", b"a text with\0 in it\n"
    yield "large.txt", text_of(2_000_000).encode()
    yield "nothing.txt", b""
    yield "controls.txt", b"\x01\x02\x1b\n"
    yield "unlabelled.txt", b"a text, and that is all\n"


def json_lines(rows: list[Any]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def lines() -> Iterator[tuple[str, bytes]]:
    rows = [
        {"text": "in the wrong field", "moood": "calm"},
        {"text": None, "mood": "calm"},
        {"text": ["many", 1], "mood": "calm"},
        {"text": "a surrogate: \ud800.", "mood": "calm"},
        {"text": "an unknown label", "mood": "furious"},
        {"text": "a blank label", "mood": " "},
        {"text": " \t", "mood": "calm"},
        ["no", "object"],
        {"text": text_of(1_000_000), "mood": "cross"},
        *labelled(0, 40),
        *labelled(0, 3),
        # One of those with another label is no duplicate.
        {"text": paragraphs(1)[0], "mood": "cross"},
    ]
    yield "rows.jsonl", json_lines(rows) + b'{"text": "never closed\n'
    # Of a file that breaks off, what was read of it stays.
    begun, rest = json_lines(labelled(100, 130)), json_lines(labelled(130, 160))
    yield "cut.jsonl.gz", gzip.compress(begun) + gzip.compress(rest)[:12]
    begun, rest = json_lines(labelled(160, 190)), json_lines(labelled(190, 200))
    yield "cut.jsonl.bz2", bz2.compress(begun) + bz2.compress(rest)[:50]
    begun, rest = json_lines(labelled(200, 230)), json_lines(labelled(230, 240))
    compress = zstandard.ZstdCompressor().compress
    yield "cut.jsonl.zst", compress(begun) + compress(rest)[:50]
    yield "whole.jsonl.gz", gzip.compress(json_lines(labelled(40, 80)))
    yield "plain.jsonl.gz", b"this was never compressed"


def csv_rows(rows: list[dict[str, str]]) -> str:
    return "".join(f"{row['text']},{row['mood']}\n" for row in rows)


def parquet(rows: list[dict[str, str]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


def tables() -> Iterator[tuple[str, bytes]]:
    broken = '"closed" too early,calm\none field\n"never closed,calm\n'
    table = csv_rows(labelled(240, 270)) + broken + csv_rows(labelled(270, 280))
    yield "quotes.csv", f"text,mood\n{table}".encode()
    yield "nothing.csv", b""
    whole = parquet(labelled(280, 290))
    yield "whole.parquet", whole
    yield "cut.parquet", whole[: len(whole) // 2]
    yield "text.parquet", b"this is no table"


def questions() -> Iterator[tuple[str, bytes]]:
    answers = [
        {"text": "loss", "answer_start": 5},
        {"text": "loss", "answer_start": -1},
        {"text": "number", "answer_start": 14000},
        {"text": "loss"},
        # Right, but the objective asks for a label.
        {"text": "loss", "answer_start": 4},
    ]
    asked = [{"question": "What is it?", "answers": [answer]} for answer in answers]
    paragraph = {"context": "The loss is a number.", "qas": asked}
    whole = json.dumps({"data": [{"paragraphs": [paragraph]}]}).encode()
    yield "answers.json", whole
    yield "cut.json", whole[: len(whole) // 2]


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory) -> Path:
    """The corpus, and the configuration of a run over it."""
    folder = tmp_path_factory.mktemp("spoiled")
    for make in (texts, lines, tables, questions):
        kind = folder / "corpus" / make.__name__
        kind.mkdir(parents=True)
        for name, content in make():
            (kind / name).write_bytes(content)
    (folder / "spoiled.yaml").write_text(YAML.replace("CORPUS", f"{folder}/corpus"))
    return folder


@pytest.fixture(scope="module")
def counts(spoiled: Path) -> dict[str, Any]:
    """Counts that the run over the corpus reports."""
    file = spoiled / "spoiled.yaml"
    invocation = Invocation(
        config=load_run(file),
        config_file=file,
        overrides=(),
        run_folder=spoiled / "run",
        console=Console(quiet=True),
        workers=1,
    )
    return data(invocation)["counts"]


def test_ledger(counts: dict[str, Any]) -> None:
    print(f"\n\n{ledger(counts)}")
    assert counts["filtered"] == FILTERED
    assert counts["quarantined"] == QUARANTINED
    assert sum(counts["documents"].values()) == DOCUMENTS
    books = chain(FILTERED.values(), QUARANTINED.values())
    assert counts["read"] == DOCUMENTS + sum(books)


def test_bytes_add_up(spoiled: Path, counts: dict[str, Any]) -> None:
    files = [path for path in (spoiled / "corpus").rglob("*") if path.is_file()]
    source, *fates = counts["bytes"].values()
    assert source == sum(fates) == sum(path.stat().st_size for path in files)
    manifest = json.loads((spoiled / "run/data/manifest.json").read_text())
    unread = {row["name"]: row for row in manifest["unread"]["files"]}
    assert sorted(name for name, row in unread.items() if row["doubtful"]) == [
        "cut.jsonl.bz2",
        "cut.jsonl.gz",
        "cut.jsonl.zst",
        "cut.parquet",
    ]
    size = (spoiled / "corpus/tables/text.parquet").stat().st_size
    assert unread["text.parquet"]["unread"] == size
    assert manifest["unread"]["bytes"] == sum(row["unread"] for row in unread.values())


def test_files_that_are_not_whole_stop_the_job(spoiled: Path) -> None:
    file = spoiled / "spoiled.yaml"
    overrides = ("data.accept_incomplete_files=false",)
    invocation = Invocation(
        config=load_run(file, overrides),
        config_file=file,
        overrides=overrides,
        run_folder=spoiled / "other",
        console=Console(quiet=True),
        workers=1,
    )
    with pytest.raises(DataError) as caught:
        data(invocation)
    message = str(caught.value)
    size = (spoiled / "corpus/lines/cut.jsonl.gz").stat().st_size
    assert f"cut.jsonl.gz ends after {size:,} bytes, 30 documents" in message
    assert "cut.parquet ends after" in message
    assert "data.accept_incomplete_files=true" in message


def ledger(counts: dict[str, Any]) -> str:
    """The books as a table in Markdown."""
    rows = [
        f"| {fate} | {reason} | {number} |"
        for fate in ("documents", "filtered", "quarantined")
        for reason, number in counts[fate].items()
    ]
    head = ["| fate | split or reason | |", "| --- | --- | ---: |"]
    return "\n".join([*head, *rows, f"| read | | {counts['read']} |"])


def test_quarantine_says_where_and_why(spoiled: Path, counts: dict[str, Any]) -> None:
    folder = spoiled / "run/data/quarantine"
    entries = [
        json.loads(line)
        for path in sorted(folder.iterdir())
        for line in path.read_text("utf-8").splitlines()
    ]
    assert Counter(entry["reason"] for entry in entries) == QUARANTINED
    names = {path.name for path in (spoiled / "corpus").rglob("*") if path.is_file()}
    for entry in entries:
        assert list(entry)[:4] == ["reason", "source", "offset", "excerpt"]
        assert set(list(entry)[4:]) <= {"unread", "doubtful"}
        assert entry["source"] in names
        assert entry["excerpt"]
    assert all(len(entry["excerpt"]) <= 600 for entry in entries)
    places = {entry["reason"]: (entry["source"], entry["offset"]) for entry in entries}
    assert places["not UTF-8"] == ("latin.txt", 3)
    assert places["not JSON: Unterminated string starting at"] == (
        "rows.jsonl",
        (spoiled / "corpus/lines/rows.jsonl").read_bytes().index(b'{"text": "never'),
    )
    assert places["broken quotes: never closed"] == (
        "quotes.csv",
        (spoiled / "corpus/tables/quotes.csv").read_bytes().index(b'"never'),
    )
    label = "label 'furious' is not one of the configured labels (calm, cross)"
    assert places[label][0] == "rows.jsonl"
    # The whole of the first member was read.
    assert places["truncated gzip stream"] == (
        "cut.jsonl.gz",
        len(json_lines(labelled(100, 130))),
    )


def test_every_good_document_is_in_the_records(
    spoiled: Path, counts: dict[str, Any]
) -> None:
    folder = spoiled / "run/data"
    found = [
        (row["source"], row["offset"])
        for path in (folder / "provenance").iterdir()
        for row in pq.read_table(path).to_pylist()
    ]
    assert len(found) == len(set(found)) == DOCUMENTS
    per_file = Counter(source for source, _ in found)
    assert per_file == {
        "rows.jsonl": 42,  # the line of a megabyte among them
        "whole.jsonl.gz": 40,
        "cut.jsonl.gz": 30,
        "cut.jsonl.bz2": 30,
        "cut.jsonl.zst": 30,
        "quotes.csv": 40,
        "whole.parquet": 10 - FILTERED[LEFT_OUT],
    }
    read_manifest(folder).check_files()


def exit_message(capsys, invocation: Invocation, *overrides: str) -> str:
    """Returns the message of the command, which ends with exit code 2."""
    arguments = ["data", str(invocation.config_file), "--workers=1"]
    arguments += ["--run", str(invocation.run_folder)]
    arguments += [word for override in overrides for word in ("--set", override)]
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert not (invocation.run_folder / "data/manifest.json").exists()
    return said.err


def test_same_file_twice(invoke: Callable, corpus: Path, capsys) -> None:
    (corpus / "again.txt").symlink_to(corpus / "part-1.txt")
    message = exit_message(capsys, invoke())
    assert "the same file would be read twice" in message
    assert f"{corpus}/again.txt (part 0) and {corpus}/part-1.txt (part 0)" in message
    assert "give it a weight in a mixture" in message


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["data.sequence_length=4"], "data.sequence_length: 4 is out of range"),
        (
            ["objective={kind: span_qa}", "data.sequence_length=32"],
            "leaves no room for the context behind objective.max_question_length=64: "
            "at least 68 is needed",
        ),
        (
            ["objective={kind: seq2seq, decoder_length: 1}"],
            "objective.decoder_length: 1 is out of range",
        ),
    ],
)
def test_records_too_short_for_special_pieces(
    invoke: Callable, capsys, overrides: list[str], expected: str
) -> None:
    assert expected in exit_message(capsys, invoke(), *overrides)


def test_all_files_empty(invoke: Callable, corpus: Path) -> None:
    for path in corpus.iterdir():
        path.write_bytes(b"")
    with pytest.raises(DataError, match=r"all 3 files of .* are empty"):
        data(invoke())


def test_nothing_but_blank_lines(invoke: Callable, corpus: Path) -> None:
    for path in corpus.iterdir():
        path.write_bytes(b"\n \n\n")
    with pytest.raises(
        DataError, match=r"no document is left for training: 0 documents read"
    ):
        data(invoke())


def test_unreadable_file(invoke: Callable, corpus: Path, monkeypatch) -> None:
    def denied(path: str, mode: str, buffering: int) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    # Permissions do not keep out the superuser, who may run this.
    monkeypatch.setattr(reader_files, "open", denied, raising=False)
    with pytest.raises(DataError, match=r"part-0.txt: cannot be read: Permission den"):
        data(invoke())


def test_link_to_nothing(invoke: Callable, corpus: Path) -> None:
    (corpus / "gone.txt").symlink_to(corpus / "nowhere")
    with pytest.raises(DataError, match=r"gone.txt is a link to .*No such file"):
        data(invoke())


@pytest.mark.parametrize("kind", ["wordpiece", "byte_bpe", "unigram"])
def test_vocabulary_larger_than_the_corpus_supports(
    invoke: Callable, kind: str
) -> None:
    changes = [f"tokenizer={{kind: {kind}, vocabulary_size: 5000}}"]
    if kind != "wordpiece":
        changes.append("objective={kind: causal}")
    with pytest.raises(DataError, match=r"vocabulary_size=5000 .* supports only \d+"):
        data(invoke("run", *changes))


def test_disk_full_in_the_middle_of_a_shard(invoke: Callable, monkeypatch) -> None:
    make, opened = tf.io.TFRecordWriter, []

    def on_a_full_disk(path: str, options: Any) -> tf.io.TFRecordWriter:
        """The first shards find room; the third is written to where there is none."""
        opened.append(path)
        return make(path if len(opened) < 3 else "/dev/full", options)

    data(invoke("whole"))
    invocation = invoke()
    with monkeypatch.context() as patched:
        patched.setattr(shard_writer.tf.io, "TFRecordWriter", on_a_full_disk)
        with pytest.raises(ArtifactError, match="No space left on device"):
            data(invocation)
    folder = invocation.run_folder / "data"
    assert not (folder / "manifest.json").exists()
    assert not list(folder.rglob("*.tmp"))
    assert len(list((folder / "records").iterdir())) == 2
    documents = list((folder / "documents").iterdir())
    written = [path.stat().st_mtime_ns for path in documents]

    data(invocation)
    # What was finished is not done again.
    assert written == [path.stat().st_mtime_ns for path in documents]
    for name in ("records", "documents", "provenance"):
        expected = invoke("whole").run_folder / "data" / name
        assert contents(folder / name) == contents(expected)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
