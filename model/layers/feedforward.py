"""Feed-forward layers, which are applied to each token separately."""

import keras

from transbeam.model.base.activation_hooks import activation
from transbeam.model.base.initializers import (
    InitializerLike,
    derive_seed,
    initializer_or_normal,
    seeded,
)
from transbeam.model.layers.activations import ACTIVATIONS
from transbeam.model.layers.base_layer import TokenwiseLayer
from transbeam.model.layers.dense import Dense, inner_dense_options
from transbeam.model.layers.dropout import Dropout


@keras.saving.register_keras_serializable(package="transbeam")
class FeedForward(TokenwiseLayer):
    """Two dense layers with an activation in between, applied to each token.

    In a standard Transformer, the two dense layers have two thirds of a block's
    weights.

    Shapes: `B` batch, `T` length, `D` hidden width, `I` intermediate width.

    Args:
        hidden_dim: int. `D`.
        intermediate_dim: int. `I`.
        activation: `"gelu"`, `"gelu_tanh"`, `"relu"` or `"silu"`.
        use_bias: bool. If true, the dense layers add a bias.
        dropout: float in `[0, 1)`. Share of the intermediate vector that is dropped in
            training.
        kernel_initializer: Keras initializer of the kernels; None for BERT's.
        output_initializer: Keras initializer of the last kernel; None for
            `kernel_initializer`.
        seed: int or None. Seed of the initial weights and of the dropout.

    Call arguments:
        inputs: float `(B, T, D)`.

    Returns:
        `(B, T, D)` in the compute dtype.

    Example:
    >>> feedforward = FeedForward(hidden_dim=4, intermediate_dim=8)
    >>> tuple(feedforward(keras.ops.ones((1, 3, 4))).shape)
    (1, 3, 4)

    Masking: passes the Keras mask through unchanged.

    References:
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), equation 2
    """

    # The dense layer whose output is the input of the activation.
    bent = "intermediate"

    def __init__(
        self,
        hidden_dim: int,
        intermediate_dim: int,
        activation: str = "gelu",
        use_bias: bool = True,
        dropout: float = 0.0,
        kernel_initializer: InitializerLike = None,
        output_initializer: InitializerLike = None,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_dim = hidden_dim
        self.intermediate_dim = intermediate_dim
        self.activation = activation
        self.use_bias = use_bias
        self.dropout = dropout
        self.kernel_initializer = initializer_or_normal(kernel_initializer)
        self.output_initializer = initializer_or_normal(
            output_initializer or self.kernel_initializer
        )
        self.seed = seed

        self.intermediate = self.dense(
            "intermediate", intermediate_dim, self.kernel_initializer
        )
        # The attribute `output` is reserved by Keras; the weights' paths use the name.
        self.output_projection = self.dense(
            "output", hidden_dim, self.output_initializer
        )
        self.intermediate_dropout = Dropout(
            dropout,
            seed=derive_seed(seed, "dropout"),
            name="dropout",
            dtype=self.dtype_policy,
        )

    def dense(
        self,
        name: str,
        units: int,
        initializer: keras.initializers.Initializer,
    ) -> Dense:
        """Makes a dense layer with its own derived seed."""
        return Dense(
            units,
            activation=ACTIVATIONS[self.activation] if name == self.bent else None,
            use_bias=self.use_bias,
            kernel_initializer=seeded(initializer, self.seed, name),
            **inner_dense_options(self, name),
        )

    def build(self, inputs_shape):
        wide_shape = (*inputs_shape[:-1], self.intermediate_dim)
        self.intermediate.build(inputs_shape)
        self.intermediate_dropout.build(wide_shape)
        self.output_projection.build(wide_shape)

    def call(self, inputs, training=None):
        x = activation(self, "units", self.widen(inputs))  # (B, T, I)
        x = self.intermediate_dropout(x, training=training)
        return self.output_projection(x)

    def widen(self, inputs):
        """Computes the activated intermediate vectors: `(B, T, D)` to `(B, T, I)`."""
        return self.intermediate(inputs)


@keras.saving.register_keras_serializable(package="transbeam")
class GatedFeedForward(FeedForward):
    """A gated feed-forward (GLU): the product of two dense layers, one activated.

    A gated layer trains better than an ungated one with the same number of weights; the
    numbers of weights are equal if the gated layer's intermediate width is two thirds
    of the ungated layer's.

    Args:
        activation: Activation of the gate: `"silu"` for SwiGLU, `"gelu"` or
            `"gelu_tanh"` for GEGLU, `"relu"` for ReGLU.
        use_bias: bool. If true, the dense layers add a bias.

    The other arguments, the call arguments, the shapes, the masking and the returned
    value are those of `FeedForward`.

    Example:
    >>> feedforward = GatedFeedForward(hidden_dim=4, intermediate_dim=8)
    >>> tuple(feedforward(keras.ops.ones((1, 3, 4))).shape), len(feedforward.weights)
    ((1, 3, 4), 3)

    References:
        - [Shazeer, 2020](https://arxiv.org/abs/2002.05202), equation 6
    """

    bent = "gate"

    def __init__(
        self,
        hidden_dim: int,
        intermediate_dim: int,
        activation: str = "silu",
        use_bias: bool = False,
        **kwargs,
    ):
        super().__init__(hidden_dim, intermediate_dim, activation, use_bias, **kwargs)
        self.gate = self.dense("gate", intermediate_dim, self.kernel_initializer)

    def build(self, inputs_shape):
        self.gate.build(inputs_shape)
        super().build(inputs_shape)

    def widen(self, inputs):
        return self.gate(inputs) * self.intermediate(inputs)
