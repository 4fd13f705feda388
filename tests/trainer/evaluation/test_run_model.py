"""A model that was imported is judged on a test set, as others would judge it."""

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.model.conftest import without_jax
from tests.model.weights.hugging_face_checkpoints import CASES
from tests.small_run import paragraphs
from tests.trainer.importing.hugging_face_checkpoints import write_bert, write_gpt2
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.yaml_config import load_run
from transbeam.model.build import build_model
from transbeam.model.weights.safetensors_store import load_initial_weights
from transbeam.pipeline.stage import data
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer
from transbeam.trainer.base.training_stage import is_as_imported
from transbeam.trainer.evaluation.evaluate_command import evaluate_run
from transbeam.trainer.evaluation.run_model import find_run_model
from transbeam.trainer.importing.import_command import import_run

pytestmark = without_jax
LABELS = ("bad", "so-so", "good")


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Folders of runs as they were imported, by the name of what they are."""
    folder = tmp_path_factory.mktemp("imported")
    write_bert(folder / "classifier", "bert_classifier")
    write_bert(folder / "body", "bert")
    write_gpt2(folder / "gpt2")
    CASES["vit_classifier"].write(folder / "vit")
    for name in ("classifier", "body", "gpt2", "vit"):
        import_run(folder / name, folder / f"runs/{name}", (), Console(quiet=True))
    return folder / "runs"


@pytest.fixture
def imported(runs, tmp_path) -> Callable[..., Invocation]:
    """Makes invocations over a copy of an imported run, with keys replaced."""

    def make(name: str, *overrides: str) -> Invocation:
        folder = tmp_path / "run"
        if not folder.exists():
            shutil.copytree(runs / name, folder)
        return Invocation(
            config=load_run(folder / "run.yaml", overrides, with_model=True),
            config_file=folder / "run.yaml",
            overrides=overrides,
            run_folder=folder,
            console=Console(quiet=True),
            workers=1,
        )

    return make


def unpacked(run: Invocation) -> tuple[keras.Model, Tokenizer]:
    """The imported model on plain inputs, and what reads texts for it."""
    folder = run.run_folder / "imported"
    tokenizer = load_tokenizer(folder / "tokenizer")
    config, pieces = run.config, tokenizer.vocabulary_size
    model = build_model(config.model, config.objective, pieces, segments=False)
    assert load_initial_weights(model, folder / "weights.safetensors") == []
    return model, tokenizer


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def test_a_decoder_has_perplexity_and_bits_per_byte(imported, tmp_path) -> None:
    texts = [f"the {number} in the batch" for number in range(7)]
    (tmp_path / "test.txt").write_text("\n\n".join(texts))
    run = imported("gpt2", f"evaluation.test={{kind: text, path: {tmp_path}/test.txt}}")
    result = evaluate_run(run, on_test=True)

    model, tokenizer = unpacked(run)
    nats = tokens = size = 0
    for text in texts:
        ids = [*tokenizer.tokenize([text]).to_list()[0], tokenizer.special.end]
        row = np.array([ids], np.int32)
        inputs = {"token_ids": row, "padding_mask": np.ones_like(row)}
        scores = log_softmax(np.asarray(model(inputs)["logits"], np.float64)[0])
        nats -= sum(scores[place, token] for place, token in enumerate(ids[1:]))
        tokens += len(ids) - 1
        size += len(text) - 1  # the first token, a byte here, is given
    assert result["predictions"] == tokens
    found = {name: of["score"] for name, of in result["scores"].items()}
    assert found["nats_per_token"] == pytest.approx(nats / tokens, rel=1e-5)
    assert found["perplexity"] == pytest.approx(np.exp(nats / tokens), rel=1e-5)
    assert found["bits_per_byte"] == pytest.approx(nats / np.log(2) / size, rel=1e-5)
    assert result["model"] == str(run.run_folder / "imported/weights.safetensors")


def test_a_classifier_has_accuracy_on_a_table(imported, tmp_path) -> None:
    texts = paragraphs(9)
    labels = [LABELS[number % 3] for number in range(8)] + ["unheard of"]
    with (tmp_path / "test.csv").open("w", newline="") as file:
        rows = zip(texts, labels, strict=True)
        csv.writer(file).writerows([("text", "label"), *rows])
    run = imported(
        "classifier",
        f"evaluation.test={{kind: csv, path: {tmp_path}/test.csv, "
        "columns: {label: label}}",
        "data.sequence_length=64",  # other records than the import thought of
    )
    result = evaluate_run(run, on_test=True)

    model, tokenizer = unpacked(run)
    right = 0
    for text, label in zip(texts[:8], labels, strict=False):
        row = np.array(
            [[2, *tokenizer.tokenize([text]).to_list()[0][:62], 3]], np.int32
        )
        inputs = {"token_ids": row, "padding_mask": np.ones_like(row)}
        right += LABELS[int(np.argmax(model(inputs)["logits"]))] == label
    assert result["scores"]["accuracy"]["score"] == pytest.approx(right / 8)
    assert list(result["left_out"].values()) == [1]
    assert (run.run_folder / "evaluation/test/report.html").is_file()


@pytest.mark.thorough(instead="test_a_classifier_has_accuracy_on_a_table")
def test_what_reads_images_needs_no_tokenizer(imported, tmp_path) -> None:
    run = imported("vit")
    shape = run.config.objective.image_size, run.config.objective.channels
    pixels = np.random.default_rng(2).integers(0, 256, (6, shape[0], *shape), "uint8")
    labels = np.array(LABELS * 2)
    np.savez(tmp_path / "test.npz", images=pixels, labels=labels)
    test = f"evaluation.test={{kind: arrays, path: {tmp_path}/test.npz}}"
    result = evaluate_run(imported("vit", test), on_test=True)
    assert result["predictions"] == 6


def test_a_head_that_nobody_trained_is_refused(imported, tmp_path) -> None:
    (tmp_path / "test.txt").write_text("the model")
    test = f"evaluation.test={{kind: text, path: {tmp_path}/test.txt}}"
    with pytest.raises(
        ArtifactError, match=r"head_dense.*objective\.kind=masked has learned nothing"
    ):
        evaluate_run(imported("body", test), on_test=True)


def test_without_records_there_is_no_validation_split(imported) -> None:
    with pytest.raises(ArtifactError, match=r"evaluation\.test, and add --test; or"):
        evaluate_run(imported("gpt2"))


def test_another_model_is_told_by_its_keys(imported) -> None:
    run = imported("gpt2", "model.feedforward.activation=relu")
    with pytest.raises(ArtifactError, match=r"activation: gelu_tanh there, relu here"):
        find_run_model(run, on_test=True)


def test_without_a_tokenizer_no_text_is_read(imported) -> None:
    run = imported("gpt2")
    shutil.rmtree(run.run_folder / "imported/tokenizer")
    model = find_run_model(run, on_test=True)
    with pytest.raises(ArtifactError, match="imported without its tokenizer"):
        model.tokenizer()


@pytest.mark.thorough(
    instead="test_a_decoder_has_perplexity_and_bits_per_byte, "
    "test_without_records_there_is_no_validation_split"
)
def test_records_made_since_have_a_validation_split(imported, tmp_path) -> None:
    (tmp_path / "corpus.txt").write_text("\n\n".join(paragraphs(60)))
    keys = (
        f"data.source={{kind: text, path: {tmp_path}/corpus.txt}}",
        "data.validation_fraction=0.3",
    )
    data(imported("gpt2", *keys))
    assert is_as_imported(imported("gpt2").run_folder)
    result = evaluate_run(imported("gpt2", *keys))
    assert result["path"].endswith("evaluation/validation")
    assert result["predictions"] > 100
    other = (*keys, "tokenizer={kind: byte_bpe, vocabulary_size: 259, specials: gpt2}")
    data(imported("gpt2", *other))
    with pytest.raises(ArtifactError, match="made with another tokenizer"):
        evaluate_run(imported("gpt2", *other))
