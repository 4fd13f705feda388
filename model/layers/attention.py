"""Self-attention: every token gathers what it needs from the others."""

import keras
from keras import ops

from configs.errors import ConfigError
from model.layers.masks import attention_bias
from model.seeds import derive_seed


@keras.saving.register_keras_serializable(package="transbeam")
class MultiHeadAttention(keras.layers.Layer):
    """Lets each token take a weighted mean of what the others hold out.

    A token asks with its query, is found by its key and gives its value. The
    heads do this side by side, each in its own slice of the vector, so that one
    token can follow several relations at once.

    The probabilities pass through a layer called `probabilities`, which does
    nothing: it is the place where an analysis can read them.

    Shapes: `B` batch, `T` length, `H` heads, `K` head width, `D = H K` hidden width.

    Args:
        hidden_dim: int. `D`.
        num_heads: int. `H`.
        dropout: float in `[0, 1)`. Share of the probabilities dropped in training.
        initializer_range: float. Standard deviation of the truncated normals.
        seed: int or None. Seed of the initial weights and of the dropout.
        score_bias: layer or None. Called with the scores `(B, H, T, T)` in float32;
            the socket for positions that live there.

    Call arguments:
        inputs: float `(B, T, D)`.
        attention_mask: bool `(B, 1, T)` or `(B, T, T)`, query by key, true where
            the query may attend. See `model.layers.masks`.

    Returns:
        `(B, T, D)` in the compute dtype. The scores' mask and softmax are computed
        in float32.

    Raises:
        ConfigError: when `hidden_dim` is not a multiple of `num_heads`.

    Example:
    >>> attention = MultiHeadAttention(hidden_dim=4, num_heads=2)
    >>> everyone = ops.ones((1, 1, 3), dtype="bool")
    >>> tuple(attention(ops.ones((1, 3, 4)), everyone).shape)
    (1, 3, 4)

    Masking: only `attention_mask` counts. A Keras mask on the inputs is not read,
    and Keras warns of it.

    References:
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.2
    """

    def __init__(
        self,
        hidden_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        initializer_range: float = 0.02,
        seed: int | None = None,
        score_bias: keras.layers.Layer | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if hidden_dim % num_heads:
            raise ConfigError(
                f"{self.name}: hidden_dim={hidden_dim} is not a multiple of "
                f"num_heads={num_heads}; each head needs the same whole width"
            )
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.dropout = dropout
        self.initializer_range = initializer_range
        self.seed = seed
        self.score_bias = score_bias

        def projection(name):
            return keras.layers.Dense(
                hidden_dim,
                kernel_initializer=keras.initializers.TruncatedNormal(
                    stddev=initializer_range, seed=derive_seed(seed, name)
                ),
                name=name,
                dtype=self.dtype_policy,
            )

        self.query = projection("query")
        self.key = projection("key")
        self.value = projection("value")
        # Keras keeps the attribute `output` for itself; the weights are under it.
        self.output_projection = projection("output")
        self.probabilities = keras.layers.Identity(
            name="probabilities", dtype="float32"
        )
        self.probabilities_dropout = keras.layers.Dropout(
            dropout,
            seed=derive_seed(seed, "dropout"),
            name="dropout",
            dtype=self.dtype_policy,
        )

    def build(self, inputs_shape, attention_mask_shape):
        for layer in (self.query, self.key, self.value, self.output_projection):
            layer.build(inputs_shape)

    def call(self, inputs, attention_mask, training=None):
        # Scaled here rather than in the scores, which are T times as many.
        query = self.query(inputs) * self.head_dim**-0.5  # (B, T, D)
        query = self._split_heads(query, (0, 2, 1, 3))  # (B, H, T, K)
        key = self._split_heads(self.key(inputs), (0, 2, 3, 1))  # (B, H, K, T)
        value = self._split_heads(self.value(inputs), (0, 2, 1, 3))  # (B, H, T, K)

        scores = ops.cast(ops.matmul(query, key), "float32")  # (B, H, T, T)
        if self.score_bias is not None:
            scores = self.score_bias(scores)
        scores = scores + attention_bias(attention_mask)
        probabilities = self.probabilities(ops.softmax(scores, axis=-1))
        probabilities = ops.cast(probabilities, self.compute_dtype)
        probabilities = self.probabilities_dropout(probabilities, training=training)

        outputs = ops.matmul(probabilities, value)  # (B, H, T, K)
        outputs = ops.transpose(outputs, (0, 2, 1, 3))  # (B, T, H, K)
        outputs = ops.reshape(outputs, ops.shape(inputs))  # (B, T, D)
        return self.output_projection(outputs)

    def _split_heads(self, x, axes):
        batch, length, _ = ops.shape(x)
        x = ops.reshape(x, (batch, length, self.num_heads, self.head_dim))
        return ops.transpose(x, axes)  # from (B, T, H, K)

    def compute_output_shape(self, inputs_shape, attention_mask_shape):
        return inputs_shape

    def get_config(self):
        return {
            **super().get_config(),
            "hidden_dim": self.hidden_dim,
            "num_heads": self.num_heads,
            "dropout": self.dropout,
            "initializer_range": self.initializer_range,
            "seed": self.seed,
            "score_bias": keras.saving.serialize_keras_object(self.score_bias),
        }

    @classmethod
    def from_config(cls, config):
        score_bias = keras.saving.deserialize_keras_object(config["score_bias"])
        return super().from_config({**config, "score_bias": score_bias})
