"""From a corpus to records, for every objective, each with tokenizers that fit it."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from configs.command import Invocation
from configs.console import Console
from configs.load import load_run
from configs.tokenizer import UnigramConfig, WordPieceConfig
from pipeline.__main__ import main
from pipeline.document_batch import DocumentBatch
from pipeline.examples import parse_records
from pipeline.features import check_arrays
from pipeline.manifest import Manifest, read_manifest
from pipeline.objectives import contract
from pipeline.shards import Shard
from pipeline.stage import data
from pipeline.tokenizers.artifact import save_tokenizer
from pipeline.tokenizers.making import learn_model
from tests.docs import ROOT
from tests.small_run import SENTENCE, WORDS
from trainer.input import validation_batches

YAML = """
name: job
seed: 5
data:
  source: {SOURCE}
  sequence_length: 32
  shard_megabytes: 0.006
  validation_fraction: 0.2
  LAYOUT
tokenizer: {TOKENIZER}
objective: {OBJECTIVE}
"""

TEXTS = "kind: jsonl, path: FOLDER/documents.jsonl"
WORDPIECE = "kind: wordpiece, vocabulary_size: 120"
BYTES = "kind: byte_bpe, vocabulary_size: 300"
ROBERTA = f"{BYTES}, specials: roberta"
T5 = "kind: unigram, vocabulary_size: 64, num_sentinels: 12"
ALBERT = "kind: unigram, vocabulary_size: 64, specials: albert"


@dataclass(frozen=True)
class Case:
    """An objective with a source and a tokenizer; what its records look like.

    Attributes:
        objective: YAML.
        tokenizer: YAML.
        source: YAML.
        layout: More YAML for `data`.
        shown: What `--inspect` must show of the first record, as it stands there.
    """

    objective: str
    tokenizer: str
    source: str = TEXTS
    layout: str = ""
    shown: tuple[str, ...] = ("token_ids  ",)


def with_columns(columns: str) -> str:
    return f"{TEXTS}, columns: {{{columns}}}"


CASES = {
    "masked": Case("kind: masked, copies: 2", WORDPIECE, shown=("[CLS] ", "[MASK]{")),
    "masked_dynamic": Case(
        "kind: masked, masking: dynamic, whole_words: true",
        ROBERTA,
        layout="compression: gzip",
        shown=("<s> ", " </s>", "word_ids  "),
    ),
    "masked_bucketed": Case(
        "kind: masked",
        "kind: pretrained, path: FOLDER/vocab.txt",
        layout="layout: {kind: bucketed, lengths: [16, 32]}",
    ),
    "sentence_pairs": Case("kind: sentence_pairs", ALBERT, shown=("[SEP] ", "label  ")),
    "causal": Case("kind: causal", BYTES, shown=("<|endoftext|>", "target_ids  ")),
    "prefix": Case("kind: prefix", T5, shown=("</s>", "prefix_mask  ")),
    "span_corruption": Case(
        "kind: span_corruption",
        T5,
        shown=("encoder_token_ids  ", "decoder_token_ids  ", "<extra_id_0>"),
    ),
    "seq2seq": Case(
        "kind: seq2seq, decoder_length: 16",
        "kind: pretrained, path: FOLDER/unigram",
        with_columns("target_text: target"),
        shown=("encoder_token_ids  ", "decoder_token_ids  <pad> ", "target_ids  "),
    ),
    "text_to_text": Case(
        "kind: text_to_text, source: 'mood: {text}', target: 'it is {label}', "
        "decoder_length: 16",
        "kind: pretrained, path: FOLDER/unigram",
        with_columns("label: mood"),
        shown=("encoder_token_ids  ▁ m o o d ", "decoder_token_ids  <pad> "),
    ),
    "classification": Case(
        "kind: classification, labels: [calm, cross]",
        "kind: pretrained, path: FOLDER/vocab.txt",
        with_columns("label: mood"),
        shown=("[CLS] ", "label  "),
    ),
    "pair_classification": Case(
        "kind: pair_classification, labels: [calm, cross]",
        WORDPIECE,
        with_columns("second_text: title, label: mood"),
        shown=("[SEP] ", "segment_ids  ", "label  "),
    ),
    "token_classification": Case(
        "kind: token_classification, labels: [O, NOUN]",
        ROBERTA,
        with_columns("words: words, tags: tags"),
        shown=("<s> ", "label_ids  "),
    ),
    "span_qa": Case(
        "kind: span_qa, stride: 8, max_question_length: 8",
        "kind: pretrained, path: FOLDER/wordpiece",
        "kind: squad, path: FOLDER/questions.json",
        shown=("[SEP] ", "start_position  ", "end_position  "),
    ),
    "image_classification": Case(
        "kind: image_classification, labels: ['0', '1', '2'], image_size: 4",
        WORDPIECE,
        "kind: arrays, path: FOLDER/images.npz",
        shown=("image  [", "label  "),
    ),
}


def words_from(start: int, count: int) -> list[str]:
    return [WORDS[place % len(WORDS)] for place in range(start, start + count)]


def documents(count: int) -> Iterator[dict[str, Any]]:
    """Different documents of one to four sentences, with all that can go with them."""
    for i in range(count):
        sentences = [words_from(i * 7 + s, 3 + (i + s) % 9) for s in range(1 + i % 4)]
        words = [*sentences[0], str(i)]
        yield {
            "text": f"{i} "
            + " ".join(f"{' '.join(s).capitalize()}." for s in sentences),
            "title": " ".join(words_from(i, 4)),
            "target": f"{words[-2]} {i}",
            "mood": ("calm", "cross")[i % 2],
            "words": words,
            "tags": ["NOUN" if len(word) > 4 else "O" for word in words],
        }


def questions(count: int) -> Iterator[dict[str, Any]]:
    """Paragraphs longer than a record, with a question each."""
    for i in range(count):
        context = f"{SENTENCE} {i} {SENTENCE}"
        start = context.index(WORDS[i % 12])
        answer = {"text": WORDS[i % 12], "answer_start": start}
        asked = {"question": f"what is word {i % 12}?", "answers": [answer]}
        yield {"paragraphs": [{"context": context, "qas": [asked]}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The corpora and the tokenizers that are brought along."""
    folder = tmp_path_factory.mktemp("job")
    lines = "".join(f"{json.dumps(row)}\n" for row in documents(80))
    (folder / "documents.jsonl").write_text(lines, "utf-8")
    squad = {"data": list(questions(30))}
    (folder / "questions.json").write_text(json.dumps(squad), "utf-8")
    images = np.random.default_rng(0).integers(0, 256, (40, 4, 4, 3), np.uint8)
    np.savez(folder / "images.npz", images=images, labels=np.arange(40) % 3)

    counts = {word: 5 + len(word) for word in WORDS}
    wordpiece = learn_model(counts, WordPieceConfig(vocabulary_size=90))
    save_tokenizer(folder / "wordpiece", wordpiece)
    vocabulary = (folder / "wordpiece/vocab.txt").read_bytes()
    (folder / "vocab.txt").write_bytes(vocabulary)
    unigram = UnigramConfig(vocabulary_size=40)
    save_tokenizer(folder / "unigram", learn_model(counts, unigram))
    return folder


def invocation(folder: Path, name: str, run: str, *beam: str) -> Invocation:
    case = CASES[name]
    text = YAML
    for key in ("source", "layout", "tokenizer", "objective"):
        text = text.replace(key.upper(), getattr(case, key))
    file = folder / f"{name}.yaml"
    file.write_text(text.replace("FOLDER", str(folder)), "utf-8")
    return Invocation(
        config=load_run(file),
        config_file=file,
        overrides=(),
        run_folder=folder / run / name,
        console=Console(quiet=True),
        workers=1,
        beam_options=beam,
    )


@dataclass(frozen=True)
class Made:
    """A finished run of a case."""

    case: str
    invocation: Invocation
    result: dict[str, Any]
    manifest: Manifest


@pytest.fixture(scope="module", params=CASES)
def made(folder: Path, request) -> Made:
    """Each case is made once, for all that is asked of it."""
    run = invocation(folder, request.param, "one")
    result = data(run)
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
    alone = {"fewer than two sentences": 5} if made.case == "sentence_pairs" else {}
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
        lines = (folder.parents[2] / "documents.jsonl").read_bytes()
        column = "words" if made.case == "token_classification" else "text"
        for (_, offset), text in texts.items():
            told = json.loads(lines[offset : lines.index(b"\n", offset)])[column]
            assert text.decode() == (told if column == "text" else " ".join(told))
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


def test_inspection(made: Made, capsys) -> None:
    arguments = ["data", str(made.invocation.config_file), "--inspect", "40"]
    assert main([*arguments, "--run", str(made.invocation.run_folder)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("skipped: ")
    first = made.manifest.split("train")[0]
    assert f"\n{Path(first.path).name.split('.')[0]}, record 0\n  from  " in said
    for words in CASES[made.case].shown:
        assert words in said
    arguments = [*arguments, "--quiet"]
    assert main([*arguments, "--run", str(made.invocation.run_folder)]) == 0
    assert capsys.readouterr().out == said.partition("\n")[2]


def test_same_bytes_with_threads(made: Made, folder: Path) -> None:
    threads = ("--direct_running_mode=multi_threading", "--direct_num_workers=2")
    other = invocation(folder, made.case, "two", *threads)
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


def test_compressed_records_reach_the_trainer(folder: Path) -> None:
    run = invocation(folder, "masked", "gzip")
    run = replace(run, config=load_run(run.config_file, ["data.compression=gzip"]))
    data(run)
    manifest = read_manifest(run.run_folder / "data")
    shards = manifest.split("validation")
    assert all(shard.path.endswith(".tfrecord.gz") for shard in shards)
    rows = np.concatenate([arrays_of(manifest, s)["token_ids"] for s in shards])
    batches = [inputs["token_ids"] for inputs, *_ in validation_batches(manifest, 4)]
    read = np.concatenate(batches)
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
        ("Sources", "data.source", 16),
        ("Tokenizers", "tokenizer", 4),
        ("Objectives", "objective", 13),
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
