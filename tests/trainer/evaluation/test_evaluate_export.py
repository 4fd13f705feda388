"""An export says of records what the model says that it was made of."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import transbeam
from tests.harness.stages import copy_of, stage
from tests.model.conftest import without_jax
from tests.serving.conftest import TINY, make_run
from tests.serving.untrained import write_signatures
from tests.small_run import paragraphs
from tests.trainer.evaluation.conftest import read_lines
from tests.trainer.importing.hugging_face_checkpoints import write_bert
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import NormalInitializerConfig
from transbeam.configs.schema.model import DecoderConfig
from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    PrefixConfig,
)
from transbeam.configs.schema.tokenizer import ByteBPEConfig
from transbeam.model.build import build_model
from transbeam.serving.base.trained_run import load_trained
from transbeam.serving.phone.conversion.tflite_converter import write_tflite
from transbeam.trainer.evaluation.evaluate_command import evaluate_run
from transbeam.trainer.evaluation.evaluate_export import build_exported, find_export
from transbeam.trainer.evaluation.unpacked_documents import DocumentRows
from transbeam.trainer.importing.import_command import import_run
from transbeam.trainer.objectives.losses import make_loss

pytestmark = without_jax


def make_exported(folder: Path) -> None:
    """A model that was imported, its export, and documents to judge them on."""
    (folder / "test.txt").write_text("\n\n".join(paragraphs(25)))
    write_bert(folder / "bert", "bert_masked")
    test = f"evaluation.test={{kind: text, path: {folder}/test.txt}}"
    keys = (test, "data.sequence_length=48", "training.batch_size=3")
    keys += ("export.tflite=[float32]", "export.tflite_masks=2")
    import_run(folder / "bert", folder / "run", keys, Console(quiet=True))
    trained = load_trained(folder / "run")
    version = folder / "run/export/saved_model/3"
    write_signatures(trained, version, "fill_mask", "tokenize")


@pytest.fixture
def run(tmp_path) -> Callable[..., Invocation]:
    """Makes invocations over a copy of the run, with keys replaced."""
    copy_of(stage("evaluated-export", make_exported) / "run", tmp_path / "run")

    def make(*overrides: str) -> Invocation:
        file = tmp_path / "run/run.yaml"
        return Invocation(
            config=load_run(file, overrides, with_model=True),
            config_file=file,
            overrides=overrides,
            run_folder=tmp_path / "run",
            console=Console(quiet=True),
            workers=1,
        )

    return make


def test_an_export_scores_as_the_model_it_is_of(run) -> None:
    folder = run().run_folder
    own = evaluate_run(run(), on_test=True)
    kept = (folder / "evaluation/test/scores.json").read_bytes()
    found = evaluate_run(run(), on_test=True, model=folder / "export/saved_model")
    check_same(found, own)
    written = folder / "evaluation/of-saved_model-3/test"
    assert found["path"] == str(written)
    assert json.loads((written / "scores.json").read_text()) == found
    assert "the run&#39;s own</th>" in (written / "report.html").read_text()
    ours, theirs = (
        [row["offset"] for row in read_lines(of / "errors.jsonl")]
        for of in (folder / "evaluation/test", written)
    )
    assert ours == theirs
    assert (folder / "evaluation/test/scores.json").read_bytes() == kept


def check_same(found, own) -> None:
    """The same scores, and this is told."""
    assert found["predictions"] == own["predictions"] > 40
    scores = {name: of["score"] for name, of in own["scores"].items()}
    assert found["run_scores"] == scores
    assert found["differences"] == pytest.approx(dict.fromkeys(scores, 0), abs=1e-4)
    assert found["scores"]["accuracy"] == own["scores"]["accuracy"]


@pytest.mark.thorough(instead="test_an_export_scores_as_the_model_it_is_of")
def test_a_phones_file_scores_as_the_model_it_is_of(run) -> None:
    folder = run().run_folder
    file = write_phones_file(folder)
    before = evaluate_run(run(), on_test=True, model=file)
    assert before["run_scores"] is before["differences"] is None
    own = evaluate_run(run(), on_test=True)
    check_same(evaluate_run(run(), on_test=True, model=file), own)
    assert (folder / "evaluation/of-model_float32/test/report.html").is_file()
    # Of other records there is nothing to compare with.
    other = evaluate_run(run("data.sequence_length=40"), on_test=True, model=file)
    assert other["differences"] is None


def write_phones_file(run_folder: Path) -> Path:
    files = write_tflite(load_trained(run_folder), run_folder, run_folder / "tflite")
    return files["float32"]


def packed_batch(length: int, vocabulary_size: int) -> dict[str, np.ndarray]:
    """Two records: of three documents with padding, and of one that fills it."""
    random = np.random.default_rng(5)
    token_ids = random.integers(5, vocabulary_size, (2, length))
    document_ids = np.ones((2, length), np.int64)
    document_ids[0] = np.repeat([1, 2, 3, 0], [5, 1, length - 8, 2])
    starts = [np.flatnonzero(np.diff(row, prepend=0)) for row in document_ids]
    position_ids = np.stack(
        [np.arange(length) - np.repeat(at, np.diff([*at, length])) for at in starts]
    )
    return {
        "token_ids": token_ids * (document_ids > 0),
        "document_ids": document_ids,
        "position_ids": position_ids * (document_ids > 0),
        "target_ids": random.integers(5, vocabulary_size, (2, length)),
        "target_weights": (document_ids > 0).astype(np.float32),
    }


@pytest.mark.parametrize(
    "objective",
    [
        CausalConfig(),
        pytest.param(
            PrefixConfig(),
            marks=pytest.mark.thorough(
                instead="test_an_export_that_writes_says_of_packed_records_"
                "what_the_model_says"
            ),
        ),
    ],
    ids=lambda objective: objective.kind,
)
def test_an_export_that_writes_says_of_packed_records_what_the_model_says(
    objective, tmp_path
) -> None:
    config = replace(
        TINY,
        objective=objective,
        tokenizer=ByteBPEConfig(vocabulary_size=300, specials="roberta"),
        model=DecoderConfig(
            num_layers=1,
            hidden_dim=32,
            max_sequence_length=32,
            attention=FullAttentionConfig(num_heads=2),
            initializer=NormalInitializerConfig(stddev=0.3),
        ),
        export=replace(TINY.export, examples=()),
    )
    trained = load_trained(make_run(tmp_path / "run", config))
    write_signatures(trained, tmp_path / "1", "logits_ids")
    size = trained.tokenizer.vocabulary_size
    batch = packed_batch(32, size)
    if objective.kind == "prefix":
        given = (batch["position_ids"] < 3) & (batch["document_ids"] > 0)
        batch["prefix_mask"] = given.astype(np.int32)
    whole = build_model(
        config.model, config.objective, size, packed=True, dtype="float32"
    )
    whole.set_weights(trained.model.get_weights())
    inputs = {name: batch[name].astype(np.int32) for name in whole.input}
    expected = make_loss(config).answers(whole(inputs), batch)["logits"]
    found = build_exported(tmp_path / "1", config, size)(batch)["logits"]
    assert found.keys() == expected.keys()
    real = batch["target_weights"] > 0
    for name, value in expected.items():
        value, other = np.asarray(value), np.asarray(found[name])
        if value.shape == real.shape:  # of padding nothing is asked
            value, other = value[real], other[real]
        np.testing.assert_allclose(other, value, atol=1e-4)
    with pytest.raises(ArtifactError, match="exported from another run"):
        build_exported(tmp_path / "1", config, size + 1)(batch)


def test_tokens_and_masks_of_documents_come_from_records_and_go_back() -> None:
    random = np.random.default_rng(4)
    rows, length, slots = 5, 20, 6
    lengths = random.integers(1, 5, (rows, 4))
    batch = {
        "token_ids": random.integers(5, 99, (rows, length)),
        "document_ids": np.zeros((rows, length), np.int64),
        "position_ids": np.zeros((rows, length), np.int64),
        "masked_positions": np.zeros((rows, slots), np.int64),
        "masked_weights": np.zeros((rows, slots)),
    }
    for row in range(rows):
        real = lengths[row].sum()
        batch["document_ids"][row, :real] = np.repeat([1, 2, 3, 4], lengths[row])
        batch["position_ids"][row, :real] = np.concatenate(
            [np.arange(n) for n in lengths[row]]
        )
        asked = min(real, slots - row % 3)
        positions = np.sort(random.permutation(real)[:asked])
        batch["masked_positions"][row, :asked] = positions
        batch["masked_weights"][row, :asked] = 1
    documents = DocumentRows.from_batch(batch)

    # Whose scores are the ids at the masks, and a mark for the document's length.
    at_masks = np.take_along_axis(documents.token_ids, documents.masked_positions, 1)
    marks = np.broadcast_to(documents.padding_mask.sum(1)[:, None], at_masks.shape)
    found = documents.put_back(np.stack([at_masks, marks], axis=-1))

    real = batch["masked_weights"] > 0
    ids = np.take_along_axis(batch["token_ids"], batch["masked_positions"], 1)
    np.testing.assert_array_equal(found[..., 0], np.where(real, ids, 0))
    ordinal = np.take_along_axis(batch["document_ids"], batch["masked_positions"], 1)
    sizes = np.take_along_axis(lengths, np.maximum(ordinal - 1, 0), 1)
    np.testing.assert_array_equal(found[..., 1], np.where(real, sizes, 0))
    assert (documents.masks > 0).all()
    assert documents.masks.sum() == real.sum()


def test_what_cannot_be_scored_is_refused_by_what_it_has(run, tmp_path) -> None:
    folder = run().run_folder
    module = tf.Module()
    module.count = tf.function(
        lambda text: {"length": tf.strings.length(text)},
        input_signature=[tf.TensorSpec([None], tf.string, name="text")],
    )
    tf.saved_model.save(module, str(tmp_path / "old/1"), {"count": module.count})
    with pytest.raises(ArtifactError, match=r"has the signatures count; .* fill_mask"):
        evaluate_run(run(), on_test=True, model=tmp_path / "old")
    config = run().config
    saved_model = find_export(folder / "export/saved_model")
    forward = build_exported(saved_model, config, vocabulary_size=7)
    batch = {
        "token_ids": np.array([[2, 4, 3]], np.int32),
        "document_ids": np.ones((1, 3), np.int32),
        "position_ids": np.arange(3)[None],
        "masked_positions": np.array([[1]]),
        "masked_weights": np.ones((1, 1)),
        "masked_ids": np.array([[9]]),
    }
    with pytest.raises(ArtifactError, match=r"tokenizer has 7: it was exported from"):
        forward(batch)
    labels = "objective={kind: classification, labels: [a, b]}"
    with pytest.raises(
        ArtifactError, match=r"has the signatures fill_mask, ser.*tokenize; "
    ):
        build_exported(saved_model, run(labels).config, 7)
    damaged = tmp_path / "damaged.tflite"
    damaged.write_bytes(b"nothing")
    with pytest.raises(ArtifactError, match="cannot be read as a TFLite model"):
        build_exported(damaged, config, 7)


@pytest.mark.parametrize(("name", "kind"), [("a", "folder"), ("a.tflite", "file")])
def test_a_model_that_is_not_there(run, tmp_path, capsys, name, kind) -> None:
    folder, model = run().run_folder, tmp_path / name
    words = ["evaluate", folder / "run.yaml", "--run", folder, "--model", model]
    assert transbeam.main([*map(str, words), "--test"]) == 2
    assert f"{model}: there is no such {kind}" in capsys.readouterr().err
    assert not (folder / "evaluation").exists()


@pytest.mark.thorough(instead="test_what_cannot_be_scored_is_refused_by_what_it_has")
def test_a_text_longer_than_a_phone_reads(run) -> None:
    file = write_phones_file(run().run_folder)
    forward = build_exported(file, run().config, 1)
    length = 65
    batch = {
        "token_ids": np.ones((1, length), np.int32),
        "document_ids": np.ones((1, length), np.int32),
        "position_ids": np.arange(length)[None],
        "masked_positions": np.array([[1]]),
        "masked_weights": np.ones((1, 1)),
    }
    with pytest.raises(ArtifactError, match=r"holds 64 numbers, .* have a row of 65"):
        forward(batch)
