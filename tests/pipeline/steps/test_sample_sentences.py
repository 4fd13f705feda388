"""Wrong pairs come from other documents, wherever these lie."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.pipeline.objectives.language_tokenizer import WORDS
from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.model import EncoderConfig
from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.pipeline.documents.document import Split, document_hash
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.documents.document_selection import select_documents
from transbeam.pipeline.documents.step_markers import DocumentPart
from transbeam.pipeline.objectives.sentence_pairs import make_records
from transbeam.pipeline.sources.corpus_files import list_files
from transbeam.pipeline.sources.work_units import plan_units
from transbeam.pipeline.steps import sample_sentences as elsewhere
from transbeam.pipeline.steps.clean_documents import prepare_unit
from transbeam.pipeline.steps.sample_sentences import load_negatives, sample_sentences

NUM_LINES = 60


def write_corpus(folder: Path, number: int) -> None:
    """Files of lines whose first word says which file it is, the second which line."""
    letters = WORDS.pieces[45 : 45 + 26]
    folder.mkdir()
    for row in range(number):
        lines = [f"w{row} w{line} {letters[line % 26]}" for line in range(NUM_LINES)]
        (folder / f"{row:02}.txt").write_text("\n".join(lines))


def run_over(folder: Path, fraction: float = 0.0, **data: object) -> RunConfig:
    source = TextSourceConfig(path=f"{folder}/*.txt", document="file")
    return RunConfig(
        name="x",
        data=DataConfig(
            source=source, sequence_length=32, validation_fraction=fraction, **data
        ),
        objective=SentencePairsConfig(sentences="lines"),
        model=EncoderConfig(num_segments=2),
    )


def prepared(run: RunConfig, folder: Path, unit_bytes: int) -> list[DocumentPart]:
    for name in ("state", "documents"):
        (folder / name).mkdir(parents=True)
    units = plan_units(list_files(run.data.source), run.data.source, unit_bytes)
    return [part for unit in units for part in prepare_unit(unit, run, folder)]


def labels(
    run: RunConfig, folder: Path, parts: list[DocumentPart], split: Split
) -> list[int]:
    """The label of each record; each is held against the texts it is of."""
    found = []
    for part in parts:
        batch = select_documents(folder, part, run).splits[split]
        if not len(batch):
            continue
        others = load_negatives(run, folder, part.name, split, batch)
        records = make_records(batch, WORDS, run, split, others)
        found += records.arrays["next_sentence_label"].tolist()
        assert len(records.placement.document) == 2 * len(records)
        whole = batch if others is None else DocumentBatch.of_batches([batch, others])
        sources = np.array(whole.values("source"))[records.placement.document]
        for label, (one, two) in zip(
            records.arrays["next_sentence_label"], sources.reshape(-1, 2), strict=True
        ):
            assert (one != two) == label
    return found


@pytest.mark.parametrize("unit_bytes", [1, 5_000, 10**6])
def test_half_of_the_pairs_are_wrong_whatever_the_unit(tmp_path, unit_bytes) -> None:
    write_corpus(tmp_path / "corpus", 40)
    run = run_over(tmp_path / "corpus", 0.2)
    parts = prepared(run, tmp_path / "data", unit_bytes)
    sample_sentences(run, tmp_path / "data")
    for split in ("train", "validation"):
        found = labels(run, tmp_path / "data", parts, split)
        # Four standard deviations of a fair coin.
        assert abs(np.mean(found) - 0.5) < 2 / np.sqrt(len(found)), split
        assert len(found) > 50


def test_one_validation_document_is_paired_with_training_ones(tmp_path) -> None:
    write_corpus(tmp_path / "corpus", 8)
    texts = [path.read_text() for path in (tmp_path / "corpus").iterdir()]
    keys = sorted(document_hash(text) / 2**64 for text in texts)
    run = run_over(tmp_path / "corpus", (keys[0] + keys[1]) / 2)
    parts = prepared(run, tmp_path / "data", 1)
    sample_sentences(run, tmp_path / "data")
    found = labels(run, tmp_path / "data", parts, "validation")
    assert set(found) == {0, 1}


def test_training_takes_nothing_of_validation(tmp_path) -> None:
    write_corpus(tmp_path / "corpus", 40)
    run = run_over(tmp_path / "corpus", 0.3)
    prepared(run, tmp_path / "data", 10**6)
    sample_sentences(run, tmp_path / "data")
    for split in ("train", "validation"):
        sample = DocumentBatch.load(tmp_path / f"data/state/elsewhere-{split}.arrow")
        held_out = sample.keys < np.uint64(0.3 * 2.0**64)
        assert held_out.all() if split == "validation" else not held_out.any()
        assert len(sample) > len(np.unique(sample.keys)) > 5


@pytest.mark.parametrize("number", [1, 2])
def test_a_corpus_of_one_document_is_refused(tmp_path, number) -> None:
    write_corpus(tmp_path / "corpus", 1)
    if number == 2:
        (tmp_path / "corpus/alone.txt").write_text("a single line")
    run = run_over(tmp_path / "corpus")
    prepared(run, tmp_path / "data", 10**6)
    with pytest.raises(DataError, match="there are 1 training and 0 validation doc"):
        sample_sentences(run, tmp_path / "data")


def test_copies_of_a_document_are_no_strangers(tmp_path) -> None:
    write_corpus(tmp_path / "corpus", 2)
    (tmp_path / "corpus/02.txt").write_text((tmp_path / "corpus/01.txt").read_text())
    run = run_over(tmp_path / "corpus")
    parts = prepared(run, tmp_path / "data", 1)
    sample_sentences(run, tmp_path / "data")
    wrong = []
    for part in parts:
        batch = select_documents(tmp_path / "data", part, run).splits["train"]
        others = load_negatives(run, tmp_path / "data", part.name, "train", batch)
        assert others is not None
        records = make_records(batch, WORDS, run, "train", others)
        whole = DocumentBatch.of_batches([batch, others])
        sources = np.array(whole.values("source"))[records.placement.document]
        labels_ = records.arrays["next_sentence_label"]
        wrong += [{*pair} for pair in sources.reshape(-1, 2)[labels_ == 1].tolist()]
    assert len(wrong) > 10
    assert {"01.txt", "02.txt"} not in wrong


def test_the_sample_does_not_grow_with_the_corpus(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(elsewhere, "_SAMPLE_CHARACTERS", 6 * 32 * 12)
    sizes = []
    for number in (20, 60):
        write_corpus(tmp_path / f"corpus{number}", number)
        run = run_over(tmp_path / f"corpus{number}")
        prepared(run, tmp_path / f"data{number}", 3_000)
        sample_sentences(run, tmp_path / f"data{number}")
        path = tmp_path / f"data{number}/state/elsewhere-train.arrow"
        sizes.append(len(DocumentBatch.load(path)))
    assert sizes == [12, 12]


def test_other_seeds_draw_other_sentences(tmp_path) -> None:
    write_corpus(tmp_path / "corpus", 8)
    run = run_over(tmp_path / "corpus")
    prepared(run, tmp_path / "data", 10**6)
    path = tmp_path / "data/state/elsewhere-train.arrow"
    drawn = []
    for seed in (0, 0, 1):
        sample_sentences(replace(run, seed=seed), tmp_path / "data")
        drawn.append(DocumentBatch.load(path).texts().tolist())
    assert drawn[0] == drawn[1] != drawn[2]


def test_lines_that_cannot_be_paired_are_no_strangers_enough(tmp_path) -> None:
    write_corpus(tmp_path / "corpus", 4)
    for row in range(4):
        for number in range(100):
            title = tmp_path / f"corpus/{row:02}-{number}.txt"
            title.write_text(f"w{row} w{100 + number}")
    size = (tmp_path / "corpus/00.txt").stat().st_size
    run = run_over(tmp_path / "corpus")
    # In each unit one document of sentences, and titles.
    parts = prepared(run, tmp_path / "data", size + 100 * len("w0 w100"))
    batches = [select_documents(tmp_path / "data", part, run) for part in parts]
    assert min(len(batch.splits["train"]) for batch in batches) > 70
    sample_sentences(run, tmp_path / "data")
    found = labels(run, tmp_path / "data", parts, "train")
    assert abs(np.mean(found) - 0.5) < 2 / np.sqrt(len(found))


def test_many_copies_are_no_strangers_enough(tmp_path) -> None:
    write_corpus(tmp_path / "corpus", 2)
    text = (tmp_path / "corpus/01.txt").read_text()
    for number in range(30):
        (tmp_path / f"corpus/copy{number}.txt").write_text(text)
    lines = [f"w0 w{line % 500} a b c d e f" for line in range(2_000)]
    (tmp_path / "corpus/00.txt").write_text("\n".join(lines))
    run = run_over(tmp_path / "corpus")
    # The other document is in a unit of its own.
    size = (tmp_path / "corpus/00.txt").stat().st_size
    _, part = prepared(run, tmp_path / "data", size)
    sample_sentences(run, tmp_path / "data")
    batch = select_documents(tmp_path / "data", part, run).splits["train"]
    others = load_negatives(run, tmp_path / "data", part.name, "train", batch)
    assert others is not None
    records = make_records(batch, WORDS, run, "train", others)
    assert abs(records.arrays["next_sentence_label"].mean() - 0.5) < 0.1


def test_a_sample_that_is_drawn_anew_is_read_anew(tmp_path) -> None:
    write_corpus(tmp_path / "corpus", 3)
    run = run_over(tmp_path / "corpus")
    (part,) = prepared(run, tmp_path / "data", 10**6)
    batch = select_documents(tmp_path / "data", part, run).splits["train"]
    found = []
    for seed in (0, 1):
        sample_sentences(replace(run, seed=seed), tmp_path / "data")
        others = load_negatives(run, tmp_path / "data", part.name, "train", batch)
        assert others is not None
        found.append(others.texts().tolist())
    assert found[0] != found[1]
