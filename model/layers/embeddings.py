"""Token embeddings, also as tied output matrix, and segment embeddings."""

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
from transbeam.model.layers.base_layer import TokenwiseLayer, add_embeddings
from transbeam.model.layers.quantized_embedding import Int8Table


@keras.saving.register_keras_serializable(package="transbeam")
class TokenEmbedding(Int8Table):
    """Token embedding, which is also the tied output matrix.

    With `reverse`, the layer computes the dot product of a vector with the embedding of
    every token. Sharing the table saves `V x D` weights, and a token's embedding is
    also trained wherever the token is a prediction target, not only where it is an
    input.

    The lookup reads the float32 table and casts the result; the projection casts the
    table, so that its large product runs in the compute dtype.

    Shapes: `B` batch, `T` length, `V` vocabulary, `D` hidden width.

    Args:
        vocabulary_size: int. `V`.
        hidden_dim: int. `D`.
        vocabulary_multiple: int. The number of rows of the table is rounded up to a
            multiple of this number. Large products are faster for round sizes; the rows
            past `V` have no logits and no gradient.
        scale: bool. Multiplies looked-up embeddings by `sqrt(D)`, but not the
            projection: a table with an initialization small enough for logits then
            yields embeddings of unit scale.
        embeddings_initializer: Keras initializer of the table; None for BERT's.
        seed: int or None. Seed of the initial table.

    Call arguments:
        inputs: int `(B, T)` token ids; float `(B, T, D)` when `reverse`.
        reverse: bool. If true, projects onto the vocabulary instead of looking up.

    Returns:
        `(B, T, D)` in the compute dtype; when `reverse`, float32 `(B, T, V)`.

    Raises:
        ValueError: The ids are not `(B, T)` or not integers; or, in eager execution, an
            id is not below `V`. In graphs ids are not checked, and the result for an id
            of `V` or more depends on the hardware.

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
        """Looks up ids `(B, T)`: `(B, T, D)`."""
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
        """Projects vectors `(B, T, D)` to logits, float32 `(B, T, V)`."""
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


@keras.saving.register_keras_serializable(package="transbeam")
class SegmentEmbedding(TokenwiseLayer):
    """Adds a learned vector for the segment of the input that a token belongs to.

    BERT distinguishes the two sentences of a pair only by their segment vectors.

    Shapes: `B` batch, `T` length, `D` hidden width.

    Args:
        num_segments: int. Number of segments.
        embeddings_initializer: Keras initializer of the table; None for BERT's.
        seed: int or None. Seed of the initial table.

    Call arguments:
        inputs: float `(B, T, D)`.
        segment_ids: int `(B, T)` in `[0, num_segments)`; None for the first segment
            everywhere: for a single text in BERT, or any input of RoBERTa, which has
            one segment.

    Returns:
        `(B, T, D)` in the compute dtype.

    Raises:
        ValueError: The ids are not integers, or not one per token; or, in eager
            execution, an id is out of range.

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

    def build(self, inputs_shape):
        self.embeddings = add_embeddings(self, self.num_segments, inputs_shape[-1])

    def call(self, inputs, segment_ids=None):
        if segment_ids is not None:
            check_rows(segment_ids, inputs, f"{self.name}: segment_ids")
            check_range(segment_ids, self.num_segments, f"{self.name}: segment_ids")
            return inputs + look_up(self.embeddings, segment_ids)
        return inputs + self.embeddings[0]
