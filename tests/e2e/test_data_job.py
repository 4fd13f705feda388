"""From a corpus to records, for every objective, each with tokenizers that fit it."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from tests.docs import ROOT
from tests.e2e.cases import CASES, finished, invocation
from tests.harness.stages import copy_of
from tests.model.conftest import others_thorough
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.loader.yaml_config import load_run
from transbeam.pipeline.__main__ import main
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.kinds import contract
from transbeam.pipeline.records.features import check_arrays
from transbeam.pipeline.records.manifest import Manifest, Shard, read_manifest
from transbeam.pipeline.records.tf_example import parse_records
from transbeam.pipeline.stage import data, data_stage
from transbeam.trainer.input.batches import validation_batches


@dataclass(frozen=True)
class Made:
    """A finished run of a case."""

    case: str
    invocation: Invocation
    result: dict[str, Any]
    manifest: Manifest


# Kinds like one that is quick: another label, or another task of the same pairs.
RARELY = ("sentence_order", "pair_regression", "text_to_text")
CONTRACT = pytest.mark.thorough(instead="test_records_keep_the_contract")
# Each kind of tokenizer, and images.
QUICK = ("masked", "sentence_pairs", "causal", "image_classification")
some_quick = pytest.mark.parametrize(
    "made", others_thorough(CASES, QUICK), indirect=True
)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=CONTRACT if name in RARELY else ()) for name in CASES
    ],
)
def made(request) -> Made:
    """Each case is made once, for all that is asked of it."""
    run = finished(request.param)
    result = data_stage(run.run_folder).load()["result"]
    return Made(request.param, run, result, read_manifest(run.run_folder / "data"))


def arrays_of(manifest: Manifest, shard: Shard) -> dict[str, np.ndarray]:
    """The records of a shard, parsed as the trainer does."""
    serialized = tf.data.TFRecordDataset(
        str(manifest.folder / shard.path), compression_type=shard.compression
    )
    (batch,) = serialized.batch(10_000)
    parsed = parse_records(batch, manifest.features_of(shard))
    return {name: tensor.numpy() for name, tensor in parsed.items()}


def test_records_keep_the_contract(made: Made) -> None:
    manifest = made.manifest
    assert manifest.features == contract(made.invocation.config)
    manifest.check_files()
    assert {shard.split for shard in manifest.shards} == {"train", "validation"}
    for shard in manifest.shards:
        arrays = arrays_of(manifest, shard)
        check_arrays(arrays, manifest.features_of(shard))
        assert {len(array) for array in arrays.values()} == {shard.records}
        for name, array in arrays.items():
            if name.endswith("token_ids"):
                assert array.min() >= 0
                assert array.max() < manifest.vocabulary["size"]
            elif array.dtype.kind == "f":
                assert np.isfinite(array).all()


def test_books_balance(made: Made) -> None:
    counts = made.result["counts"]
    read = {"span_qa": 30, "image_classification": 40}.get(made.case, 80)
    # Of a single sentence of less than half a record there is no pair.
    of_pairs = made.case in ("sentence_pairs", "sentence_order")
    alone = {"fewer than two sentences": 5} if of_pairs else {}
    assert counts["read"] == read
    assert counts["filtered"] == alone
    assert counts["quarantined"] == {}
    assert sum(counts["documents"].values()) == read - sum(alone.values())
    for split in ("train", "validation"):
        shards = made.manifest.split(split)
        assert counts["records"][split] == sum(shard.records for shard in shards)
        arrays = [arrays_of(made.manifest, shard) for shard in shards]
        padding = [
            np.sum(array == 0)
            for one in arrays
            for name, array in one.items()
            if name.endswith("document_ids")
        ]
        assert counts.get("padding", {}).get(split, 0) == sum(padding)
        weights = [one[n] for one in arrays for n in one if n == "masked_weights"]
        if weights:
            assert counts["predictions"][split] == sum(w.sum() for w in weights)


def test_provenance_leads_back_to_the_documents(made: Made) -> None:
    folder = made.manifest.folder
    texts: dict[tuple[str, int], bytes] = {}
    for path in (folder / "documents").iterdir():
        batch = DocumentBatch.load(path)
        places = zip(batch.values("source"), batch.values("offset"), strict=True)
        texts.update(zip(places, batch.texts(), strict=True))
    if made.invocation.config.data.source.kind == "jsonl":
        lines = Path(made.invocation.config.data.source.path).read_bytes()
        for (_, offset), text in texts.items():
            row = json.loads(lines[offset : lines.index(b"\n", offset)])
            told = row.get("text")
            if "words: words" in CASES[made.case].source:
                told = " ".join(row["words"])
            elif made.case == "dialogue":
                told = "\n".join(message["content"] for message in row["messages"])
            assert text.decode() == told
    found: dict[str, set[tuple[str, int]]] = {"train": set(), "validation": set()}
    for shard in made.manifest.shards:
        name = Path(shard.path).name.split(".")[0]
        rows = pq.read_table(folder / f"provenance/{name}.parquet").to_pylist()
        assert {row["record"] for row in rows} == set(range(shard.records))
        found[shard.split] |= {(row["source"], row["offset"]) for row in rows}
    assert not found["train"] & found["validation"]
    used = found["train"] | found["validation"]
    assert used <= texts.keys()
    assert len(used) == sum(made.result["counts"]["documents"].values())


@some_quick
def test_inspection(made: Made, tmp_path: Path, capsys) -> None:
    run = copy_of(made.invocation.run_folder, tmp_path / made.case)
    arguments = ["data", str(made.invocation.config_file), "--inspect", "40"]
    arguments += ["--run", str(run)]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert said.startswith("skipped: ")
    first = made.manifest.split("train")[0]
    assert f"\n{Path(first.path).name.split('.')[0]}, record 0\n  from  " in said
    for words in CASES[made.case].shown:
        assert words in said
    assert main([*arguments, "--quiet"]) == 0
    assert capsys.readouterr().out == said.partition("\n")[2]


@some_quick
def test_same_bytes_with_threads(made: Made, tmp_path: Path) -> None:
    threads = ("--direct_running_mode=multi_threading", "--direct_num_workers=2")
    other = invocation(tmp_path, made.case, *threads)
    result = data(other)
    assert result["records_sha256"] == made.result["records_sha256"]
    assert contents(other.run_folder) == contents(made.invocation.run_folder)


def contents(run_folder: Path) -> dict[str, bytes]:
    """All that makes a data set."""
    folder = run_folder / "data"
    kept = ("records", "documents", "provenance", "tokenizer")
    paths = [path for name in kept for path in (folder / name).iterdir()]
    paths += [*folder.glob("card.*"), *folder.glob("statistics.json")]
    paths += [folder / "manifest.json"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_compressed_records_reach_the_trainer() -> None:
    run = finished("masked_dynamic")  # which says `compression: gzip`
    manifest = read_manifest(run.run_folder / "data")
    shards = manifest.split("validation")
    assert all(shard.path.endswith(".tfrecord.gz") for shard in shards)
    rows = np.concatenate([arrays_of(manifest, s)["token_ids"] for s in shards])
    batches = validation_batches(manifest, 4)
    read = np.concatenate([batch["token_ids"] for batch in batches])
    assert sorted(map(bytes, read)) == sorted(map(bytes, rows))


@pytest.mark.parametrize(
    "file", sorted((ROOT / "configs/tiny").glob("*.yaml")), ids=lambda file: file.stem
)
def test_tiny_configurations(file: Path) -> None:
    config = load_run(file)
    assert contract(config)
    # Named after its objective, or after the preset that it is the twin of.
    is_twin = (ROOT / "configs/presets" / file.name).exists()
    assert is_twin or config.objective.kind == file.stem


GUIDE = ROOT / "docs/data.md"


def rows_of_guide(title: str) -> list[list[str]]:
    """The cells of the tables in a section of the guide whose first is a setting."""
    text = GUIDE.read_text("utf-8")
    section = text.split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines()]
    return [cells for cells in rows if cells[0].startswith("`{kind: ")]


@pytest.mark.parametrize(
    ("title", "key", "count"),
    [
        ("Sources", "data.source", 18),
        ("Tokenizers", "tokenizer", 4),
        ("Objectives", "objective", 19),
    ],
)
def test_settings_in_the_guide(title: str, key: str, count: int) -> None:
    rows = rows_of_guide(title)
    assert len(rows) == count
    for setting, *_ in rows:
        load_run(ROOT / "configs/tiny/causal.yaml", [*ALONE, f"{key}={setting[1:-1]}"])


# A setting shown for one section must not be refused because of another.
ALONE = ["data.deduplication={}", "data.sequence_length=128"]


def test_features_in_the_guide() -> None:
    common = {"token_ids", "document_ids", "position_ids"}
    shown = {"masked": set(), "causal": set()}
    for setting, _, features in rows_of_guide("Objectives"):
        override = f"objective={setting[1:-1]}"
        config = load_run(ROOT / "configs/tiny/causal.yaml", [*ALONE, override])
        kind = config.objective.kind
        told = set(re.findall(r"`(\w+)`", features)) - {"sentence_order_label"}
        for other in ("masked", "causal"):
            if f"as `{other}`" in features:
                told |= shown[other]
                told.remove(other)
        if "masking: dynamic" not in setting:
            shown[kind] = told
        names = {feature.name for feature in contract(config)}
        sides = ("encoder_", "decoder_") if "encoder and decoder" in features else ("",)
        framework = {side + name for side in sides for name in common}
        assert names - (set() if "no tokens" in features else framework) == told
