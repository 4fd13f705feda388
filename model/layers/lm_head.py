"""Layers of language-model heads: gathering of tokens, logits and their bias."""

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
    fits,
)
from transbeam.model.layers.base_layer import TokenwiseLayer
from transbeam.model.layers.quantized_embedding import Int8Table


@keras.saving.register_keras_serializable(package="transbeam")
class GatherTokens(keras.layers.Layer):
    """Gathers some tokens of each row.

    In masked language modeling only one token in seven is masked, and the projection
    onto the vocabulary is the most expensive step of a small model: gathering the
    masked tokens first saves six sevenths of this step.

    Shapes: `B` batch, `T` length, `P` picked tokens, `D` hidden width.

    Call arguments:
        inputs: float `(B, T, D)`.
        positions: int `(B, P)` in `[0, T)`.

    Returns:
        `(B, P, D)` in the compute dtype.

    Example:
    >>> rows = ops.array([[[10.0], [20.0], [30.0]]])
    >>> ops.convert_to_numpy(GatherTokens()(rows, ops.array([[2, 0]]))).ravel()
    array([30., 10.], dtype=float32)

    Raises:
        ValueError: `inputs` is not of rank 3, `positions` is not of rank 2, not of an
            integer dtype or has another number of rows; or, in eager execution, a
            position is not in `[0, T)`. In graphs an out-of-range position is clipped
            to the row.

    Masking: none. A Keras mask on the inputs would have the wrong length here, and
    Keras warns of such a mask.
    """

    def call(self, inputs, positions):
        check_rank(inputs, 3, f"{self.name}: inputs", "(batch, length, hidden_dim)")
        check_rank(positions, 2, f"{self.name}: positions", "(batch, picked)")
        check_integers(positions, f"{self.name}: positions")
        if not fits(tuple(positions.shape[:1]), tuple(inputs.shape[:1])):
            raise ValueError(
                f"{self.name}: positions has shape {tuple(positions.shape)}; expected "
                f"{inputs.shape[0]} rows, as inputs has"
            )
        if inputs.shape[1] is not None:
            check_range(positions, inputs.shape[1], f"{self.name}: positions")
        batch, length, hidden_dim = ops.shape(inputs)
        num_picked = ops.shape(positions)[1]
        # A gather from all rows as one sequence is several times faster than
        # `ops.take_along_axis`, which compares shapes at run time.
        starts = ops.expand_dims(ops.arange(batch, dtype=positions.dtype) * length, 1)
        # A position outside of its row must not read from another row.
        positions = ops.clip(positions, 0, length - 1)
        indices = ops.reshape(starts + positions, (-1,))  # (B P,)
        tokens = ops.reshape(inputs, (-1, hidden_dim))  # (B T, D)
        picked = ops.take(tokens, indices, axis=0)  # (B P, D)
        return ops.reshape(picked, (batch, num_picked, hidden_dim))  # (B, P, D)

    def compute_output_shape(self, inputs_shape, positions_shape):
        return (*positions_shape, inputs_shape[-1])


@keras.saving.register_keras_serializable(package="transbeam")
class VocabularyProjection(Int8Table):
    """Vocabulary logits by an untied output matrix.

    Models without tied embeddings use this matrix in place of the transposed token
    embedding. The matrix product is computed in the compute dtype.

    Shapes: `B` batch, `T` tokens, `D` hidden width, `V` vocabulary.

    Args:
        vocabulary_size: int. `V`.
        kernel_initializer: Keras initializer of the table; None for BERT's.
        seed: int or None. Seed of the initial table.

    Call arguments:
        inputs: float `(B, T, D)`.

    Returns:
        float32 `(B, T, V)`, for every compute dtype.

    Example:
    >>> logits = VocabularyProjection(vocabulary_size=10)(ops.ones((1, 2, 4)))
    >>> tuple(logits.shape)
    (1, 2, 10)

    Masking: passes the Keras mask through unchanged.

    References:
        - [Press & Wolf, 2017](https://arxiv.org/abs/1608.05859), equation 2
    """

    table_name, vector_axis = "kernel", 0

    def __init__(
        self,
        vocabulary_size: int,
        kernel_initializer: InitializerLike = None,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.kernel_initializer = initializer_or_normal(kernel_initializer)
        self.seed = seed
        self.supports_masking = True

    def build(self, inputs_shape):
        self.add_table(
            (inputs_shape[-1], self.vocabulary_size),
            seeded(self.kernel_initializer, self.seed),
        )

    def call(self, inputs):
        logits = ops.matmul(inputs, ops.cast(self.kernel, self.compute_dtype))
        return ops.cast(self.rescale(logits), "float32")

    def compute_output_spec(self, inputs):
        shape = (*inputs.shape[:-1], self.vocabulary_size)
        return keras.KerasTensor(shape, dtype="float32")


@keras.saving.register_keras_serializable(package="transbeam")
class VocabularyBias(TokenwiseLayer):
    """Adds a learned bias to the logit of every token.

    The bias can represent the tokens' frequencies, so that hidden states need not
    encode them.

    Shapes: `B` batch, `P` tokens, `V` vocabulary.

    Call arguments:
        inputs: float `(B, P, V)`.

    Returns:
        `(B, P, V)` in the compute dtype.

    Example:
    >>> tuple(VocabularyBias()(ops.ones((1, 2, 10))).shape)
    (1, 2, 10)

    Masking: passes the Keras mask through unchanged.

    References:
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805); the bias is in
          the published code (`run_pretraining.py`), not in the paper
    """

    def build(self, inputs_shape):
        self.bias = self.add_weight(
            name="bias", shape=(inputs_shape[-1],), initializer="zeros", autocast=False
        )

    def call(self, inputs):
        return ops.cast(ops.add(inputs, self.bias), self.compute_dtype)
