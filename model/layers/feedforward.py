"""What happens to each token alone, between two attentions."""

import keras

from model.layers.activations import ACTIVATIONS
from model.seeds import derive_seed


@keras.saving.register_keras_serializable(package="transbeam")
class FeedForward(keras.layers.Layer):
    """Widens each token's vector, bends it, and narrows it again.

    Two thirds of a block's weights are here, in a network that never looks at
    another token.

    Shapes: `B` batch, `T` length, `D` hidden width, `I` intermediate width.

    Args:
        hidden_dim: int. `D`.
        intermediate_dim: int. `I`.
        activation: `"gelu"`, `"gelu_tanh"` or `"relu"`.
        initializer_range: float. Standard deviation of the truncated normals.
        seed: int or None. Seed of the initial weights.

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

    def __init__(
        self,
        hidden_dim: int,
        intermediate_dim: int,
        activation: str = "gelu",
        initializer_range: float = 0.02,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_dim = hidden_dim
        self.intermediate_dim = intermediate_dim
        self.activation = activation
        self.initializer_range = initializer_range
        self.seed = seed
        self.supports_masking = True

        def dense(name, units, activation=None):
            return keras.layers.Dense(
                units,
                activation=activation,
                kernel_initializer=keras.initializers.TruncatedNormal(
                    stddev=initializer_range, seed=derive_seed(seed, name)
                ),
                name=name,
                dtype=self.dtype_policy,
            )

        self.intermediate = dense(
            "intermediate", intermediate_dim, ACTIVATIONS[activation]
        )
        # Keras keeps the attribute `output` for itself; the weights are under it.
        self.output_projection = dense("output", hidden_dim)

    def build(self, inputs_shape):
        self.intermediate.build(inputs_shape)
        self.output_projection.build((*inputs_shape[:-1], self.intermediate_dim))

    def call(self, inputs):
        return self.output_projection(self.intermediate(inputs))

    def compute_output_shape(self, inputs_shape):
        return inputs_shape

    def get_config(self):
        return {
            **super().get_config(),
            "hidden_dim": self.hidden_dim,
            "intermediate_dim": self.intermediate_dim,
            "activation": self.activation,
            "initializer_range": self.initializer_range,
            "seed": self.seed,
        }
