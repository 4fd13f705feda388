"""KerasHub's rotations and T5 buckets on the same places: the same numbers."""

import keras_hub
import numpy as np
import pytest
from keras import ops
from keras_hub.src.models.t5.t5_multi_head_attention import T5MultiHeadAttention

from tests.model.conftest import tensorflow_only
from transbeam.model.layers.positions.relative_bias import (
    RelativeBias,
    relative_buckets,
)
from transbeam.model.layers.positions.rotary import RotaryEmbedding

pytestmark = tensorflow_only
PLACES = np.array([[0, 1, 2, 3, 4, 5], [7, 90, 0, 1, 300, 2]], "int32")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({}, {}),
        ({"base": 5e5}, {"max_wavelength": 5e5}),
        ({"stretch": "linear", "factor": 3.0}, {"scaling_factor": 3.0}),
        (
            {"stretch": "yarn", "factor": 16.0, "original_length": 512},
            {
                "rope_type": "yarn",
                "scaling_factor": 16.0,
                "original_max_position_embeddings": 512,
            },
        ),
        (
            {
                "stretch": "yarn",
                "factor": 4.0,
                "original_length": 100,
                "beta_fast": 20.0,
                "beta_slow": 2.0,
            },
            {
                "rope_type": "yarn",
                "scaling_factor": 4.0,
                "original_max_position_embeddings": 100,
                "beta_fast": 20.0,
                "beta_slow": 2.0,
            },
        ),
    ],
)
def test_rotary(ours, theirs):
    x = np.random.default_rng(0).normal(size=(2, 6, 3, 32)).astype("float32")
    expected = keras_hub.layers.RotaryEmbedding(**theirs)(x, positions=PLACES)
    found = RotaryEmbedding(**ours)(x, PLACES)
    # Their frequencies are float32 powers; ours are rounded once. At place 300 an
    # angle differs by 300 roundings.
    np.testing.assert_allclose(
        ops.convert_to_numpy(found), ops.convert_to_numpy(expected), rtol=0, atol=2e-4
    )


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("sizes", [(32, 128), (8, 20), (64, 256)])
def test_t5_buckets(bidirectional, sizes):
    ahead = np.arange(-300, 301, dtype="int32")
    expected = T5MultiHeadAttention._relative_position_bucket(
        ops.convert_to_tensor(ahead),
        bidirectional=bidirectional,
        num_buckets=sizes[0],
        max_distance=sizes[1],
    )
    np.testing.assert_array_equal(
        relative_buckets(ahead, *sizes, bidirectional), ops.convert_to_numpy(expected)
    )


@pytest.mark.parametrize("is_decoder", [True, False])
def test_t5_bias(is_decoder):
    theirs = T5MultiHeadAttention(
        is_decoder=is_decoder,
        hidden_dim=8,
        key_value_dim=2,
        num_heads=4,
        dropout=0.0,
        use_relative_attention_bias=True,
    )
    places = np.arange(200, dtype="int32")
    ours = RelativeBias(bidirectional=not is_decoder)(
        places[150:], places, theirs.relative_attention_bias
    )
    expected = theirs.compute_bias(50, 200, query_start_index=150)
    np.testing.assert_array_equal(
        ops.convert_to_numpy(ours), ops.convert_to_numpy(expected)[0]
    )
