"""Batch inference: every document answered once, in order, whatever happens."""

import gzip
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from tests.small_run import paragraphs
from transbeam.configs.base.errors import ArtifactError, ConfigError, DataError
from transbeam.pipeline.batch_inference import inference_job
from transbeam.pipeline.batch_inference import score_command as score
from transbeam.pipeline.batch_inference.score_command import score as run_score
from transbeam.pipeline.batch_inference.score_request import ScoreRequest

TEXTS = tf.TensorSpec([None], tf.string, name="text")


def _answer(text: tf.Tensor) -> dict[str, Any]:
    length = tf.strings.length(text)
    first = tf.strings.substr(text, 0, 3)
    padded = tf.strings.bytes_split(first).to_tensor()
    return {
        "length": length,
        "more": tf.cast(length, tf.float32) + 0.1,
        "half": tf.cast(length, tf.bfloat16),
        "is_long": length > 100,
        "upper": tf.strings.upper(text),
        "cut": tf.tile(padded[:, :, tf.newaxis], [1, 1, 2]),
        "hash": tf.strings.to_hash_bucket_fast(text, 1 << 40),
    }


def _inverse(text: tf.Tensor) -> dict[str, tf.Tensor]:
    return {"inverse": 1 / (tf.strings.length(text) - 6)}


def _label(inputs: tf.Tensor) -> dict[str, Any]:
    spec = {"label": tf.io.FixedLenFeature([], tf.int64)}
    return {"label": tf.io.parse_example(inputs, spec)["label"]}


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> Path:
    """A SavedModel of few ops, and signatures that cannot be used."""
    module = tf.Module()
    one, fixed = TEXTS, tf.TensorSpec([8], tf.string, name="text")
    number = tf.TensorSpec([None], tf.int32, name="ids")
    pair = tf.TensorSpec([None], tf.string, name="second_text")
    functions = {
        "serving_default": (_answer, [one]),
        "inverse": (_inverse, [one]),
        "label": (_label, [tf.TensorSpec([None], tf.string, name="inputs")]),
        "mean": (lambda text: {"mean": tf.strings.length(text)[:1]}, [one]),
        "scalar": (lambda text: {"count": tf.size(text)}, [one]),
        "number": (lambda ids: {"ids": ids}, [number]),
        "pair": (lambda text, second_text: {"text": text + second_text}, [one, pair]),
        "fixed": (lambda text: {"text": text}, [fixed]),
    }
    signatures = {
        name: tf.function(function).get_concrete_function(*specs)
        for name, (function, specs) in functions.items()
    }
    folder = tmp_path_factory.mktemp("models") / "saved_model" / "3"
    tf.saved_model.save(module, str(folder), signatures=signatures)
    return folder


@pytest.fixture
def asked(invoke, model: Path, monkeypatch, tmp_path: Path) -> Callable[..., Any]:
    """Scores the small corpus, cut into units of 3 kB."""
    monkeypatch.setattr(score, "UNIT_BYTES", 3000)

    def ask(
        output: str, *overrides: str, workers: int = 1, mode: str = "", **keys
    ) -> dict[str, Any]:
        request = ScoreRequest(output=tmp_path / output, **{"model": model, **keys})
        how = {"beam_options": (f"--direct_running_mode={mode}",)} if mode else {}
        return run_score(invoke("run", *overrides, workers=workers, **how), request)

    return ask


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_every_document_is_answered_once_in_order(asked, tmp_path: Path) -> None:
    result = asked("a.jsonl", keep_text=True, batch_size=5)
    rows = lines(tmp_path / "a.jsonl")
    texts = [text for part in range(3) for text in paragraphs(120)[part::3]]
    assert [row["text"] for row in rows] == texts
    assert [row["source"] for row in rows[39:41]] == ["part-0.txt", "part-1.txt"]
    assert rows[0]["offset"] == rows[40]["offset"] == 0
    assert rows[1]["offset"] == len(texts[0]) + 2
    assert result["counts"]["read"] == result["counts"]["scored"] == 120
    assert result["bytes"] == (tmp_path / "a.jsonl").stat().st_size
    for row in rows:
        text, outputs = row["text"], row["outputs"]
        assert outputs["length"] == len(text)
        assert outputs["more"] == float(str(np.float32(len(text)) + np.float32(0.1)))
        assert outputs["half"] == float(tf.cast(len(text), tf.bfloat16))
        assert outputs["is_long"] is (len(text) > 100)
        assert outputs["upper"] == text.upper()
        assert outputs["cut"] == [[character] * 2 for character in text[:3]]
        bucket = tf.strings.to_hash_bucket_fast(text, 1 << 40)
        assert outputs["hash"] == int(bucket)
    assert [p.name for p in tmp_path.glob("a.jsonl*")] == ["a.jsonl", "a.jsonl.job"]


def test_parquet_says_the_same(asked, tmp_path: Path) -> None:
    asked("a.jsonl", keep_text=True)
    asked("a.parquet", keep_text=True)
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column_names == ["source", "offset", "text", "outputs"]
    rows = table.to_pylist()
    expected = lines(tmp_path / "a.jsonl")
    for row in expected:
        more = row["outputs"]["more"]
        row["outputs"]["more"] = float(np.float32(more))
    assert rows == expected


class FromMainThread(FnApiRunner):
    """An engine whose job server sets signal handlers, as Beam's for Flink does."""

    def run_pipeline(self, pipeline, options):
        assert threading.current_thread() is threading.main_thread()
        return super().run_pipeline(pipeline, options)


def test_another_engine(invoke, model: Path, tmp_path: Path) -> None:
    invocation = invoke("run", runner=f"{__name__}.{FromMainThread.__name__}")
    result = run_score(
        invocation, ScoreRequest(output=tmp_path / "a.jsonl", model=model)
    )
    assert result["documents"] == 120


@pytest.mark.parametrize(
    "mode",
    # Processes take ten seconds to start; the data job has them in the quick tests.
    ["multi_threading", pytest.param("multi_processing", marks=pytest.mark.thorough)],
)
def test_same_bytes_for_one_and_two_workers(asked, tmp_path: Path, mode) -> None:
    asked("one.parquet")
    asked("two.parquet", workers=2, mode=mode)
    one, two = tmp_path / "one.parquet", tmp_path / "two.parquet"
    assert one.read_bytes() == two.read_bytes()


def test_units_and_blocks_do_not_show(asked, tmp_path: Path, monkeypatch) -> None:
    asked("a.jsonl")
    monkeypatch.setattr(score, "UNIT_BYTES", 1_000_000)
    asked("b.jsonl", batch_size=1)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_goes_on_where_it_was_stopped(asked, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(inference_job, "BATCHES", 2)
    asked("whole.jsonl", batch_size=5)
    written: list[str] = []
    write = inference_job.write_atomically

    def write_three(path: Path, content: bytes) -> None:
        if len(written) == 3:
            raise DataError("stopped")
        write_any(path, content)

    def write_any(path: Path, content: bytes) -> None:
        written.append(path.name)
        write(path, content)

    monkeypatch.setattr(inference_job, "write_atomically", write_three)
    with pytest.raises(DataError, match="stopped"):
        asked("a.jsonl", batch_size=5)
    assert not (tmp_path / "a.jsonl").exists()
    half = tmp_path / "a.jsonl.job/score/parts/.00000-00000.1.tmp"
    half.write_bytes(b"half")

    monkeypatch.setattr(inference_job, "write_atomically", write_any)
    asked("a.jsonl", batch_size=5)
    assert len(written) == len(set(written)) > 9
    whole = tmp_path / "whole.jsonl"
    assert (tmp_path / "a.jsonl").read_bytes() == whole.read_bytes()
    assert not half.exists()


def test_what_cannot_be_read_is_in_the_ledger(
    asked, corpus: Path, tmp_path: Path
) -> None:
    (corpus / "odd.txt").write_bytes(b"one\n\ncaf\xe9\n\nnul \0 is text\n")
    result = asked("a.jsonl", keep_text=True)
    assert result["counts"] == {
        "read": 123,
        "scored": 122,
        "filtered": {},
        "quarantined": {"not UTF-8": 1},
    }
    odd = [row for row in lines(tmp_path / "a.jsonl") if row["source"] == "odd.txt"]
    assert [row["text"] for row in odd] == ["one", "nul \0 is text"]
    assert [row["outputs"]["length"] for row in odd] == [3, 13]
    (file,) = (tmp_path / "a.jsonl.job/score/quarantine").iterdir()
    (entry,) = lines(file)
    assert (entry["source"], entry["offset"]) == ("odd.txt", 8)


def test_lone_surrogates_are_quarantined(asked, tmp_path: Path) -> None:
    rows = [{"text": "good"}, {"text": "bad \ud800"}, {"text": "ünd"}]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "rows.jsonl").write_text(text, "utf-8")
    other = f"data.source={{kind: jsonl, path: {tmp_path}/rows.jsonl}}"
    result = asked("a.jsonl", other)
    assert result["documents"] == 2
    (reason,) = result["counts"]["quarantined"]
    assert "surrogate" in reason
    lengths = [row["outputs"]["length"] for row in lines(tmp_path / "a.jsonl")]
    assert lengths == [4, 4]


def test_numbers_that_json_has_not(asked, corpus: Path, tmp_path: Path) -> None:
    for path in corpus.iterdir():
        path.unlink()
    (corpus / "a.txt").write_text("sixsix\n\neighteig")
    asked("a.jsonl", signature="inverse")
    asked("a.parquet", signature="inverse")
    inverses = [row["outputs"]["inverse"] for row in lines(tmp_path / "a.jsonl")]
    assert inverses == [None, 0.5]
    column = pq.read_table(tmp_path / "a.parquet")["outputs"].to_pylist()
    assert column == [{"inverse": np.inf}, {"inverse": 0.5}]


@pytest.mark.parametrize(
    ("signature", "error", "message"),
    [
        (
            "serving",
            ConfigError,
            r"no such signature; it has fixed, inverse, label, mean, number, pair, "
            r"scalar, serving_default\.",
        ),
        ("invers", ConfigError, "Did you mean 'inverse'"),
        ("number", ArtifactError, r"takes ids: int32 \[None\]; expected one input"),
        ("pair", ArtifactError, r"takes second_text: string \[None\], text: string"),
        ("fixed", ArtifactError, r"takes text: string \[8\]"),
        ("scalar", ArtifactError, r"gives count: int32 \[\]; expected .* a row for"),
        ("mean", ArtifactError, r"gives 1 rows of mean for \d\d texts"),
        ("label", ArtifactError, r"signature label fails: Could not parse"),
    ],
)
def test_signatures_that_cannot_be_used(
    asked, tmp_path: Path, signature: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        asked("a.jsonl", signature=signature)
    assert not (tmp_path / "a.jsonl").exists()


def test_the_highest_version_is_taken(asked, model: Path, tmp_path: Path) -> None:
    asked("a.jsonl", model=model.parent)
    asked("b.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_what_is_no_model(asked, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"run/export: there is no such folder"):
        asked("a.jsonl", model=None)
    with pytest.raises(ArtifactError, match="holds no SavedModel"):
        asked("a.jsonl", model=tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"no model")
    with pytest.raises(ArtifactError, match="cannot be read as a SavedModel"):
        asked("a.jsonl", model=tmp_path)


def test_requests_that_are_wrong(asked, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ends in \.jsonl or \.parquet"):
        asked("a.csv")
    with pytest.raises(ConfigError, match="batch-size 0: expected at least 1"):
        asked("a.jsonl", batch_size=0)
    images = "data.source={kind: images, path: '*.png', image_size: 8}"
    with pytest.raises(ConfigError, match="kind=images has no texts"):
        asked("a.jsonl", images)
    (tmp_path / "mine.jsonl").write_text("precious")
    with pytest.raises(ArtifactError, match="not by this command"):
        asked("mine.jsonl")
    assert (tmp_path / "mine.jsonl").read_text() == "precious"


def test_done_is_skipped_and_another_question_refused(asked, tmp_path: Path) -> None:
    first = asked("a.jsonl")
    written = (tmp_path / "a.jsonl").stat().st_mtime_ns
    again = asked("a.jsonl")
    assert again["skipped"]
    assert again["counts"] == first["counts"]
    with pytest.raises(ArtifactError, match="keep_text: false there, true here"):
        asked("a.jsonl", keep_text=True)
    assert (tmp_path / "a.jsonl").stat().st_mtime_ns == written
    (tmp_path / "a.jsonl").unlink()
    assert "skipped" not in asked("a.jsonl")
    assert len(lines(tmp_path / "a.jsonl")) == 120


def test_nothing_to_score(asked, corpus: Path, tmp_path: Path) -> None:
    for path in corpus.iterdir():
        path.write_bytes(b"\xff\xfa\xfa")
    with pytest.raises(DataError, match=r"none of 3 documents .*3 × not UTF-8"):
        asked("a.jsonl")
    assert not (tmp_path / "a.jsonl").exists()


def test_the_model_is_loaded_once(asked, monkeypatch) -> None:
    loads: list[Any] = []
    load = tf.saved_model.load
    monkeypatch.setattr(tf.saved_model, "load", lambda *a: loads.append(a) or load(*a))
    asked("a.jsonl", batch_size=1)
    assert len(loads) == 1


def json_lines(first: int, last: int) -> bytes:
    rows = [{"text": f"document {i} of some"} for i in range(first, last)]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_a_file_that_is_not_whole_stops_it(asked, tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "cut.jsonl.gz"
    begun, rest = gzip.compress(json_lines(0, 40)), gzip.compress(json_lines(40, 90))
    path.write_bytes(begun + rest[:12])
    source = f"data.source={{kind: jsonl, path: {path}}}"
    message = (
        f"data.source: cut.jsonl.gz ends after {len(begun) + 12} bytes, 40 documents; "
        "the rest is not in the file. Get the files again or take them out of the "
        "corpus; data.accept_incomplete_files=true uses what there is of them"
    )
    with pytest.raises(DataError, match=f"^{message}$"):
        asked("a.jsonl", source)
    assert not (tmp_path / "a.jsonl").exists()

    # What was computed is not computed again.
    monkeypatch.setattr(inference_job, "write_atomically", None)
    result = asked("a.jsonl", source, "data.accept_incomplete_files=true")
    assert len(lines(tmp_path / "a.jsonl")) == result["documents"] == 40
    (file,) = result["unread"]["files"]
    assert (file["doubtful"], file["documents"]) == (True, 40)
    # Nor does an output that was made so pass as a whole one.
    with pytest.raises(DataError, match=r"cut.jsonl.gz ends after"):
        asked("a.jsonl", source)
    again = asked("a.jsonl", source, "data.accept_incomplete_files=true")
    assert again["skipped"]


def test_unread_bytes_are_named(asked, tmp_path: Path) -> None:
    members = [gzip.compress(json_lines(i, i + 10)) for i in range(0, 50, 10)]
    damaged = bytearray(members[2])
    damaged[len(damaged) // 2] ^= 0x20
    members[2] = bytes(damaged)
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(b"".join(members))
    result = asked("a.jsonl", f"data.source={{kind: jsonl, path: {path}}}")
    size, unread = path.stat().st_size, len(damaged)
    assert result["counts"]["quarantined"] == {"damaged gzip stream": 1}
    assert result["unread"] == {
        "bytes": unread,
        "files": [
            {
                "name": "a.jsonl.gz",
                "size": size,
                "unread": unread,
                "documents": 40,
                "doubtful": False,
                "reasons": ("damaged gzip stream",),
            }
        ],
    }
    told = f"a.jsonl; not read: {unread} of {size} bytes of a.jsonl.gz"
    assert result["summary"].endswith(told)


def test_what_readers_noticed_and_guessed_is_said(
    asked, tmp_path: Path, capsys
) -> None:
    text = "Съешь ещё этих мягких французских булок, да выпей чаю. Они были вкусные."
    (tmp_path / "a.txt").write_bytes(text.encode("cp1251"))
    (tmp_path / "a.tsv").write_text('text\tx\none\ta\n"Open here\tb\nEnds here"\tc\n')
    parts = [
        f"{{source: {{kind: text, path: {tmp_path}/a.txt, encoding: detect}}}}",
        f'{{source: {{kind: csv, path: {tmp_path}/a.tsv, delimiter: "\\t"}}}}',
    ]
    source = f"data.source={{kind: mixture, parts: [{', '.join(parts)}]}}"
    result = asked("a.jsonl", source)
    assert result["documents"] == 3
    (encoding,) = result["encodings"]
    assert (encoding["file"], encoding["codec"]) == ("a.txt", "cp1251")
    (note,) = result["noted"]
    assert (note["kind"], note["source"], note["times"]) == (
        "rows that quotes have joined",
        "a.tsv",
        1,
    )
    assert "warning: a.tsv: rows that quotes have joined: " in capsys.readouterr().err
    # Nor is it kept back when there is nothing to do.
    assert asked("a.jsonl", source)["skipped"]
    assert "warning: a.tsv: rows that quotes have joined: " in capsys.readouterr().err
