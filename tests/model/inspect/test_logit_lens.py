"""The lens against the output layer applied by hand, and the last row to the logits."""

import numpy as np
import pytest
from keras import ops

from tests.model.conftest import VOCABULARY_SIZE, small_config
from tests.model.inspect.decoders import LAYERS, make_decoder, make_inputs
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.block import LayerNormConfig
from transbeam.configs.schema.model import Seq2SeqModelConfig
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.model.build import build_model
from transbeam.model.encoder import build_encoder
from transbeam.model.inspect import logit_lens
from transbeam.model.inspect.hidden_states import with_hidden_states
from transbeam.model.inspect.logit_lens import (
    LensModel,
    apply_logit_lens,
    compute_divergence,
)
from transbeam.model.seq2seq import build_seq2seq


def numpy(x) -> np.ndarray:
    return ops.convert_to_numpy(x)


def softmax(logits) -> np.ndarray:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def both_sides(rows: int = 2) -> dict[str, np.ndarray]:
    return {
        f"{side}_{name}": x
        for side, length in (("encoder", 6), ("decoder", 4))
        for name, x in make_inputs(rows, length).items()
    }


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"rms": True, "key_heads": 1},
        {"tie_embeddings": False, "num_layers": 4},
        {"embedding_dim": 5},
        {"norm": LayerNormConfig(placement="post")},
    ],
    ids=["layer norm", "rms norm", "untied", "narrow", "post"],
)
def test_each_layer_with_a_norm_of_its_own(randomise, changes):
    model, inputs = make_decoder(randomise, **changes), make_inputs()
    outputs = with_hidden_states(model)(inputs)
    layers = {layer.name: layer for layer in model.layers}
    number = changes.get("num_layers", LAYERS)
    names = ("embeddings", *(f"decoder_layer_{index}" for index in range(number)))
    lens = apply_logit_lens(model, inputs, top_k=3)
    assert lens.layers == names  # 0 is the embeddings

    final = softmax(numpy(outputs["logits"]))
    targets = final.argmax(-1)
    for index, name in enumerate(names):
        x = layers["final_norm"](outputs[name]) if "final_norm" in layers else None
        x = outputs[name] if x is None else x
        x = layers["logits_projection"](x) if "logits_projection" in layers else x
        if "logits" in layers:
            logits = layers["logits"](x)
        else:
            logits = layers["token_embedding"](x, reverse=True)
        expected = softmax(numpy(logits).astype("float64"))
        order = np.argsort(-expected, axis=-1)
        np.testing.assert_array_equal(lens.top_ids[index], order[..., :3])
        np.testing.assert_allclose(
            lens.top_probabilities[index], np.sort(expected)[..., :-4:-1], rtol=1e-4
        )
        chosen = np.take_along_axis(expected, targets[..., None], -1)[..., 0]
        np.testing.assert_allclose(lens.target_probabilities[index], chosen, rtol=1e-4)
        ranks = (order == targets[..., None]).argmax(-1)
        np.testing.assert_array_equal(lens.target_ranks[index], ranks)
        divergence = (final * (np.log(final) - np.log(expected))).sum(-1)
        np.testing.assert_allclose(lens.divergences[index], divergence, atol=1e-4)


def test_the_last_row_is_the_model_s_prediction(randomise):
    model, inputs = make_decoder(randomise), make_inputs()
    lens = LensModel(model)
    found = lens.unembed(lens.compute_states(inputs)[-1])
    np.testing.assert_array_equal(found, model(inputs)["logits"])
    lens = apply_logit_lens(lens, inputs)
    assert (lens.divergences[-1] == 0).all()
    assert (lens.target_ranks[-1] == 0).all()
    assert (lens.divergences[:-1] > 1e-3).all()


def test_targets(randomise):
    model, inputs = make_decoder(randomise), make_inputs()
    targets = np.roll(inputs["token_ids"], -1, axis=1)
    lens = apply_logit_lens(model, inputs, targets=targets)
    expected = softmax(numpy(model(inputs)["logits"]))
    chosen = np.take_along_axis(expected, targets[..., None], -1)
    np.testing.assert_allclose(lens.target_probabilities[-1], chosen[..., 0], rtol=1e-4)
    above = (expected > chosen).sum(-1)
    np.testing.assert_array_equal(lens.target_ranks[-1], above)


def test_masked_tokens(randomise):
    """An encoder is read at the masked positions, through its head."""
    config = small_config(num_segments=0, num_layers=3)
    model = randomise(build_model(config, MaskedConfig(), VOCABULARY_SIZE))
    positions = np.array([[4, 1], [0, 3]], "int32")
    inputs = {**make_inputs(), "masked_positions": positions}
    lens = LensModel(model)
    states = lens.compute_states(inputs)
    expected = numpy(with_hidden_states(model)(inputs)["encoder_layer_1"])
    expected = np.take_along_axis(expected, positions[..., None], axis=1)
    np.testing.assert_array_equal(states[2], expected)
    logits = model(inputs)["logits"]
    np.testing.assert_allclose(lens.unembed(states[-1]), logits, atol=1e-5)
    found = apply_logit_lens(lens, inputs)
    assert found.layers == ("embeddings", *(f"encoder_layer_{i}" for i in range(3)))
    assert found.divergences.shape == (4, 2, 2)
    np.testing.assert_array_equal(found.top_ids[-1, :, :, 0], numpy(logits).argmax(-1))


@pytest.mark.parametrize("scale_logits", [False, True])
def test_encoder_decoder(randomise, scale_logits):
    config = Seq2SeqModelConfig(
        num_layers=1, num_decoder_layers=2, hidden_dim=16, scale_logits=scale_logits
    )
    model = randomise(build_seq2seq(config, VOCABULARY_SIZE))
    inputs = both_sides()
    lens = LensModel(model)
    assert lens.layers == ("decoder_embeddings", "decoder_layer_0", "decoder_layer_1")
    found = lens.unembed(lens.compute_states(inputs)[-1])
    np.testing.assert_allclose(found, model(inputs)["logits"], atol=1e-5)


def test_the_model_is_left_as_it_was(randomise):
    model, inputs = make_decoder(randomise), make_inputs()
    nodes = [len(layer._inbound_nodes) for layer in model.layers]
    expected = numpy(model(inputs)["logits"])
    for _ in range(2):
        apply_logit_lens(model, inputs)
    assert [len(layer._inbound_nodes) for layer in model.layers] == nodes
    np.testing.assert_array_equal(model(inputs)["logits"], expected)


def test_translated_states(randomise):
    """The last layer is never translated."""
    model, inputs = make_decoder(randomise), make_inputs()
    seen = []

    def translate(index, state):
        seen.append(index)
        return LensModel(model).compute_states(inputs)[-1]

    lens = apply_logit_lens(model, inputs, translate=translate)
    assert seen == [0, 1]
    np.testing.assert_allclose(lens.divergences, 0, atol=1e-6)


def test_long_texts_are_read_in_pieces(randomise, monkeypatch):
    model, inputs = make_decoder(randomise), make_inputs(2, 5)
    targets = np.arange(10).reshape(2, 5)
    whole = apply_logit_lens(model, inputs, targets=targets)
    monkeypatch.setattr(logit_lens, "_HELD", 2)
    pieces = apply_logit_lens(model, inputs, targets=targets)
    for name, found in vars(pieces).items():
        if name == "layers":
            continue
        np.testing.assert_allclose(found, vars(whole)[name], atol=1e-5)


def test_divergence_by_hand():
    final, other = np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]])
    expected = 0.5 * np.log(2) + 0.5 * np.log(2 / 3)
    np.testing.assert_allclose(compute_divergence(final, other), [expected], rtol=1e-5)


def test_models_without_logits():
    with pytest.raises(ConfigError, match="no logits over its vocabulary"):
        LensModel(build_encoder(small_config(), VOCABULARY_SIZE))


def test_more_tokens_than_the_vocabulary_has(randomise):
    lens = apply_logit_lens(make_decoder(randomise), make_inputs(), top_k=100)
    assert lens.top_ids.shape[-1] == VOCABULARY_SIZE
