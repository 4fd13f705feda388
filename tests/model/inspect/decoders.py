"""Small decoders, with more heads than layers and neither a power of the other."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from tests.model.conftest import VOCABULARY_SIZE
from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import (
    DenseFeedForwardConfig,
    GatedFeedForwardConfig,
    LayerNormConfig,
    RmsNormConfig,
)
from transbeam.configs.schema.model import DecoderConfig
from transbeam.model.decoder import build_decoder

LAYERS, HEADS, WIDTH = 2, 3, 12


def decoder_config(*, rms: bool = False, key_heads: int = HEADS, **changes: Any):
    """Returns the config of a decoder of two layers with three heads."""
    norm = RmsNormConfig if rms else LayerNormConfig
    options = {
        "num_layers": LAYERS,
        "hidden_dim": WIDTH,
        "max_sequence_length": 8,
        "dropout": 0.0,
        "attention": FullAttentionConfig(
            num_heads=HEADS, num_key_value_heads=key_heads, projection_bias=not rms
        ),
        "norm": norm(placement="pre", epsilon=1e-5),
        "feedforward": GatedFeedForwardConfig(intermediate_dim=10)
        if rms
        else DenseFeedForwardConfig(intermediate_dim=10),
    }
    return DecoderConfig(**{**options, **changes})


def make_decoder(
    randomise: Callable[[keras.Model], keras.Model], **changes: Any
) -> keras.Model:
    """Builds a decoder with random weights; see `decoder_config`."""
    return randomise(build_decoder(decoder_config(**changes), VOCABULARY_SIZE))


def make_inputs(rows: int = 2, length: int = 6) -> dict[str, np.ndarray]:
    """Makes rows of random tokens, the last of which is shorter by two."""
    ids = np.random.default_rng(0).integers(0, VOCABULARY_SIZE, (rows, length))
    mask = np.ones((rows, length), "int32")
    mask[-1, -2:] = 0
    return {"token_ids": ids.astype("int32"), "padding_mask": mask}
