"""Statistics of heads: by hand, against NumPy for every kind, eager and traced."""

import math

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from tests.model.conftest import VOCABULARY_SIZE, small_config, tensorflow_only
from tests.model.inspect.dense_heads import (
    LayerModel,
    dense_weights,
    expected_statistics,
    token_classes,
)
from tests.model.layers.attention.masked_reference import (
    D,
    H,
    documents,
    floats,
    left_padded,
    padded,
    randomised,
    real,
    same_document,
)
from tests.model.layers.attention.test_block_sparse import mask_of_all_pairs
from tests.model.layers.attention.test_global_window import globally
from tests.model.layers.attention.test_sliding_window import in_reach
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.attention import (
    FullAttentionConfig,
    KernelAttentionConfig,
    LowRankAttentionConfig,
)
from transbeam.configs.schema.model import DecoderConfig, Seq2SeqModelConfig
from transbeam.model.decoder import build_decoder
from transbeam.model.encoder import build_encoder
from transbeam.model.inspect.attention_maps import attention_probabilities
from transbeam.model.inspect.attention_statistics import (
    OFFSETS,
    attention_statistics,
    recorded_statistics,
)
from transbeam.model.layers.attention.attended_keys import RowKeys
from transbeam.model.layers.attention.block_sparse import BlockSparseAttention
from transbeam.model.layers.attention.full import MultiHeadAttention
from transbeam.model.layers.attention.global_window import GlobalWindowAttention
from transbeam.model.layers.attention.probabilities import Probabilities
from transbeam.model.layers.attention.sliding_window import SlidingWindowAttention
from transbeam.model.seq2seq import build_seq2seq

OPTIONS = {"num_key_value_heads": 2, "name": "encoder_attention"}


def statistics_by_hand(probabilities, mask, **options):
    """Statistics of given probabilities: of a layer that only passes them on."""
    probabilities = np.array(probabilities, "float32")[None, None]
    layer = MultiHeadAttention(4, 1, name="encoder_attention")
    layer.build((None, None, 4))
    mask = np.array([mask], "int32")
    visible = (mask[:, :, None] & mask[:, None] & (probabilities[0] > 0)) != 0

    class Given(LayerModel):
        def __call__(self, inputs, training=False):
            keys = RowKeys(ops.convert_to_tensor(visible[:, None]))
            self.layer.probabilities(probabilities, keys=lambda: keys)

    model = Given(layer, probabilities, ("padding_mask",))
    found = attention_statistics(model, {"padding_mask": mask}, **options)
    found = found["encoder_attention"]
    return {name: ops.convert_to_numpy(value)[0] for name, value in found.items()}


def test_entropy_by_hand():
    row = [[0.5, 0.25, 0.25, 0.0]]
    nothing = [[0.0] * 4] * 3
    found = statistics_by_hand(row + nothing, [1, 1, 1, 0])
    assert found["queries"] == 1
    assert found["entropy"][0] == pytest.approx(1.0397, abs=1e-4)
    # By the number of visible keys: with the padding it would be 0.75.
    assert found["entropy_share"][0] == pytest.approx(0.9464, abs=1e-4)
    assert found["confidence"][0] == pytest.approx(0.5)


def test_one_visible_key_has_no_share():
    found = statistics_by_hand([[1.0, 0.0], [0.5, 0.5]], [1, 1])
    assert found["queries"] == 2
    assert found["queries_with_two_keys"] == 1
    assert found["entropy"][0] == pytest.approx(math.log(2))
    assert found["entropy_share"][0] == pytest.approx(1)


def test_positions_by_hand():
    weights = np.array([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1], [0.5, 0.25, 0.25]])
    found = statistics_by_hand(
        weights, [1, 1, 1], sparsity_threshold=0.15, distant_tokens=1
    )
    offsets = dict(zip(OFFSETS, found["offsets"][0], strict=True))
    assert offsets[0] == pytest.approx(0.1 + 0.3 + 0.25)
    assert offsets[-1] == pytest.approx(0.6 + 0.25)
    assert offsets[1] == pytest.approx(0.2 + 0.1)
    assert offsets[2] == pytest.approx(0.7)
    assert offsets[-2] == pytest.approx(0.5)
    assert offsets[3] == 0
    assert found["distance"][0] == pytest.approx(0.85 + 0.3 + 2 * 1.2)
    assert found["distant"][0] == pytest.approx(1.2)
    assert found["first"][0] == pytest.approx(1.2)
    assert found["sparsity"][0] == pytest.approx(2 / 3)
    assert found["confidence"][0] == pytest.approx(0.7 + 0.6 + 0.5)


def full(sequence_info, causal):
    layer = randomised(MultiHeadAttention(D, H, causal=causal, **OPTIONS))
    mask = same_document(sequence_info)
    return layer, np.tril(mask) if causal else mask


def sliding_window(sequence_info, causal):
    layer = SlidingWindowAttention(D, H, window_size=12, causal=causal, **OPTIONS)
    layer.block_size = 5
    mask = same_document(sequence_info)
    return randomised(layer), mask & in_reach(layer, mask.shape[1])


def global_window(sequence_info, causal):
    layer = GlobalWindowAttention(D, H, window_size=6, num_global_tokens=2, **OPTIONS)
    layer.block_size = 4
    mask, some = same_document(sequence_info), are_global(sequence_info)
    near = in_reach(layer, mask.shape[1]) | some[:, None] | some[..., None]
    return randomised(layer), mask & near


def are_global(sequence_info) -> np.ndarray:
    first = documents(sequence_info)[1] < 2
    return first & (np.asarray(sequence_info.get("global_mask", 1)) != 0)


def block_sparse(sequence_info, causal):
    layer = BlockSparseAttention(
        D, H, block_size=3, num_random_blocks=2, seed=5, **OPTIONS
    )
    return randomised(layer), mask_of_all_pairs(layer, sequence_info)


KINDS = [
    (full, False),
    (full, True),
    (sliding_window, False),
    (sliding_window, True),
    (global_window, False),
    (block_sparse, False),
]


SEQUENCES = {
    "padded": padded(30, 17, 1, to=31),
    "left-padded": left_padded(30, 17, to=31),
    # Two global tokens, one and none.
    "questions": padded(30, 17, 5, to=31)
    | {"global_mask": (np.arange(31) < [[2], [1], [0]]).astype("int32")},
}


@pytest.mark.parametrize(
    ("kind", "causal", "sequence_info"),
    [
        pytest.param(*kind, SEQUENCES[name], id=f"{kind[0].__name__}-{kind[1]}-{name}")
        for kind in KINDS
        for name in SEQUENCES
        if name != "questions" or kind[0] is global_window
    ],
)
def test_against_numpy(kind, causal, sequence_info):
    layer, mask = kind(sequence_info, causal)
    inside = real(sequence_info)
    x = floats(*inside.shape, D)
    heads = layer.project(x, sequence_info.get("position_ids"))
    mask = np.broadcast_to(
        mask if mask.ndim == 4 else mask[:, None], (len(x), H, *mask.shape[-2:])
    )
    mask = mask & inside[:, None, :, None]
    weights = dense_weights(layer, heads, mask)
    if kind is global_window:
        some = dense_weights(layer, globally(layer, x, sequence_info), mask)
        chosen = are_global(sequence_info)[:, None, :, None]
        weights = np.where(chosen, some, weights)
    classes = token_classes(sequence_info)
    expected = expected_statistics(
        weights, mask, classes, threshold=0.05, distant=7, end=1
    )

    model = LayerModel(layer, x, tuple(sequence_info))
    found = attention_statistics(
        model,
        sequence_info,
        {"encoder": classes},
        sparsity_threshold=0.05,
        distant_tokens=7,
        end_class=1,
    )["encoder_attention"]
    assert sorted(found) == sorted(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(
            found[name], values, rtol=1e-4, atol=2e-5, err_msg=name
        )


@pytest.fixture
def inputs() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    ids = generator.integers(0, VOCABULARY_SIZE, (2, 6))
    mask = np.array([[1] * 6, [1, 1, 1, 1, 0, 0]])
    return {"token_ids": ids.astype("int32"), "padding_mask": mask.astype("int32")}


def three_layers(**options):
    attention = FullAttentionConfig(num_heads=4, num_key_value_heads=2)
    options = {"num_layers": 3, "num_segments": 0, "attention": attention, **options}
    return build_encoder(small_config(**options), VOCABULARY_SIZE)


def test_layers_and_heads_from_the_maps(inputs, randomise):
    model = randomise(three_layers())
    maps = attention_probabilities(model, inputs)
    found = attention_statistics(model, inputs)
    assert list(found) == [f"encoder_layer_{n}/self_attention" for n in range(3)]
    inside = inputs["padding_mask"] == 1
    mask = np.broadcast_to(
        (inside[:, :, None] & inside[:, None])[:, None], (2, 4, 6, 6)
    )
    for path, statistics in found.items():
        weights = ops.convert_to_numpy(maps[path]) * mask
        expected = expected_statistics(
            weights, mask, np.zeros((2, 6, 1)), threshold=0.001, distant=16, end=0
        )
        names = set(statistics) - {"classes"}
        assert "end_to_end" not in names
        assert "confidence_without_end" not in names
        for name in names:
            np.testing.assert_allclose(
                statistics[name], expected[name], rtol=1e-4, atol=1e-5, err_msg=name
            )


def test_padding_never_counts(inputs, randomise):
    model = randomise(three_layers())
    together = attention_statistics(model, inputs)
    alone = attention_statistics(
        model, {name: values[1:, :4] for name, values in inputs.items()}
    )
    for path, statistics in alone.items():
        for name, values in statistics.items():
            np.testing.assert_allclose(
                together[path][name][1:], values, rtol=1e-4, atol=1e-5
            )


def test_the_outputs_stay_the_same(inputs, randomise):
    model = randomise(three_layers())
    served = ops.convert_to_numpy(model(inputs)["sequence_output"])
    with recorded_statistics(model, inputs) as found:
        outputs = ops.convert_to_numpy(model(inputs)["sequence_output"])
    assert len(found) == 3
    inside = inputs["padding_mask"] == 1
    np.testing.assert_allclose(outputs[inside], served[inside], rtol=0, atol=1e-5)
    seams = [x for x in model._flatten_layers() if isinstance(x, Probabilities)]
    assert not any(seam.watched for seam in seams)


def test_both_stacks_and_what_lies_between(randomise):
    config = Seq2SeqModelConfig(
        hidden_dim=8,
        num_layers=1,
        num_decoder_layers=2,
        attention=FullAttentionConfig(num_heads=2),
    )
    model = randomise(build_seq2seq(config, VOCABULARY_SIZE))
    generator = np.random.default_rng(0)
    inputs, classes = {}, {}
    for side, lengths, width in (("encoder", (5, 3), 5), ("decoder", (2, 4), 4)):
        shape = (2, width)
        ids = generator.integers(0, VOCABULARY_SIZE, shape)
        inputs[f"{side}_token_ids"] = ids.astype("int32")
        inputs[f"{side}_padding_mask"] = padded(*lengths, to=width)["padding_mask"]
        classes[side] = generator.integers(0, 2, (*shape, 2))
    maps = attention_probabilities(model, inputs)
    found = attention_statistics(model, inputs, classes, end_class=0)
    assert sorted(found) == sorted(maps)
    crossing = [path for path in found if path.endswith("cross_attention")]
    assert len(crossing) == 2
    masks = {side: inputs[f"{side}_padding_mask"] == 1 for side in classes}
    for path, statistics in found.items():
        queries = masks[path.partition("_")[0]]
        side = "encoder" if path in crossing else path.partition("_")[0]
        mask = queries[:, :, None] & masks[side][:, None]
        if path.startswith("decoder") and path not in crossing:
            mask = np.tril(mask)
        mask = np.broadcast_to(mask[:, None], maps[path].shape)
        weights = ops.convert_to_numpy(maps[path]) * mask
        at_queries = np.zeros((2, max(mask.shape[2:]), 2))  # cross: only keys count
        at_queries[:, : mask.shape[3]] = classes[side]
        expected = expected_statistics(
            weights, mask, at_queries, threshold=0.001, distant=16, end=0
        )
        absent = {"distance", "distant", "offsets", "end_to_end", "end_queries"}
        missing = set(expected) - set(statistics)
        assert missing == (absent if path in crossing else set())
        for name, values in statistics.items():
            np.testing.assert_allclose(
                values, expected[name], rtol=1e-4, atol=1e-5, err_msg=f"{path} {name}"
            )


def test_projections_have_no_positions(inputs, randomise):
    attention = LowRankAttentionConfig(num_heads=2, rank=3)
    model = randomise(three_layers(attention=attention))
    classes = {"encoder": np.ones((2, 6, 1))}
    maps = attention_probabilities(model, inputs)
    for path, found in attention_statistics(model, inputs, classes).items():
        assert sorted(found) == [
            "confidence",
            "entropy",
            "entropy_share",
            "queries",
            "queries_with_two_keys",
        ]
        weights = ops.convert_to_numpy(maps[path])
        entropy = -(weights * np.log(weights)).sum(axis=-1)
        entropy *= inputs["padding_mask"][:, None]
        np.testing.assert_allclose(found["entropy"], entropy.sum(axis=-1), rtol=1e-4)
        np.testing.assert_allclose(
            found["entropy_share"], entropy.sum(axis=-1) / np.log(3), rtol=1e-4
        )
        np.testing.assert_array_equal(found["queries"], [6, 4])


def test_a_prefix_is_visible_to_all(randomise):
    config = DecoderConfig(
        num_layers=1, hidden_dim=8, attention=FullAttentionConfig(num_heads=2)
    )
    model = randomise(build_decoder(config, VOCABULARY_SIZE, prefix=True))
    inputs = {
        "token_ids": np.arange(4, dtype="int32")[None],
        "padding_mask": np.ones((1, 4), "int32"),
        "prefix_mask": np.array([[1, 1, 0, 0]], "int32"),
    }
    found = attention_statistics(model, inputs)["decoder_layer_0/self_attention"]
    assert found["queries_with_two_keys"][0] == 4  # without a prefix: 3
    np.testing.assert_allclose(ops.sum(found["offsets"], axis=2), 4, rtol=1e-5)


@tensorflow_only
def test_traced_is_eager(inputs, randomise):
    import tensorflow as tf

    model = randomise(three_layers())
    classes = {"encoder": np.random.default_rng(1).integers(0, 2, (2, 6, 3))}
    eager = attention_statistics(model, inputs, classes, end_class=2)
    traced = tf.function(
        lambda x, c: attention_statistics(model, x, c, end_class=2), autograph=False
    )(inputs, classes)
    assert list(traced) == list(eager)
    for path, statistics in eager.items():
        assert sorted(traced[path]) == sorted(statistics)
        for name, values in statistics.items():
            np.testing.assert_allclose(traced[path][name], values, rtol=1e-4, atol=1e-5)


@settings(max_examples=5)
@given(st.integers(1, 12), st.integers(1, 12))
def test_sums_are_within_their_counts(first, second):
    sequence_info = padded(first, second, to=max(first, second))
    layer, _ = sliding_window(sequence_info, False)
    x = floats(2, max(first, second), D)
    model = LayerModel(layer, x, ("padding_mask",))
    ones = {"encoder": np.ones((*x.shape[:2], 1))}
    found = attention_statistics(model, sequence_info, ones)["encoder_attention"]
    found = {name: ops.convert_to_numpy(value) for name, value in found.items()}
    queries = found["queries"][:, None]
    np.testing.assert_array_equal(queries[:, 0], [first, second])
    # No token is further away than the window, so that all weight is at the offsets.
    np.testing.assert_allclose(
        found["offsets"].sum(axis=-1), np.repeat(queries, H, axis=1), rtol=1e-4
    )
    np.testing.assert_allclose(
        found["classes"][..., 0], np.repeat(queries, H, axis=1), rtol=1e-4
    )
    for name in ("entropy_share", "confidence", "sparsity", "distant", "first"):
        assert (found[name] >= 0).all()
        assert (found[name] <= queries * (1 + 1e-5)).all()


def test_no_probabilities(inputs):
    model = three_layers(attention=KernelAttentionConfig(num_heads=2))
    with pytest.raises(ConfigError, match="kernel attention"):
        attention_statistics(model, inputs)


def test_packed_rows_are_refused():
    config = small_config(num_layers=1, num_segments=0)
    model = build_encoder(config, VOCABULARY_SIZE, packed=True)
    with pytest.raises(ConfigError, match="packed=False"):
        attention_statistics(model, dict(model.input))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sparsity_threshold": 0.0}, "sparsity_threshold=0.0"),
        ({"sparsity_threshold": 1.0}, "sparsity_threshold=1.0"),
        ({"sparsity_threshold": math.nan}, "sparsity_threshold=nan"),
        ({"distant_tokens": 0}, "distant_tokens=0"),
    ],
)
def test_options_out_of_range(inputs, options, message):
    with pytest.raises(ConfigError, match=message):
        attention_statistics(three_layers(), inputs, **options)


def test_another_thread_is_not_observed(inputs):
    from concurrent.futures import ThreadPoolExecutor

    model = three_layers()
    with (
        ThreadPoolExecutor(1) as other,
        recorded_statistics(model, inputs) as found,
    ):
        other.submit(model, inputs).result()
        assert not found
        model(keras.tree.map_structure(ops.convert_to_tensor, inputs))
    assert len(found) == 3
