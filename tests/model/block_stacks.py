"""Blocks between a token embedding and itself, put together by hand."""

from typing import Any

import keras
import numpy as np

from tests.model.compiling import ON_JAX
from transbeam.model.layers.attention.full import MultiHeadAttention
from transbeam.model.layers.block import TransformerBlock
from transbeam.model.layers.embeddings import TokenEmbedding
from transbeam.model.layers.feedforward import FeedForward, GatedFeedForward
from transbeam.model.layers.norms import LayerNormalization
from transbeam.model.layers.residual import Residual

VOCABULARY_SIZE, HIDDEN_DIM = 23, 16


def small_model(
    *,
    gated: bool = False,
    num_layers: int = 1,
    dtype: str = "float32",
    **attention: Any,
) -> keras.Model:
    """A tied model of words, whose weights are large enough that a mistake shows."""
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in ("token_ids", "padding_mask")
    }
    table = TokenEmbedding(
        VOCABULARY_SIZE, HIDDEN_DIM, name="token_embedding", dtype=dtype
    )
    x = table(inputs["token_ids"])
    kind = GatedFeedForward if gated else FeedForward
    for index in range(num_layers):
        x = TransformerBlock(
            self_attention=MultiHeadAttention(
                HIDDEN_DIM, name="self_attention", dtype=dtype, **attention
            ),
            self_attention_norm=LayerNormalization(
                name="self_attention_norm", dtype=dtype
            ),
            self_attention_residual=Residual(
                name="self_attention_residual", dtype=dtype
            ),
            feedforward=kind(HIDDEN_DIM, 24, name="feedforward", dtype=dtype),
            feedforward_norm=LayerNormalization(name="feedforward_norm", dtype=dtype),
            feedforward_residual=Residual(name="feedforward_residual", dtype=dtype),
            name=f"encoder_layer_{index}",
            dtype=dtype,
        )(x, {"padding_mask": inputs["padding_mask"]})
    outputs = {"sequence_output": x, "logits": table(x, reverse=True)}
    model = keras.Model(inputs, outputs, name="small")
    generator = np.random.default_rng(7)
    for weight in model.weights:
        centre = 1.0 if weight.path.endswith("gamma") else 0.0
        weight.assign(generator.normal(centre, 0.3, weight.shape))
    return model


def some_inputs() -> dict[str, np.ndarray]:
    """Three rows, one of them padded."""
    generator = np.random.default_rng(1)
    mask = np.array([[1] * 6, [1] * 6, [1, 1, 1, 1, 0, 0]])
    return {
        "token_ids": generator.integers(0, VOCABULARY_SIZE, (3, 6)).astype("int32"),
        "padding_mask": mask.astype("int32"),
    }


def logits(model: keras.Model) -> np.ndarray:
    """Scores for `some_inputs`, without those of padding."""
    inputs = some_inputs()
    scores = keras.ops.convert_to_numpy(model(inputs, training=False)["logits"])
    return scores[inputs["padding_mask"] == 1]


def train(model: keras.Model, *, steps: int = 2, eager: bool = True) -> None:
    """A few steps towards predicting the tokens that are there."""
    inputs = some_inputs()
    model.compile(
        keras.optimizers.Adam(0.05),
        {"logits": keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
        run_eagerly=eager and not ON_JAX,
        jit_compile=ON_JAX,
    )
    targets = {"logits": inputs["token_ids"]}
    model.fit(inputs, targets, epochs=steps, shuffle=False, verbose=0)
