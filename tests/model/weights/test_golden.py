"""Imported weights answer as transformers does with the same files."""

from pathlib import Path

import keras
import numpy as np
import pytest

from tests.model.compiling import compiled_on_jax
from tests.model.weights.conftest import built
from tests.model.weights.hugging_face_checkpoints import CASES
from tests.model.weights.inputs import image, source_ids, source_mask, target_ids
from transbeam.model.weights.checkpoint_import import read_checkpoint

GOLDEN = np.load(Path(__file__).with_name("golden.npz"))

OUTPUTS = {
    "last_hidden_state": "sequence_output",
    "pooler_output": "pooled_output",
    "encoder_last_hidden_state": "encoder_sequence_output",
    "logits": "logits",
    "prediction_logits": "logits",
    "seq_relationship_logits": "pair_logits",
    "start_logits": "start_logits",
    "end_logits": "end_logits",
}


def inputs(model_type: str, wanted) -> dict[str, np.ndarray]:
    ids, mask = source_ids(model_type), source_mask()
    everywhere = np.tile(np.arange(6, dtype="int32"), (2, 1))
    known = {
        "image": image(),
        "token_ids": ids,
        "padding_mask": mask,
        "segment_ids": ids % 2 * mask,
        "masked_positions": everywhere,
        "encoder_token_ids": ids,
        "encoder_padding_mask": mask,
        "decoder_token_ids": target_ids(),
        "decoder_padding_mask": np.ones_like(target_ids()),
    }
    return {name: known[name] for name in wanted}


def differences(case: str, model: keras.Model) -> dict[str, float]:
    """Largest difference from each of transformers' outputs, without padding."""
    model_type = CASES[case].config["model_type"]
    outputs = compiled_on_jax(model)(inputs(model_type, model.input))
    found = {}
    for key in GOLDEN:
        name, _, theirs = key.partition("/")
        if name != case:
            continue
        ours, golden = OUTPUTS[theirs], GOLDEN[key]
        if "score" in outputs:  # a number is theirs as one logit
            ours, golden = "score", golden[:, 0]
        gap = np.abs(np.asarray(outputs[ours]) - golden)
        if model_type != "vit" and gap.shape[:2] == (2, 6):
            gap = gap[source_mask().astype(bool)]
        found[theirs] = float(gap.max())
    return found


def test_same_answers_as_transformers(case, folder):
    found = differences(case, built(read_checkpoint(folder)))
    assert found
    assert all(gap < 1e-5 for gap in found.values()), found


def test_every_answer_of_transformers_is_compared():
    assert {key.partition("/")[0] for key in GOLDEN} == set(CASES)


@pytest.mark.parametrize("case", ["bert_masked", "roberta_masked", "distilbert_masked"])
def test_an_encoder_alone_leaves_the_head_out(case, folder):
    checkpoint = read_checkpoint(folder)
    encoder = built(checkpoint, with_head=False)
    model = built(checkpoint)
    shapes = {weight.path: tuple(weight.shape) for weight in encoder.weights}
    body = CASES[case].config["model_type"] + "."
    assert checkpoint.left_out(shapes) == sorted(
        name for name in CASES[case].shapes if not name.startswith(body)
    )
    for ours, other in zip(encoder.weights, model.weights, strict=False):
        assert ours.path == other.path
        np.testing.assert_array_equal(ours.numpy(), other.numpy())
