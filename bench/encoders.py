"""One encoder, made by us, by KerasHub and by Hugging Face, to be timed."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import keras
import keras_hub
import numpy as np
import tensorflow as tf

from bench.answering import Answering
from transbeam.configs.schema.attention import Attention, FullAttentionConfig
from transbeam.configs.schema.block import DenseFeedForwardConfig
from transbeam.configs.schema.model import EncoderConfig
from transbeam.model.encoder import build_encoder

VOCABULARY = 8192
Run = Callable[[int, int], float]  # batch and length to seconds


@dataclass(frozen=True)
class Shape:
    """The sizes of an encoder."""

    num_layers: int
    hidden_dim: int
    num_heads: int
    max_sequence_length: int

    @property
    def intermediate_dim(self) -> int:
        """Of the feed-forward network."""
        return 4 * self.hidden_dim

    def __str__(self) -> str:
        return f"{self.num_layers}x{self.hidden_dim}"


BASE = Shape(num_layers=12, hidden_dim=768, num_heads=12, max_sequence_length=512)


def ours(shape: Shape, dtype: str, attention: Attention | None = None) -> Run:
    """Our encoder, with full attention if no other is given."""
    config = EncoderConfig(
        num_layers=shape.num_layers,
        hidden_dim=shape.hidden_dim,
        max_sequence_length=shape.max_sequence_length,
        num_segments=2,
        attention=attention or FullAttentionConfig(num_heads=shape.num_heads),
        feedforward=DenseFeedForwardConfig(intermediate_dim=shape.intermediate_dim),
    )
    return _timed(build_encoder(config, VOCABULARY, dtype=dtype))


def keras_hub_bert(shape: Shape, dtype: str) -> Run:
    """KerasHub's BERT."""
    return _timed(
        keras_hub.models.BertBackbone(
            vocabulary_size=VOCABULARY,
            num_layers=shape.num_layers,
            num_heads=shape.num_heads,
            hidden_dim=shape.hidden_dim,
            intermediate_dim=shape.intermediate_dim,
            max_sequence_length=shape.max_sequence_length,
            dtype=dtype,
        )
    )


def hugging_face_bert(
    shape: Shape, dtype: str, python: Path, attention: str = "sdpa"
) -> Answering:
    """Hugging Face's BERT, run by the Python of another environment.

    Args:
        shape: Its sizes.
        dtype: `float32` or `bfloat16`.
        python: Of an environment with torch and transformers.
        attention: `sdpa` or `eager`.

    Returns:
        A process to be asked for a batch and a length.
    """
    sizes = (
        shape.num_layers,
        shape.hidden_dim,
        shape.num_heads,
        shape.intermediate_dim,
        shape.max_sequence_length,
    )
    script = Path(__file__).parent / "peers" / "hf_encoder.py"
    return Answering([python, script, *sizes, dtype, attention])


def _timed(model: keras.Model) -> Run:
    call = tf.function(
        lambda inputs: model(inputs, training=False)["sequence_output"],
        autograph=False,
    )

    def run(batch: int, length: int) -> float:
        ids = np.random.default_rng(0).integers(5, VOCABULARY, (batch, length))
        inputs = {
            "token_ids": tf.constant(ids, "int32"),
            "padding_mask": tf.ones((batch, length), "int32"),
            "segment_ids": tf.zeros((batch, length), "int32"),
        }
        began = time.perf_counter()
        call(inputs)
        return time.perf_counter() - began

    return run
