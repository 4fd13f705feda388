"""From ids to vectors, and back from vectors to a score for every token."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="transbeam")
class TokenEmbedding(keras.layers.Layer):
    """A vector for each token, and the same table read the other way.

    Reversed, the table gives a vector's dot product with the vector of every
    token. One table for both saves `V x D` weights, and trains a token's vector
    wherever the token is to be predicted, not only where it is read.

    The lookup reads the float32 table and casts what it found; the projection
    casts the table, so that its large product runs in the compute dtype.

    Shapes: `B` batch, `T` length, `V` vocabulary, `D` hidden width.

    Args:
        vocabulary_size: int. `V`.
        hidden_dim: int. `D`.
        initializer_range: float. Standard deviation of the truncated normal.
        seed: int or None. Seed of the initial table.

    Call arguments:
        inputs: int `(B, T)` token ids; float `(B, T, D)` when `reverse`.
        reverse: bool. Project onto the vocabulary instead of looking up.

    Returns:
        `(B, T, D)`, or `(B, T, V)` when `reverse`, in the compute dtype.

    Example:
    >>> embedding = TokenEmbedding(vocabulary_size=10, hidden_dim=4)
    >>> vectors = embedding(ops.array([[1, 2, 3]]))
    >>> tuple(vectors.shape), tuple(embedding(vectors, reverse=True).shape)
    ((1, 3, 4), (1, 3, 10))

    Masking: passes the Keras mask through unchanged.

    References:
        - [Press & Wolf, 2017](https://arxiv.org/abs/1608.05859), section 3
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        initializer_range: float = 0.02,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.initializer_range = initializer_range
        self.seed = seed
        self.supports_masking = True

    def build(self, inputs_shape):
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.vocabulary_size, self.hidden_dim),
            initializer=keras.initializers.TruncatedNormal(
                stddev=self.initializer_range, seed=self.seed
            ),
            autocast=False,
        )

    def call(self, inputs, reverse=False):
        if reverse:
            table = ops.cast(self.embeddings, self.compute_dtype)
            return ops.matmul(inputs, ops.transpose(table))  # (B, T, V)
        vectors = ops.take(self.embeddings, inputs, axis=0)  # (B, T, D)
        return ops.cast(vectors, self.compute_dtype)

    def compute_output_spec(self, inputs, reverse=False):
        if reverse:
            shape = (*inputs.shape[:-1], self.vocabulary_size)
        else:
            shape = (*inputs.shape, self.hidden_dim)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "initializer_range": self.initializer_range,
            "seed": self.seed,
        }


@keras.saving.register_keras_serializable(package="transbeam")
class SegmentEmbedding(keras.layers.Layer):
    """Adds a vector that says which part of the input a token belongs to.

    BERT reads two sentences at once and tells them apart by this alone.

    Shapes: `B` batch, `T` length, `D` hidden width.

    Args:
        num_segments: int. How many kinds of segment there are.
        initializer_range: float. Standard deviation of the truncated normal.
        seed: int or None. Seed of the initial table.

    Call arguments:
        inputs: float `(B, T, D)`.
        segment_ids: int `(B, T)` in `[0, num_segments)`.

    Returns:
        `(B, T, D)` in the compute dtype.

    Example:
    >>> segments = SegmentEmbedding(num_segments=2)
    >>> tuple(segments(ops.ones((1, 3, 4)), ops.array([[0, 0, 1]])).shape)
    (1, 3, 4)

    Masking: passes the Keras mask through unchanged.

    References:
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805), figure 2
    """

    def __init__(
        self,
        num_segments: int,
        initializer_range: float = 0.02,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_segments = num_segments
        self.initializer_range = initializer_range
        self.seed = seed
        self.supports_masking = True

    def build(self, inputs_shape, segment_ids_shape):
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.num_segments, inputs_shape[-1]),
            initializer=keras.initializers.TruncatedNormal(
                stddev=self.initializer_range, seed=self.seed
            ),
        )

    def call(self, inputs, segment_ids):
        return inputs + ops.take(self.embeddings, segment_ids, axis=0)

    def compute_output_shape(self, inputs_shape, segment_ids_shape):
        return inputs_shape

    def get_config(self):
        return {
            **super().get_config(),
            "num_segments": self.num_segments,
            "initializer_range": self.initializer_range,
            "seed": self.seed,
        }
