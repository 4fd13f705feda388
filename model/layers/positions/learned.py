"""Learned absolute position embeddings."""

import keras
from keras import ops

from transbeam.model.base.initializers import (
    InitializerLike,
    initializer_or_normal,
)
from transbeam.model.layers.base_layer import TokenwiseLayer, add_embeddings
from transbeam.model.layers.positions.position_addition import add_position_rows


@keras.saving.register_keras_serializable(package="transbeam")
class LearnedPositionEmbedding(TokenwiseLayer):
    """Adds a learned vector for each position.

    There is no vector for positions beyond the training length.

    Shapes: `B` batch, `T` length, `D` hidden width.

    Args:
        max_sequence_length: int. Number of positions.
        offset: int. Number of rows of the table before the row of the first position.
            Rows before the row of the first position are never used; RoBERTa's table
            has 2 such rows.
        embeddings_initializer: Keras initializer of the table; None for BERT's.
        seed: int or None. Seed of the initial table.

    Call arguments:
        inputs: float `(B, T, D)`.
        position_ids: int `(B, T)`, restarting at 0 in every packed document; or
            None for 0, 1, 2, ... in every row.

    Returns:
        `(B, T, D)` in the compute dtype.

    Raises:
        ValueError: `inputs` or `position_ids` has a wrong rank, length or dtype; or a
            position has no vector. Positions are checked in eager execution; without
            `position_ids`, whenever `T` is known.

    Example:
    >>> positions = LearnedPositionEmbedding(max_sequence_length=8)
    >>> tuple(positions(ops.ones((1, 3, 4))).shape)
    (1, 3, 4)

    Masking: passes the Keras mask through unchanged.

    References:
        - [Gehring et al., 2017](https://arxiv.org/abs/1705.03122), section 3.1
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805), figure 2
    """

    def __init__(
        self,
        max_sequence_length: int,
        offset: int = 0,
        embeddings_initializer: InitializerLike = None,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.max_sequence_length = max_sequence_length
        self.offset = offset
        self.embeddings_initializer = initializer_or_normal(embeddings_initializer)
        self.seed = seed

    def build(self, inputs_shape):
        self.embeddings = add_embeddings(
            self, self.offset + self.max_sequence_length, inputs_shape[-1], "embeddings"
        )

    def call(self, inputs, position_ids=None):
        table = ops.convert_to_tensor(self.embeddings)
        return add_position_rows(inputs, table, position_ids, self.name, self.offset)
