"""The data stage as a whole: same bytes, nothing lost, and loud when it must be."""

import errno
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from tests.harness.stages import copy_of, stage
from tests.small_run import invocations, write_corpus
from transbeam.configs.base.errors import ArtifactError, DataError
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.kinds import contract
from transbeam.pipeline.records import shard_writer
from transbeam.pipeline.records.manifest import Manifest, read_manifest
from transbeam.pipeline.records.tf_example import parse_records
from transbeam.pipeline.stage import data, data_stage, finished_data
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer


def small(folder: Path) -> None:
    """The small corpus, and the data of a run over it by one worker."""
    data(invocations(folder, write_corpus(folder / "corpus"))("run"))


@pytest.fixture
def done() -> Path:
    return stage("data-small", small)


@pytest.fixture
def invoke_on_done(tmp_path: Path, done: Path):
    """Makes the invocation of a run over the corpus whose data are made."""
    return invocations(tmp_path, done / "corpus")


def contents(folder: Path) -> dict[str, bytes]:
    """Everything that makes a data set, by file."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for pattern in ("manifest.json", "records/*", "tokenizer/*", "documents/*")
        for path in folder.glob(pattern)
    }


def records(manifest: Manifest, split: str) -> dict[str, np.ndarray]:
    files = [str(manifest.folder / shard.path) for shard in manifest.split(split)]
    dataset = tf.data.TFRecordDataset(files).batch(10_000)
    (batch,) = (parse_records(serialized, manifest.features) for serialized in dataset)
    return {name: tensor.numpy() for name, tensor in batch.items()}


def test_same_bytes_for_one_and_two_workers(invoke_on_done, done: Path) -> None:
    invocation = invoke_on_done("two", workers=2)
    data(invocation)
    one, two = (contents(run / "data") for run in (done / "run", invocation.run_folder))
    assert len([name for name in one if name.startswith("records/train")]) > 2
    assert one == two


def test_same_bytes_after_a_kill(invoke_on_done, done: Path) -> None:
    invocation = invoke_on_done("killed", workers=2)
    command = [
        sys.executable,
        "-m",
        "transbeam.pipeline",
        "data",
        str(invocation.config_file),
    ]
    job = subprocess.Popen(
        [*command, "--run", str(invocation.run_folder), "--workers=2", "--quiet"],
        start_new_session=True,
    )
    state = invocation.run_folder / "data/state"
    while job.poll() is None and not list(state.glob("documents-*.json")):
        time.sleep(0.01)
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    assert not (invocation.run_folder / "data/manifest.json").exists()
    assert list(state.glob("documents-*.json"))
    # Half of a file that a writer was busy with when it was killed.
    (invocation.run_folder / "data/records").mkdir(exist_ok=True)
    half = invocation.run_folder / "data/records/.train-00000.tfrecord.1.tmp"
    half.write_bytes(b"half")

    data(invocation)
    assert not half.exists()
    assert contents(invocation.run_folder / "data") == contents(done / "run/data")


def test_order_of_files_on_the_disk_does_not_show(invoke, corpus: Path) -> None:
    data(invoke("before"))
    for path in sorted(corpus.iterdir(), reverse=True):
        text = path.read_bytes()
        path.unlink()
        path.write_bytes(text)
    data(invoke("after"))
    assert contents(invoke("before").run_folder / "data") == contents(
        invoke("after").run_folder / "data"
    )


def test_nothing_is_lost(invoke, corpus: Path) -> None:
    (corpus / "odd.txt").write_bytes(b"short\n\ncaf\xe9\n\nlong enough to be kept\n")
    invocation = invoke("run", "data.cleaning.minimum_characters=10")
    result = data(invocation)
    counts = result["counts"]
    there = invocation.run_folder / "data/quarantine"
    assert f"1 filtered, 1 quarantined, see {there});" in result["summary"]
    assert counts["read"] == 123
    assert counts["quarantined"] == {"not UTF-8": 1}
    assert counts["filtered"] == {"shorter than 10 characters": 1}
    assert sum(counts["documents"].values()) == 121
    (entry,) = (
        json.loads(line)
        for file in (invocation.run_folder / "data/quarantine").iterdir()
        for line in file.read_text().splitlines()
    )
    assert entry == {
        "reason": "not UTF-8",
        "source": "odd.txt",
        "offset": 10,
        "excerpt": "\\xe9\n",
    }


def test_records_hold_the_words_of_the_corpus(done: Path) -> None:
    manifest = read_manifest(done / "run/data")
    tokenizer = load_tokenizer(done / "run/data/tokenizer")
    found: Counter[int] = Counter()
    for split in ("train", "validation"):
        arrays = records(manifest, split)
        row, slot = np.nonzero(arrays["masked_weights"])
        ids = arrays["token_ids"]
        column = arrays["masked_positions"][row, slot]
        ids[row, column] = arrays["masked_ids"][row, slot]
        found.update(ids[ids > tokenizer.mask_id].tolist())
    texts = [
        text
        for file in (done / "corpus").iterdir()
        for text in file.read_text().split("\n\n")
    ]
    expected = tokenizer.tokenize(tf.constant(texts)).flat_values.numpy()
    assert found == Counter(expected.tolist())


def test_manifest_tells_the_truth(invoke_on_done, done: Path) -> None:
    result = data_stage(done / "run").load()["result"]
    manifest = read_manifest(done / "run/data")
    assert manifest.features == contract(invoke_on_done().config)
    manifest.check_files()
    for split in ("train", "validation"):
        arrays = records(manifest, split)
        assert len(arrays["token_ids"]) == result["counts"]["records"][split]
        padding = (arrays["document_ids"] == 0).sum()
        assert padding == result["counts"]["padding"][split]
        assert arrays["masked_weights"].sum() == result["counts"]["predictions"][split]
    content = json.loads((done / "run/data/manifest.json").read_text())
    assert [row["name"] for row in content["sources"]] == [
        "part-0.txt",
        "part-1.txt",
        "part-2.txt",
    ]
    assert content["config"]["data.sequence_length"] == 32
    assert not (done / "run/data/state").exists()


def test_splits_do_not_share_a_text(invoke, corpus: Path) -> None:
    for path in corpus.glob("part-0.txt"):
        shutil.copy(path, corpus / "copy.txt")
    invocation = invoke("run", "data.deduplication.exact=false")
    data(invocation)
    folder = invocation.run_folder / "data"
    text_at = {}
    for path in (folder / "documents").iterdir():
        batch = DocumentBatch.load(path)
        places = zip(batch.values("source"), batch.values("offset"), strict=True)
        text_at.update(zip(places, batch.texts(), strict=True))
    texts = {}
    for split in ("train", "validation"):
        rows = [
            row
            for path in (folder / "provenance").glob(f"{split}-*")
            for row in pq.read_table(path).to_pylist()
        ]
        texts[split] = {text_at[row["source"], row["offset"]] for row in rows}
    assert len(texts["train"]) + len(texts["validation"]) == 120
    assert not texts["train"] & texts["validation"]


def test_exact_copies_are_dropped_and_counted(invoke, corpus: Path) -> None:
    shutil.copy(corpus / "part-0.txt", corpus / "copy.txt")
    invocation = invoke()
    counts = data(invocation)["counts"]
    assert counts["read"] == 160
    assert counts["filtered"] == {"exact duplicate": 40}
    assert sum(counts["documents"].values()) == 120


def test_compressed_shards_hold_the_same_records(invoke_on_done, done: Path) -> None:
    packed = invoke_on_done("packed", "data.compression=gzip")
    data(packed)
    first, second = map(read_manifest, (done / "run/data", packed.run_folder / "data"))
    assert second.split("train")[0].path.endswith(".tfrecord.gz")
    for one, other in zip(first.split("train"), second.split("train"), strict=True):
        raw = (first.folder / one.path).read_bytes()
        assert gzip.decompress((second.folder / other.path).read_bytes()) == raw
        assert other.bytes < one.bytes


def test_done_stage_is_skipped_and_a_changed_one_made_anew(
    invoke_on_done, done: Path
) -> None:
    invoke = invoke_on_done
    copy_of(done / "run", invoke().run_folder)
    first = data_stage(done / "run").load()["result"]
    manifest = invoke().run_folder / "data/manifest.json"
    written = manifest.stat().st_mtime_ns
    assert data(invoke()) == {**first, "skipped": True}
    assert manifest.stat().st_mtime_ns == written
    second = data(invoke("run", "seed=4"))
    assert second["records_sha256"] != first["records_sha256"]
    (kept,) = (invoke().run_folder / "superseded").iterdir()
    assert (kept / "manifest.json").stat().st_mtime_ns == written


def test_data_of_another_vocabulary_is_refused_by_name(
    invoke_on_done, done: Path
) -> None:
    other = invoke_on_done("run", "tokenizer.vocabulary_size=100")
    with pytest.raises(ArtifactError, match=r"vocabulary_size: 120 there, 100 here"):
        finished_data(other.config, done / "run")


def test_too_much_quarantine_stops_the_job(invoke, corpus: Path) -> None:
    (corpus / "binary.txt").write_bytes(b"\n\n".join([b"\x00\xff"] * 3))
    invocation = invoke()
    with pytest.raises(
        DataError, match=r"3 of 123 .* \(3 × binary\).* allows 0.01"
    ) as told:
        data(invocation)
    assert "\n  binary.txt, offset 1: binary: \\xff" in str(told.value)
    assert not (invocation.run_folder / "data/stage.json").exists()
    data(invoke("run", "data.maximum_quarantine_fraction=0.1"))


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.thorough)])
def test_vocabulary_too_large_for_the_corpus(invoke, workers: int) -> None:
    invocation = invoke("run", "tokenizer.vocabulary_size=5000", workers=workers)
    with pytest.raises(DataError, match=r"tokenizer\.vocabulary_size"):
        data(invocation)


def test_full_disk(invoke, monkeypatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    invocation = invoke()
    with monkeypatch.context() as patched:
        patched.setattr(shard_writer.os, "fsync", full)
        with pytest.raises(ArtifactError, match="no space is left"):
            data(invocation)
    assert not list(invocation.run_folder.rglob("*.tfrecord"))
    assert not list(invocation.run_folder.rglob("*.tmp"))
    data(invocation)


def test_everything_filtered(invoke) -> None:
    with pytest.raises(DataError, match="no document is left for training"):
        data(invoke("run", "data.cleaning.minimum_characters=100000"))


def test_altered_and_truncated_shards(done: Path, tmp_path: Path) -> None:
    manifest = read_manifest(copy_of(done / "run/data", tmp_path / "data"))
    path = manifest.folder / manifest.split("train")[0].path
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(ArtifactError, match=r"bytes, the manifest says .* truncated"):
        manifest.check_files()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ArtifactError, match="altered"):
        manifest.check_files()
    path.unlink()
    with pytest.raises(ArtifactError, match="missing"):
        manifest.check_files()


def test_near_copies_of_validation_documents_are_not_trained_on(invoke, corpus) -> None:
    words = [f"word{i}" for i in range(60)]
    texts = []
    for number in range(120):  # each 30 words, and again with one more
        text = random.Random(number).choices(words, k=30)
        texts += [" ".join(text), " ".join([*text, "end"])]
    for path in corpus.iterdir():
        path.unlink()
    (corpus / "pairs.txt").write_text("\n\n".join(texts), "utf-8")
    near = "data.deduplication={near: {similarity: 0.7}}"
    invocation = invoke("run", near, "tokenizer.vocabulary_size=90")
    counts = data(invocation)["counts"]
    assert counts["read"] == 240
    assert 100 < counts["filtered"]["near duplicate"] <= 120
    manifest = json.loads((invocation.run_folder / "data/manifest.json").read_text())
    # Of 32% of the pairs one is held out; the other, for training, is dropped.
    assert 15 < manifest["leaks_prevented"] < 60
    assert manifest["leaks_left"] == 0
    rows = pq.read_table(invocation.run_folder / "data/duplicates.parquet").to_pylist()
    assert len(rows) == counts["filtered"]["near duplicate"]
    offsets = [0, *np.cumsum([len(text) + 2 for text in texts]).tolist()]
    pairs = {frozenset(pair) for pair in zip(offsets[::2], offsets[1::2], strict=False)}
    assert {frozenset((row["offset"], row["of_offset"])) for row in rows} <= pairs
    assert {row["source"] for row in rows} == {"pairs.txt"}
    assert manifest["duplicates"]["near"]["across"] == manifest["leaks_prevented"]
    assert sum(manifest["duplicates"]["near"].values()) == len(rows)
