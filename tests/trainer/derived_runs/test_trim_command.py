"""A model with a smaller vocabulary answers the texts of its corpus as before."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from tests.small_run import paragraphs
from tests.trainer.importing.hugging_face_checkpoints import (
    PIECES,
    write_bert,
    write_gpt2,
)
from tests.trainer.masked_logits import scores
from transbeam.configs.loader.yaml_config import load_run
from transbeam.pipeline.tokenizers.files.tokenizer_folder import read_tokenizer
from transbeam.serving.base.trained_run import TrainedRun, load_trained

TEXTS = [text.rpartition(" ")[0] for text in paragraphs(12)]


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    """The arguments of `--set`."""
    (tmp_path / "corpus.txt").write_text("\n\n".join(TEXTS))
    return f"data.source={{kind: text, path: {tmp_path}/corpus.txt}}"


@pytest.fixture
def imported(command, tmp_path) -> Path:
    run_folder = tmp_path / "run"
    folder = write_bert(tmp_path / "published", "bert_masked")
    assert command("import", folder, "--run", run_folder)["code"] == 0
    return run_folder


def old_ids(before: TrainedRun, after: TrainedRun) -> list[int]:
    return [before.tokenizer.pieces.index(piece) for piece in after.tokenizer.pieces]


def check_same_answers(old: Path, new: Path) -> None:
    before, after = load_trained(old), load_trained(new)
    assert after.tokenizer.vocabulary_size < before.tokenizer.vocabulary_size
    pieces, answers = scores(before, TEXTS)
    pieces_after, answers_after = scores(after, TEXTS)
    assert pieces_after == pieces
    kept = old_ids(before, after)
    for expected, found in zip(answers, answers_after, strict=True):
        # The same products of the same numbers, in a matrix of another width.
        np.testing.assert_allclose(found, expected[:, kept], rtol=0, atol=1e-5)


def test_a_masked_model_reads_and_answers_as_before(
    imported, command, corpus, tmp_path
):
    new = tmp_path / "small"
    result = command("trim", imported, "--run", new, "--set", corpus)
    assert result["code"] == 0
    assert result["changed_words"] == 0
    assert result["words"] == sum(len(text.split()) for text in TEXTS)
    assert result["exportable"]
    check_same_answers(imported, new)
    kept = read_tokenizer(new / "imported/tokenizer").model.pieces
    assert result["pieces"] == len(kept) < len(PIECES)
    # Digits are nowhere in the texts.
    assert not set("0123456789") & set(kept)
    for name in ("imported/weights.safetensors", "training/model.weights.h5"):
        assert (new / name).stat().st_size < (imported / name).stat().st_size
    assert result["parameters"] < result["parameters_before"]
    run = load_run(new / "run.yaml", with_model=True)
    assert run.tokenizer.path == str(new / "imported/tokenizer")
    assert run.training.initial_weights == str(new / "imported/weights.safetensors")


def test_a_decoder_by_bytes_does_too(command, corpus, tmp_path):
    old, new = tmp_path / "run", tmp_path / "small"
    folder = write_gpt2(tmp_path / "published")
    assert command("import", folder, "--run", old)["code"] == 0
    (tmp_path / "corpus.txt").write_text("a tall tree")
    result = command("trim", old, "--run", new, "--set", corpus)
    assert result["code"] == 0
    assert result["changed_words"] == 0
    model = read_tokenizer(new / "imported/tokenizer").model
    assert model.merges == (("Ġ", "t"),)  # and no word begins with `th`
    before, after = load_trained(old), load_trained(new)
    pieces, answers = scores(before, ["a tall tree"])
    pieces_after, answers_after = scores(after, ["a tall tree"])
    assert pieces_after == pieces == [["a", "Ġt", "a", "l", "l", "Ġt", "r", "e", "e"]]
    kept = old_ids(before, after)
    np.testing.assert_allclose(answers_after[0], answers[0][:, kept], rtol=0, atol=1e-5)


@pytest.mark.thorough(
    instead="test_a_masked_model_reads_and_answers_as_before, "
    "test_the_same_again_is_skipped_and_another_is_kept"
)
def test_what_was_trained_is_trimmed_exported_and_trained_on(
    imported, command, corpus, tmp_path
):
    trained, new = tmp_path / "trained", tmp_path / "small"
    file = imported / "run.yaml"
    keys = [
        *("--set", corpus, "--set", "data.sequence_length=32"),
        *("--set", "data.validation_fraction=0.2", "--set", "export.tflite=[]"),
        *("--set", "training.steps=2", "--set", "training.batch_size=2"),
        *("--set", "training.schedule.warmup_steps=0"),
    ]
    for stage in ("data", "train"):
        assert command(stage, file, "--run", trained, *keys)["code"] == 0
    assert command("trim", trained, "--run", new)["changed_words"] == 0
    check_same_answers(trained, new)
    exported = command("export", new / "run.yaml", "--run", new)
    assert exported["code"] == 0
    assert all(row["passed"] for row in exported["parity"])
    for stage in ("data", "train"):
        assert command(stage, new / "run.yaml", "--run", new)["code"] == 0
    assert command("evaluate", new / "run.yaml", "--run", new)["code"] == 0


def test_the_same_again_is_skipped_and_another_is_kept(
    imported, command, corpus, tmp_path
):
    new = tmp_path / "small"
    words = ("trim", imported, "--run", new, "--set", corpus)
    first = command(*words)
    assert command(*words)["skipped"]
    smaller = command(*words, "--max-size", first["pieces"] - 3)
    assert smaller["pieces"] == first["pieces"] - 3
    assert 0 < smaller["changed_words"] < smaller["words"]
    assert (new / "run.before-import.yaml").exists()
    shelf = {path.name.partition("-")[0] for path in (new / "superseded").iterdir()}
    assert shelf >= {"imported", "data", "training"}
    (tmp_path / "corpus.txt").write_text("another")
    assert not command(*words).get("skipped")


def test_a_table_is_rounded_up_again(imported, command, corpus, tmp_path):
    new = tmp_path / "small"
    multiple = ("--set", "model.vocabulary_multiple=64")
    assert (
        command("trim", imported, "--run", new, "--set", corpus, *multiple)["code"] == 0
    )
    table = load_trained(new).model.get_layer("token_embedding").embeddings.numpy()
    assert len(table) % 64 == 0
    assert not table[-1].any()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--run", "{old}"], "is the run that is to be trimmed"),
        (["--max-size", "3"], "max_size=3 is less than the"),
        (["--set", "data.source={kind: text, path: nowhere.txt}"], "nowhere.txt"),
        (["--set", "model.hidden_dim=32"], "is of another model"),
    ],
    ids=lambda value: "",
)
def test_what_is_refused_leaves_nothing(
    imported, command, corpus, tmp_path, words, message
):
    new = tmp_path / "small"
    before = sorted(imported.rglob("*"))
    given = [word.format(old=imported) if "{old}" in word else word for word in words]
    told = command("trim", imported, "--run", new, "--set", corpus, *given)
    assert told["code"] == 2
    assert message in told["error"]
    assert not (new / "run.yaml").exists()
    assert not (new / "imported").exists()
    assert sorted(imported.rglob("*")) == before


def test_a_corpus_that_is_not_whole_is_refused(imported, command, tmp_path):
    whole = gzip.compress("\n\n".join(TEXTS).encode())
    (tmp_path / "a.txt.gz").write_bytes(whole[:-9])
    source = f"data.source={{kind: text, path: {tmp_path}/a.txt.gz}}"
    new = tmp_path / "small"
    told = command("trim", imported, "--run", new, "--set", source)
    assert told["code"] == 2
    assert f"a.txt.gz ends after {len(whole) - 9:,} bytes" in told["error"]
    assert not new.exists()
    accepted = ("--set", source, "--set", "data.accept_incomplete_files=true")
    result = command("trim", imported, "--run", new, *accepted)
    assert result["code"] == 0
    assert "; not read: an unknown rest of a.txt.gz; `transbeam " in result["summary"]
    assert result["unread"]["files"][0]["doubtful"]


def test_a_folder_without_a_model_is_refused(command, tmp_path):
    told = command("trim", tmp_path / "nothing", "--run", tmp_path / "small")
    assert told["code"] == 2
    assert "has no trained model" in told["error"]
