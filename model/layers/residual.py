"""Residual connections, a class per kind."""

import math

import keras
from keras import ops

from transbeam.model.base.activation_hooks import activation
from transbeam.model.base.initializers import derive_seed
from transbeam.model.layers.base_layer import TokenwiseLayer
from transbeam.model.layers.dropout import Dropout


@keras.saving.register_keras_serializable(package="transbeam")
class Residual(TokenwiseLayer):
    """Adds a sub-layer's output, with dropout, to the sub-layer's input.

    The residual path through a deep model has no products, so its gradient reaches the
    first layer undamped.

    Shapes: `B` batch, `T` length, `D` hidden width.

    Args:
        dropout: float in `[0, 1)`. Share of the update that is dropped in training.
        seed: int or None. Seed of the dropout.

    Call arguments:
        inputs: float `(B, T, D)`, the sub-layer's input.
        update: float `(B, T, D)`, the sub-layer's output.

    Returns:
        `(B, T, D)` in the compute dtype.

    Example:
    >>> residual = Residual(dropout=0.1)
    >>> ops.convert_to_numpy(residual(ops.array([[[1.0]]]), ops.array([[[2.0]]])))
    array([[[3.]]], dtype=float32)

    Masking: passes the Keras mask of `inputs` through unchanged.

    References:
        - [He et al., 2016](https://arxiv.org/abs/1512.03385), equation 1
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 5.4
    """

    def __init__(self, dropout: float = 0.0, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        self.dropout = dropout
        self.seed = seed
        self.update_dropout = Dropout(
            dropout, seed=seed, name="dropout", dtype=self.dtype_policy
        )

    def build(self, inputs_shape):
        self.update_dropout.build(inputs_shape)

    def call(self, inputs, update, training=None):
        update = activation(self, "update", self.temper(update, training))
        return ops.add(inputs, update)

    def temper(self, update, training):
        """Computes the update that is added: a sub-layer's output after dropout."""
        return self.update_dropout(update, training=training)


@keras.saving.register_keras_serializable(package="transbeam")
class ScaledResidual(Residual):
    """Divides every update by the square root of the number of updates.

    The sum of `N` updates of variance one would have the variance `N`; with this
    division the variance is one at any depth.

    Args:
        num_updates: int. `N`, the number of sub-layers that add to the same residual
            stream: two in each block, and three in blocks with cross-attention.

    The other arguments, the call arguments, the masking and the returned value are
    those of `Residual`.

    Example:
    >>> residual = ScaledResidual(num_updates=4)
    >>> ops.convert_to_numpy(residual(ops.array([[[1.0]]]), ops.array([[[2.0]]])))
    array([[[2.]]], dtype=float32)

    References:
        - [Radford et al., 2019](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf),
          section 2.3, where the factor is in the initial weights, not in the sum
    """

    def __init__(self, num_updates: int, **kwargs):
        super().__init__(**kwargs)
        self.num_updates = num_updates

    def temper(self, update, training):
        return super().temper(update, training) * (1 / math.sqrt(self.num_updates))


@keras.saving.register_keras_serializable(package="transbeam")
class ReZeroResidual(Residual):
    """Multiplies every update by a learned number that starts at 0.

    A new model of any depth is the identity; training increases the contribution of
    each sub-layer. Weight: `scale`, a scalar.

    The arguments, the call arguments, the masking and the returned value are those of
    `Residual`.

    Example:
    >>> residual = ReZeroResidual()
    >>> ops.convert_to_numpy(residual(ops.array([[[1.0]]]), ops.array([[[2.0]]])))
    array([[[1.]]], dtype=float32)

    References:
        - [Bachlechner et al., 2020](https://arxiv.org/abs/2003.04887), equation 2
    """

    def build(self, inputs_shape):
        super().build(inputs_shape)
        self.scale = self.add_weight(name="scale", shape=(), initializer="zeros")

    def temper(self, update, training):
        return super().temper(update, training) * self.scale


@keras.saving.register_keras_serializable(package="transbeam")
class DropPathResidual(Residual):
    """Drops the whole update of some rows in training (stochastic depth).

    For rows with dropped updates the model is shallower, so no sub-layer can rely on
    the presence of all earlier ones. Updates that are not dropped are divided by the
    probability of keeping them, so that the mean equals that of inference.

    Args:
        rate: float in `[0, 1)`. Share of the rows whose update is dropped.
        seed: int or None. Seed of both kinds of dropout.

    The other arguments, the call arguments, the masking and the returned value are
    those of `Residual`.

    Example:
    >>> residual = DropPathResidual(rate=0.5)
    >>> ops.convert_to_numpy(residual(ops.array([[[1.0]]]), ops.array([[[2.0]]])))
    array([[[3.]]], dtype=float32)

    References:
        - [Huang et al., 2016](https://arxiv.org/abs/1603.09382), section 3; the paper
          drops the update of a whole batch; this layer drops the updates of single
          rows, as in [Larsson et al.](https://arxiv.org/abs/1605.07648)
    """

    def __init__(
        self,
        rate: float,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(dropout, seed, **kwargs)
        self.rate = rate
        self.path_dropout = Dropout(
            rate,
            noise_shape=(None, 1, 1),
            seed=derive_seed(seed, "path"),
            name="path_dropout",
            dtype=self.dtype_policy,
        )

    def build(self, inputs_shape):
        super().build(inputs_shape)
        self.path_dropout.build(inputs_shape)

    def temper(self, update, training):
        return self.path_dropout(super().temper(update, training), training=training)
