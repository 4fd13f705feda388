"""The base class of attention layers: projections and heads."""

import keras
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.base.activation_hooks import activation
from transbeam.model.base.initializers import (
    InitializerLike,
    derive_seed,
    initializer_or_normal,
    seeded,
)
from transbeam.model.base.tensor_checks import check_rank
from transbeam.model.kernels.dense import dense
from transbeam.model.kernels.shapes import reshape
from transbeam.model.layers.attention.fused_qkv import joined_projection
from transbeam.model.layers.attention.probabilities import Probabilities
from transbeam.model.layers.base_layer import SameShapeLayer
from transbeam.model.layers.dense import Dense, inner_dense_options
from transbeam.model.layers.dropout import Dropout
from transbeam.model.layers.sequence_info import check_sequence_info


class Attention(SameShapeLayer):
    """Multi-head attention: base class with projections and heads.

    Each token's output is, per head, a mean of values, weighted by how well the token's
    query matches the values' keys. Groups of query heads may share a key-value head,
    which makes the cache of a decoder smaller.

    A subclass defines in `attend` which keys each query attends to.

    Shapes: `B` batch, `T` length, `D` hidden width, `H` query heads, `G` heads of keys
    and values, `K` head width.

    Args:
        hidden_dim: int. `D`.
        num_heads: int. `H`.
        num_key_value_heads: int or None. `G`, a divisor of `H`; None for `H`.
        head_dim: int or None. `K`; None for `D / H`.
        projection_bias: bool. If true, queries, keys and values have a bias.
        output_bias: bool. If true, the output has a bias.
        dropout: float in `[0, 1)`. Share of the probabilities dropped in training.
        causal: bool. If true, a token does not attend to later ones.
        scale_scores: bool. If true, scores are divided by `sqrt(K)`.
        kernel_initializer: Keras initializer of the projections; None for BERT's.
        output_initializer: Keras initializer of the output projection; None for
            `kernel_initializer`.
        rotary: layer or None. Called with `(B, T, H, K)` and the positions; rotates
            queries and keys.
        score_bias: layer or None. Called with the positions of queries and keys;
            returns a bias of their scores.
        seed: int or None. Seed of the initial weights and of the dropout.

    Call arguments:
        inputs: float `(B, T, D)`.
        sequence_info: dict of int `(B, T)` tensors: masks and positions of the tokens;
            see `transbeam.model.layers.sequence_info`.

    Returns:
        `(B, T, D)` in the compute dtype. Masks and softmax are computed in float32.
        Outputs for padding are finite and have no meaning.

    Raises:
        ConfigError: `hidden_dim` is not a multiple of `num_heads` and `head_dim` is
            None, `num_heads` is not a multiple of `num_key_value_heads`, or this kind
            of attention cannot be causal.
        ValueError: `inputs` is not of rank 3, or `sequence_info` does not match its
            batch size and length.

    Masking: all masks are read from `sequence_info`. A Keras mask on the inputs is
    ignored, and Keras warns about it.

    References:
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.2
        - [Ainslie et al., 2023](https://arxiv.org/abs/2305.13245), section 2.2 (groups)
    """

    # The reason why a kind of attention does not support causal masking.
    not_causal = ""

    def __init__(
        self,
        hidden_dim: int,
        num_heads: int,
        *,
        num_key_value_heads: int | None = None,
        head_dim: int | None = None,
        projection_bias: bool = True,
        output_bias: bool = True,
        dropout: float = 0.0,
        causal: bool = False,
        scale_scores: bool = True,
        kernel_initializer: InitializerLike = None,
        output_initializer: InitializerLike = None,
        rotary: keras.layers.Layer | None = None,
        score_bias: keras.layers.Layer | None = None,
        seed: int | None = None,
        **kwargs,
    ):
        # The only float tensor of `sequence_info`, the bias table, must stay float32;
        # all other inputs go to layers that cast by themselves.
        super().__init__(autocast=False, **kwargs)
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.num_key_value_heads = num_key_value_heads or num_heads
        self.head_dim = head_dim or hidden_dim // num_heads
        self.projection_bias = projection_bias
        self.output_bias = output_bias
        self.dropout = dropout
        self.causal = causal
        self.scale_scores = scale_scores
        self.kernel_initializer = initializer_or_normal(kernel_initializer)
        self.output_initializer = keras.initializers.get(
            output_initializer or self.kernel_initializer
        )
        self.rotary = rotary
        self.score_bias = score_bias
        self.seed = seed
        self._check_arguments(explicit=head_dim is not None)

        keys_dim = self.num_key_value_heads * self.head_dim
        self.query = self.projection("query", self.num_heads * self.head_dim)
        self.key = self.projection("key", keys_dim)
        self.value = self.projection("value", keys_dim)
        # The attribute `output` is reserved by Keras; the weights' paths use the name.
        self.output_projection = Dense(
            hidden_dim,
            use_bias=output_bias,
            kernel_initializer=seeded(self.output_initializer, seed, "output"),
            **inner_dense_options(self, "output"),
        )
        self.probabilities = Probabilities(name="probabilities", dtype="float32")
        self.probabilities_dropout = Dropout(
            dropout,
            seed=derive_seed(seed, "dropout"),
            name="dropout",
            dtype=self.dtype_policy,
        )

    def projection(self, name: str, units: int) -> Dense:
        """Makes a dense layer for queries, keys or values."""
        return Dense(
            units,
            use_bias=self.projection_bias,
            kernel_initializer=seeded(self.kernel_initializer, self.seed, name),
            **inner_dense_options(self, name),
        )

    def _check_arguments(self, *, explicit: bool) -> None:
        if self.causal and self.not_causal:
            raise ConfigError(
                f"{self.name}: {self.not_causal}; causal=True needs full, sliding "
                "window or kernel attention"
            )
        if not explicit and self.hidden_dim % self.num_heads:
            raise ConfigError(
                f"{self.name}: hidden_dim={self.hidden_dim} is not a multiple of "
                f"num_heads={self.num_heads}; give head_dim, or make them fit"
            )
        if self.num_heads % self.num_key_value_heads:
            raise ConfigError(
                f"{self.name}: num_heads={self.num_heads} is not a multiple of "
                f"num_key_value_heads={self.num_key_value_heads}"
            )

    def build(self, inputs_shape):
        for layer in (self.query, self.key, self.value):
            layer.build((*inputs_shape[:-1], self.hidden_dim))
        self.output_projection.build((None, None, self.num_heads * self.head_dim))
        scores_shape = (None, self.num_heads, None, None)
        self.probabilities.build(scores_shape)
        self.probabilities_dropout.build(scores_shape)
        if self.rotary is not None:
            self.rotary.build((None, None, self.num_heads, self.head_dim))

    def call(self, inputs, sequence_info, training=None):
        check_rank(inputs, 3, f"{self.name}: inputs", "(batch, length, hidden_dim)")
        check_sequence_info(sequence_info, inputs, self.name)
        query, key, value = self.project(inputs, sequence_info.get("position_ids"))
        outputs = self.attend(query, key, value, sequence_info, training=training)
        return self.join(outputs)

    def project(self, inputs, position_ids=None):
        """Computes queries, keys and values of one sequence.

        Args:
            inputs: float `(B, T, D)`.
            position_ids: int `(B, T)`, or None for 0, 1, 2, ... in each row.

        Returns:
            Queries `(B, T, H, K)` after `scale`, and keys and values, both `(B, T, G,
            K)`.
        """
        query, key, value = map(self.split, self._dense(inputs))
        query, key = (self.rotate(x, position_ids) for x in (query, key))
        query, key = self.name_activations(query, key)
        return self.scale(query), key, value

    def name_activations(self, query, key):
        """Names the queries and keys, before scaling; see `activation_hooks`."""
        return activation(self, "queries", query), activation(self, "keys", key)

    def rotate(self, x, position_ids=None):
        """Rotates queries or keys `(B, T, heads, K)` by their positions, with RoPE."""
        if self.rotary is None:
            return x
        if position_ids is None:
            position_ids = ops.arange(ops.shape(x)[1], dtype="int32")
        return self.rotary(x, position_ids)

    def _dense(self, inputs):
        """Projects to queries `(B, T, H K)`, and keys and values `(B, T, G K)`."""
        joined = joined_projection(self)
        if joined is None:
            return self.query(inputs), self.key(inputs), self.value(inputs)
        outputs = dense(ops.cast(inputs, self.compute_dtype), *joined)
        ends = (self.query.units, self.query.units + self.key.units)
        return ops.split(outputs, ends, axis=-1)

    @property
    def score_scale(self) -> float:
        """Returns the factor of the scores: `1 / sqrt(K)`, or 1."""
        return self.head_dim**-0.5 if self.scale_scores else 1.0

    def scale(self, query):
        """Scales queries rather than the more numerous scores."""
        return query * self.score_scale

    def split(self, x):
        """Splits heads: `(B, T, heads K)` to `(B, T, heads, K)`."""
        batch, length, width = ops.shape(x)
        return reshape(x, (batch, length, width // self.head_dim, self.head_dim))

    def join(self, outputs):
        """Joins and projects the heads' outputs: `(B, T, H, K)` to `(B, T, D)`."""
        outputs = activation(self, "heads", outputs)
        batch, length, heads, width = ops.shape(outputs)
        return self.output_projection(reshape(outputs, (batch, length, heads * width)))

    def record_and_drop(self, probabilities, keys, training=None):
        """Passes probabilities through the layer `probabilities`, then dropout.

        Args:
            probabilities: float32.
            keys: Makes the `AttendedKeys` that they belong to.
            training: If true, dropout is active.

        Returns:
            Like `probabilities`, in the compute dtype.
        """
        probabilities = self.probabilities(probabilities, keys=keys)
        probabilities = ops.cast(probabilities, self.compute_dtype)
        return self.probabilities_dropout(probabilities, training=training)

    def attend(self, query, key, value, sequence_info, training=None):
        """Computes attention from projected queries, keys and values.

        Args:
            query: float `(B, T, H, K)`, already scaled.
            key: float `(B, T, G, K)`.
            value: float `(B, T, G, K)`.
            sequence_info: See the class.
            training: If true, dropout is active.

        Returns:
            float `(B, T, H, K)`.
        """
        raise NotImplementedError
