"""Pooling of token vectors to one vector per text."""

from typing import Literal

import keras
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.base.initializers import (
    InitializerLike,
    initializer_or_normal,
    seeded,
)
from transbeam.model.base.tensor_checks import check_rank, check_rows, known_values
from transbeam.model.layers.base_layer import ConfiguredLayer
from transbeam.model.layers.masks import masked_score

KINDS = ("first", "last", "mean", "max", "attention")


@keras.saving.register_keras_serializable(package="transbeam")
class Pooling(ConfiguredLayer):
    """Pools a text's token vectors to one vector, for classification or comparison.

    `"first"` selects the first token's vector, which the model learns to use as a
    summary; `"last"` that of the last real token, the only one that sees the whole text
    in a decoder: the last position whose mask is 1, with padding on either side and for
    any ids; `"mean"` and `"max"` reduce each feature over all real tokens;
    `"attention"` computes a weighted mean: the weights are the softmax of the dot
    products with a learned vector `query`, shared by all texts, divided by `sqrt(D)`.

    Rows hold one text each: document ids of packed texts are refused in eager
    execution, and pooled together in compiled functions.

    Shapes: `B` batch, `T` length, `D` hidden width.

    Args:
        kind: `"first"`, `"last"`, `"mean"`, `"max"` or `"attention"`.
        query_initializer: Keras initializer of `query`, the weight `(D,)` that
            `"attention"` has; the other kinds have none. None for BERT's.
        seed: int or None. Seed of the initial query.

    Call arguments:
        inputs: float `(B, T, D)`.
        padding_mask: int or bool `(B, T)`, 1 for a real token; None if all are real.

    Returns:
        `(B, D)` in the compute dtype. Computed in float32. A row of only padding yields
        zeros, or with `"first"` its first token's vector.

    Raises:
        ConfigError: `kind` is not one of `"first"`, `"last"`, `"mean"`, `"max"` and
            `"attention"`.
        ValueError: `inputs` is not of rank 3, or the mask does not have one integer or
            bool for each token, or is that of several packed texts.

    Example:
    >>> tokens = ops.array([[[1.0], [4.0], [100.0]]])
    >>> ops.convert_to_numpy(Pooling("mean")(tokens, ops.array([[1, 1, 0]])))
    array([[2.5]], dtype=float32)
    >>> ops.convert_to_numpy(Pooling("last")(tokens, ops.array([[0, 1, 0]])))
    array([[4.]], dtype=float32)

    Masking: only `padding_mask` is used. A Keras mask on the inputs is ignored, with a
    warning of Keras.

    References:
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805), section 3 (first)
        - [Reimers & Gurevych, 2019](https://arxiv.org/abs/1908.10084), section 3
          (mean, max)
        - [Radford et al., 2018](https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf),
          section 3.2 (last)
        - [Yang et al., 2016](https://aclanthology.org/N16-1174), equations 6 and 7
          (attention), without the paper's dense layer of equation 5
    """

    def __init__(
        self,
        kind: Literal["first", "last", "mean", "max", "attention"] = "first",
        query_initializer: InitializerLike = None,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if kind not in KINDS:
            raise ConfigError(f"{self.name}: kind={kind!r} is not one of {KINDS}")
        self.kind = kind
        self.query_initializer = initializer_or_normal(query_initializer)
        self.seed = seed

    def build(self, inputs_shape):
        if self.kind == "attention":
            self.query = self.add_weight(
                name="query",
                shape=(inputs_shape[-1],),
                initializer=seeded(self.query_initializer, self.seed),
                autocast=False,
            )

    def call(self, inputs, padding_mask=None):
        check_rank(inputs, 3, f"{self.name}: inputs", "(batch, length, hidden_dim)")
        if self.kind == "first":
            return inputs[:, 0]
        if padding_mask is None:
            padding_mask = ops.ones(ops.shape(inputs)[:2], "bool")
        check_rows(padding_mask, inputs, f"{self.name}: padding_mask")
        self._check_one_text(padding_mask)
        real = ops.expand_dims(ops.not_equal(padding_mask, 0), -1)  # (B, T, 1)
        x = ops.where(real, ops.cast(inputs, "float32"), 0.0)
        match self.kind:
            case "last":
                positions = ops.arange(ops.shape(inputs)[1])[None, :, None]
                place = ops.max(ops.where(real, positions, -1), axis=1, keepdims=True)
                pooled = ops.sum(ops.where(positions == place, x, 0.0), axis=1)
            case "mean":
                number = ops.sum(ops.cast(real, "float32"), axis=1)  # (B, 1)
                pooled = ops.sum(x, axis=1) / ops.maximum(number, 1.0)
            case "max":
                highest = ops.max(ops.where(real, x, -float("inf")), axis=1)
                pooled = ops.where(ops.any(real, axis=1), highest, 0.0)
            case _:
                pooled = ops.sum(self.attend(x, real) * x, axis=1)
        return ops.cast(pooled, self.compute_dtype)  # (B, D)

    def _check_one_text(self, padding_mask):
        """Rejects rows with document ids of several texts, where these are known."""
        values = known_values(padding_mask)
        if values is None or not values.size:
            return
        last = values.max(axis=1, keepdims=True)
        others = (values != 0) & (values != last)
        if others.any():
            raise ValueError(
                f"{self.name}: padding_mask has values up to {last.max()}, which are "
                "document ids of packed texts; expected rows with one text each"
            )

    def attend(self, x, real):
        """Computes the pooling weight of each token: `(B, T, 1)`, 0 for padding."""
        scores = ops.matmul(x, ops.expand_dims(self.query, -1))  # (B, T, 1)
        scores = scores / ops.shape(x)[-1] ** 0.5
        scores = ops.where(real, scores, masked_score())
        # `ops.softmax` warns for texts of one token. The largest weight is 1 before the
        # division, so only the sum of a row without real tokens is below 1.
        highest = ops.max(scores, axis=1, keepdims=True)
        weights = ops.where(real, ops.exp(scores - highest), 0.0)
        return weights / ops.maximum(ops.sum(weights, axis=1, keepdims=True), 1.0)

    def compute_output_spec(self, inputs, padding_mask=None):
        shape = (inputs.shape[0], inputs.shape[-1])
        return keras.KerasTensor(shape, dtype=self.compute_dtype)
