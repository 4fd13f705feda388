"""Ablated heads, sub-layers and blocks, compared to models with edited weights."""

import numpy as np
import pytest
from keras import ops

from tests.model.conftest import VOCABULARY_SIZE, small_config, tensorflow_only
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.model import DecoderConfig, Seq2SeqModelConfig
from transbeam.model.decoder import build_decoder
from transbeam.model.encoder import build_encoder
from transbeam.model.inspect.ablation import (
    Ablation,
    AblationSwitches,
    ablated_costs,
    activation_sums,
    mean_activations,
    token_weights,
)
from transbeam.model.seq2seq import build_seq2seq
from transbeam.model.weights.assign import variables_by_path

INPUTS = {
    "token_ids": np.array([[1, 2, 3, 4], [5, 6, 0, 0]], "int32"),
    "padding_mask": np.array([[1, 1, 1, 1], [1, 1, 0, 0]], "int32"),
}
LAYERS, HEADS, WIDTH = 2, 4, 4
ATTENTION, LAST = "encoder_layer_1/self_attention", "encoder_layer_1/feedforward"


@pytest.fixture
def encoder(randomise):
    """Two layers of four heads: an index of the wrong axis shows."""
    config = small_config(
        num_segments=0, attention=FullAttentionConfig(num_heads=HEADS)
    )
    return randomise(build_encoder(config, VOCABULARY_SIZE))


@pytest.fixture
def switches(encoder):
    return AblationSwitches.from_model(encoder)


def run(model, inputs=INPUTS):
    return ops.convert_to_numpy(model(inputs)["sequence_output"])


def ablate(model, switches, *ablations, means=None):
    with switches.applied(switches.turn_off(*ablations), means):
        return run(model)


def test_all_heads_sublayers_and_blocks(switches):
    ablations = switches.ablations()
    paths = [
        f"encoder_layer_{number}/{name}"
        for number in range(LAYERS)
        for name in ("self_attention", "feedforward")
    ]
    assert ablations == [
        *(Ablation(path, head) for path in paths[::2] for head in range(HEADS)),
        *map(Ablation, paths),
        Ablation("encoder_layer_0"),
        Ablation("encoder_layer_1"),
    ]
    off = np.stack([switches.turn_off(ablation) for ablation in ablations])
    assert off.shape == (14, LAYERS * (HEADS + 2))
    assert off.sum(axis=1).tolist() == [1] * 12 + [2, 2]
    # Each switch belongs to one head or sub-layer.
    assert off[:12].sum(axis=0).tolist() == [1] * 12


def test_a_zeroed_head_is_a_head_without_output_kernel(encoder, switches):
    """The output projection's bias stays, and so do the other heads."""
    ablated = ablate(encoder, switches, Ablation(ATTENTION, 2))
    kernel = variables_by_path(encoder)[f"{ATTENTION}/output/kernel"]
    edited = ops.convert_to_numpy(kernel).copy()
    edited[2 * WIDTH : 3 * WIDTH] = 0.0
    kernel.assign(edited)
    np.testing.assert_allclose(ablated, run(encoder), rtol=0, atol=1e-5)


def test_all_heads_zeroed_leave_the_bias_that_an_ablated_sublayer_loses(
    encoder, switches
):
    heads = [Ablation(ATTENTION, head) for head in range(HEADS)]
    without_heads = ablate(encoder, switches, *heads)
    without_layer = ablate(encoder, switches, Ablation(ATTENTION))
    assert np.abs(without_heads - without_layer).max() > 0.1
    weights = variables_by_path(encoder)
    bias = weights[f"{ATTENTION}/output/bias"]
    bias.assign(np.zeros(bias.shape))
    after = ablate(encoder, switches, *heads)
    np.testing.assert_allclose(after, without_layer, rtol=0, atol=1e-5)


def test_an_ablated_block_is_its_two_norms(encoder, switches):
    found = ablate(encoder, switches, Ablation("encoder_layer_1"))
    both = [Ablation("encoder_layer_1/self_attention"), Ablation(LAST)]
    np.testing.assert_array_equal(found, ablate(encoder, switches, *both))
    for name in ("self_attention", "feedforward"):
        for part in ("output/kernel", "output/bias"):
            weight = variables_by_path(encoder)[f"encoder_layer_1/{name}/{part}"]
            weight.assign(np.zeros(weight.shape))
    np.testing.assert_allclose(found, run(encoder), rtol=0, atol=1e-5)


def test_nothing_switched_off_changes_no_bit(encoder, switches):
    np.testing.assert_array_equal(ablate(encoder, switches), run(encoder))


def test_means_are_taken_over_real_tokens_of_all_texts(encoder, switches):
    """Compared to the means of texts that were run alone, without padding."""
    paths = list(switches.sizes)

    def sums(inputs):
        return activation_sums(encoder, paths, inputs)

    found = mean_activations(sums, [INPUTS])
    alone = [
        {name: x[row : row + 1, :length] for name, x in INPUTS.items()}
        for row, length in ((0, 4), (1, 2))
    ]
    expected = mean_activations(sums, alone)
    assert found.keys() == expected.keys() == set(paths)
    for path, mean in expected.items():
        np.testing.assert_allclose(found[path], mean, rtol=0, atol=1e-5)
    assert found[f"{ATTENTION}/heads"].shape == (HEADS, WIDTH)
    assert found[f"{LAST}_residual/update"].shape == (16,)


def test_mean_of_two_known_rows(encoder, switches):
    """(1 + 3) / 2 = 2, though the row has a third, padded token."""
    path = f"{LAST}_residual/update"

    def sums(inputs):
        value = np.array([[[1.0], [3.0], [50.0]]])
        weights = ops.convert_to_numpy(token_weights(inputs, path))
        return {path: ((value[..., 0] * weights).sum(axis=(0, 1)), weights.sum())}

    batch = {"padding_mask": np.array([[1, 1, 0]])}
    assert mean_activations(sums, [batch])[path] == 2.0


def test_a_mean_takes_the_place_at_every_token(encoder, switches):
    """A constant sub-layer output, written into the last bias of a silenced layer."""
    means = mean_activations(
        lambda inputs: activation_sums(encoder, switches.sizes, inputs), [INPUTS]
    )
    found = ablate(encoder, switches, Ablation(LAST), means=means)
    weights = variables_by_path(encoder)
    kernel = weights[f"{LAST}/output/kernel"]
    kernel.assign(np.zeros(kernel.shape))
    weights[f"{LAST}/output/bias"].assign(means[f"{LAST}_residual/update"])
    np.testing.assert_allclose(found, run(encoder), rtol=0, atol=1e-5)


def test_the_mask_of_each_stack_counts_in_an_encoder_decoder(randomise):
    config = Seq2SeqModelConfig(
        num_layers=1, hidden_dim=16, attention=FullAttentionConfig(num_heads=2)
    )
    model = randomise(build_seq2seq(config, VOCABULARY_SIZE))
    inputs = {f"encoder_{name}": x for name, x in INPUTS.items()}
    inputs |= {f"decoder_{name}": x[:, :3] for name, x in INPUTS.items()}
    switches = AblationSwitches.from_model(model)
    assert "decoder_layer_0/cross_attention/heads" in switches.sizes
    sums = activation_sums(model, switches.sizes, inputs)
    counts = {path: float(count) for path, (_, count) in sums.items()}
    assert {count for path, count in counts.items() if path.startswith("enc")} == {6.0}
    assert {count for path, count in counts.items() if path.startswith("dec")} == {5.0}


def test_packed_rows_count_tokens_of_all_documents():
    inputs = {"token_ids": 0, "document_ids": np.array([[1, 1, 2, 0]])}
    weights = token_weights(inputs, "encoder_layer_0/self_attention/heads")
    assert ops.convert_to_numpy(weights).tolist() == [[1, 1, 1, 0]]
    assert token_weights({"image": 0}, "encoder_layer_0/output") is None


@tensorflow_only
def test_one_trace_serves_all_ablations(encoder, switches):
    import tensorflow as tf

    traces = []

    @tf.function(autograph=False)
    def compiled(inputs, off):
        traces.append(off)
        with switches.applied(off):
            return encoder(inputs)["sequence_output"]

    for ablation in switches.ablations():
        off = switches.turn_off(ablation)
        np.testing.assert_allclose(
            compiled(INPUTS, tf.constant(off)),
            ablate(encoder, switches, ablation),
            rtol=0,
            atol=1e-5,
        )
    assert len(traces) == 1


@tensorflow_only
def test_a_function_that_was_traced_before_is_refused(encoder, switches):
    """Nothing would be ablated, and every change would be zero."""
    import tensorflow as tf

    compiled = tf.function(lambda inputs: encoder(inputs)["sequence_output"])
    compiled(INPUTS)
    off = switches.turn_off(Ablation(ATTENTION, 0))
    with (
        pytest.raises(ArtifactError, match="was not computed, so nothing"),
        switches.applied(off),
    ):
        compiled(INPUTS)


@pytest.mark.parametrize(
    "ablation",
    [
        Ablation(ATTENTION, HEADS),
        Ablation(ATTENTION, -1),
        Ablation(LAST, 0),
        Ablation("encoder_layer_2"),
        Ablation("encoder_layer"),
    ],
)
def test_parts_that_are_not_there(switches, ablation):
    with pytest.raises(ArtifactError, match="has no such part"):
        switches.turn_off(ablation)


def test_costs_by_ablation_and_record(encoder, switches):
    """Two batches of one record; the loss is the sum of the real outputs."""
    whole = switches.turn_off()
    off = switches.turn_off(Ablation(LAST))
    batches = [{name: x[row : row + 1] for name, x in INPUTS.items()} for row in (0, 1)]

    def evaluate(batch, off):
        with switches.applied(off):
            outputs = ops.sum(encoder(batch)["sequence_output"], axis=-1)
        mask = ops.cast(batch["padding_mask"], "float32")
        return ops.sum(outputs * mask, axis=1), ops.sum(mask, axis=1)

    costs, counts = ablated_costs(evaluate, [whole, off], batches)
    assert costs.shape == (2, 2)
    assert counts.tolist() == [4, 2]
    rows = run(encoder).sum(axis=-1) * INPUTS["padding_mask"]
    np.testing.assert_allclose(costs[0], rows.sum(axis=1), rtol=1e-4)
    assert np.abs(costs[1] - costs[0]).min() > 1e-3


def test_no_text_has_no_mean():
    with pytest.raises(ArtifactError, match="no real token"):
        mean_activations(lambda batch: {}, [])


def test_grouped_heads_are_query_heads(randomise):
    """Four query heads share two heads of keys and values: four can be ablated."""
    attention = FullAttentionConfig(num_heads=4, num_key_value_heads=2)
    config = DecoderConfig(num_layers=1, hidden_dim=16, attention=attention)
    decoder = randomise(build_decoder(config, VOCABULARY_SIZE))
    switches = AblationSwitches.from_model(decoder)
    changed = [
        np.abs(ablate(decoder, switches, ablation) - run(decoder)).max()
        for ablation in switches.ablations()[:4]
    ]
    assert min(changed) > 1e-3
