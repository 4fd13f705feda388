"""Task heads on an encoder or a decoder: one function for each."""

from typing import Any

import keras

from transbeam.configs.schema.model import PoolerConfig
from transbeam.model.base.initializers import derive_seed, seeded
from transbeam.model.layers.activations import ACTIVATIONS
from transbeam.model.layers.dropout import Dropout
from transbeam.model.layers.embeddings import TokenEmbedding
from transbeam.model.layers.lm_head import GatherTokens, VocabularyBias
from transbeam.model.layers.pooling import Pooling
from transbeam.model.stack.layer_factory import build_norm
from transbeam.model.stack.stack_spec import StackSpec


def pool(
    plan: StackSpec, pooler: PoolerConfig, x: Any, sequence_info: dict[str, Any]
) -> Any:
    """Pools the real tokens of each row: `(B, T, D)` to `(B, D)`.

    With `end_token` the records have added the token, which is the last one of its row.
    """
    real = sequence_info.get("padding_mask", sequence_info.get("document_ids"))
    x = Pooling(
        "last" if pooler.kind == "end_token" else pooler.kind,
        seed=derive_seed(plan.seed, "pooling"),
        name="pooling",
        dtype=plan.dtype,
    )(x, real)
    if not pooler.projection:
        return x
    return _dense(plan, "pooler", plan.config.hidden_dim, activation=pooler.activation)(
        x
    )


def predict_masked(
    plan: StackSpec, token_embedding: TokenEmbedding, x: Any, positions: Any
) -> Any:
    """Computes the logits of masked tokens: float32 `(B, P, V)`.

    BERT's head: a further dense layer and norm, then the transposed token embedding and
    a bias for each token. The head is applied to masked positions only. If the
    embedding is narrow, the dense layer and the norm have the embedding's width, as in
    ALBERT's head.

    References:
        - [Lan et al., 2019](https://arxiv.org/abs/1909.11942); the head is in the
          published code (`run_pretraining.py`), not in the paper
    """
    x = GatherTokens(name="masked_tokens", dtype=plan.dtype)(x, positions)
    x = _dense(
        plan,
        "head_dense",
        plan.config.table_dim,
        activation=ACTIVATIONS[plan.config.head_activation],
    )(x)
    x = build_norm(plan, "head_norm")(x)
    scores = token_embedding(x, reverse=True)
    return VocabularyBias(name="head_bias", dtype="float32")(scores)


def classify(
    plan: StackSpec, name: str, num_classes: int, x: Any, *, use_bias: bool = True
) -> Any:
    """Computes class logits of rows `(B, D)` or of tokens `(B, T, D)`: float32."""
    x = _dropped(plan, name, x)
    dense = _dense(plan, name, num_classes, use_bias=use_bias)
    return keras.ops.cast(dense(x), "float32")


def estimate(plan: StackSpec, name: str, x: Any, *, use_bias: bool = True) -> Any:
    """Predicts a number for each row: `(B, D)` to float32 `(B,)`.

    The last product is in float32 for every dtype policy: bfloat16 has only three
    digits, and float16 overflows at 65,504.
    """
    x = keras.ops.cast(_dropped(plan, name, x), "float32")
    return _dense(plan, name, 1, dtype="float32", use_bias=use_bias)(x)[..., 0]


def embed(pooled: Any) -> Any:
    """Scales vectors to L2 norm 1: `(B, D)` to float32 `(B, D)`; zeros stay zeros.

    Keras's `UnitNormalization` has no gradient at a vector of zeros.

    Example:
    >>> keras.ops.convert_to_numpy(embed(keras.ops.array([[3.0, 4.0], [0.0, 0.0]])))
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)
    """
    x = keras.ops.cast(pooled, "float32")
    squares = keras.ops.sum(keras.ops.square(x), axis=-1, keepdims=True)
    return x * keras.ops.rsqrt(keras.ops.maximum(squares, 1e-24))


def _dropped(plan: StackSpec, name: str, x: Any) -> Any:
    return Dropout(
        plan.config.dropout,
        seed=derive_seed(plan.seed, f"{name}_dropout"),
        name=f"{name}_dropout",
        dtype=plan.dtype,
    )(x)


def _dense(
    plan: StackSpec,
    name: str,
    units: int,
    activation: Any = None,
    dtype: str | None = None,
    *,
    use_bias: bool = True,
) -> keras.layers.Dense:
    return keras.layers.Dense(
        units,
        use_bias=use_bias,
        activation=activation,
        kernel_initializer=seeded(plan.kernel_initializer, plan.seed, name),
        name=name,
        dtype=dtype or plan.dtype,
    )
