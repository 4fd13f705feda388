"""From ids to vectors, and back from vectors to a score for every token."""

import keras
from keras import ops

from transbeam.model.base.initializers import (
    InitializerLike,
    initializer_or_normal,
    seeded,
)
from transbeam.model.base.tensor_checks import (
    check_integers,
    check_range,
    check_rank,
    check_rows,
)
from transbeam.model.kernels.dense import dense
from transbeam.model.kernels.lookup import look_up
from transbeam.model.layers.quantized_embedding import Int8Table


@keras.saving.register_keras_serializable(package="transbeam")
class TokenEmbedding(Int8Table):
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
        vocabulary_multiple: int. The table has a multiple of this many rows. Large
            products are faster for round numbers; the rows past `V` have no score
            and no gradient.
        scale: bool. Multiply what is looked up by `sqrt(D)`, not what is projected:
            a table that starts small enough for scores gives vectors of size one.
        embeddings_initializer: Keras initializer of the table; None for BERT's.
        seed: int or None. Seed of the initial table.

    Call arguments:
        inputs: int `(B, T)` token ids; float `(B, T, D)` when `reverse`.
        reverse: bool. Project onto the vocabulary instead of looking up.

    Returns:
        `(B, T, D)` in the compute dtype; when `reverse`, float32 `(B, T, V)`.

    Raises:
        ValueError: when the ids are not `(B, T)` or not whole numbers; and when one is
            not below `V`, where values are known, that is outside of graphs. Inside,
            nothing is checked, and what such an id reads depends on the processor.

    Example:
    >>> embedding = TokenEmbedding(vocabulary_size=10, hidden_dim=4)
    >>> vectors = embedding(ops.array([[1, 2, 3]]))
    >>> tuple(vectors.shape), tuple(embedding(vectors, reverse=True).shape)
    ((1, 3, 4), (1, 3, 10))

    Masking: passes the Keras mask through unchanged.

    References:
        - [Press & Wolf, 2017](https://arxiv.org/abs/1608.05859), section 3
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.4 (scale)
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        vocabulary_multiple: int = 1,
        scale: bool = False,
        embeddings_initializer: InitializerLike = None,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.vocabulary_multiple = vocabulary_multiple
        self.scale = scale
        self.embeddings_initializer = initializer_or_normal(embeddings_initializer)
        self.seed = seed
        self.supports_masking = True

    @property
    def num_rows(self) -> int:
        """`V`, rounded up to `vocabulary_multiple`."""
        multiple = self.vocabulary_multiple
        return -(-self.vocabulary_size // multiple) * multiple

    def build(self, inputs_shape):
        self.add_table(
            (self.num_rows, self.hidden_dim),
            seeded(self.embeddings_initializer, self.seed),
            autocast=False,
        )

    def call(self, inputs, reverse=False):
        return self.project(inputs) if reverse else self.look_up(inputs)

    def look_up(self, token_ids):
        """From ids `(B, T)` to vectors `(B, T, D)`."""
        name = f"{self.name}: token_ids"
        check_rank(token_ids, 2, name, "(batch, length)")
        check_integers(token_ids, name)
        check_range(token_ids, self.vocabulary_size, name, ", the vocabulary")
        vectors = look_up(self.embeddings, token_ids)  # (B, T, D)
        vectors = self.rescale(vectors, token_ids)
        if self.scale:
            vectors = vectors * self.hidden_dim**0.5
        return ops.cast(vectors, self.compute_dtype)

    def project(self, vectors):
        """From vectors `(B, T, D)` to scores, float32 `(B, T, V)`."""
        table = ops.cast(self.embeddings, self.compute_dtype)
        logits = dense(vectors, ops.transpose(table))  # (B, T, rows)
        logits = self.rescale(logits)
        if self.num_rows > self.vocabulary_size:
            logits = logits[..., : self.vocabulary_size]
        return ops.cast(logits, "float32")

    def compute_output_spec(self, inputs, reverse=False):
        if reverse:
            shape = (*inputs.shape[:-1], self.vocabulary_size)
            return keras.KerasTensor(shape, dtype="float32")
        shape = (*inputs.shape, self.hidden_dim)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "vocabulary_multiple": self.vocabulary_multiple,
            "scale": self.scale,
            "embeddings_initializer": keras.initializers.serialize(
                self.embeddings_initializer
            ),
            "seed": self.seed,
        }


@keras.saving.register_keras_serializable(package="transbeam")
class SegmentEmbedding(keras.layers.Layer):
    """Adds a vector that says which part of the input a token belongs to.

    BERT reads two sentences at once and tells them apart by this alone.

    Shapes: `B` batch, `T` length, `D` hidden width.

    Args:
        num_segments: int. How many kinds of segment there are.
        embeddings_initializer: Keras initializer of the table; None for BERT's.
        seed: int or None. Seed of the initial table.

    Call arguments:
        inputs: float `(B, T, D)`.
        segment_ids: int `(B, T)` in `[0, num_segments)`; None for the first segment
            everywhere: one text read by BERT, or any by RoBERTa, which has one segment.

    Returns:
        `(B, T, D)` in the compute dtype.

    Raises:
        ValueError: when the ids are not whole numbers, or not one for each token; and
            when one is out of range, where values are known, that is outside of graphs.

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
        embeddings_initializer: InitializerLike = None,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_segments = num_segments
        self.embeddings_initializer = initializer_or_normal(embeddings_initializer)
        self.seed = seed
        self.supports_masking = True

    def build(self, inputs_shape, segment_ids_shape=None):
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.num_segments, inputs_shape[-1]),
            initializer=seeded(self.embeddings_initializer, self.seed),
        )

    def call(self, inputs, segment_ids=None):
        if segment_ids is not None:
            check_rows(segment_ids, inputs, f"{self.name}: segment_ids")
            check_range(segment_ids, self.num_segments, f"{self.name}: segment_ids")
            return inputs + look_up(self.embeddings, segment_ids)
        return inputs + self.embeddings[0]

    def compute_output_shape(self, inputs_shape, segment_ids_shape=None):
        return inputs_shape

    def get_config(self):
        return {
            **super().get_config(),
            "num_segments": self.num_segments,
            "embeddings_initializer": keras.initializers.serialize(
                self.embeddings_initializer
            ),
            "seed": self.seed,
        }
