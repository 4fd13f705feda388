"""The first and the last step of a masked language model's head."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="transbeam")
class GatherTokens(keras.layers.Layer):
    """Picks some tokens out of each row.

    Only one token in seven is to be predicted, and the projection onto the
    vocabulary is the dearest step of a small model: taking those tokens out first
    saves six sevenths of it.

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

    Masking: none. A Keras mask on the inputs would have the wrong length here, and
    Keras warns of it.
    """

    def call(self, inputs, positions):
        batch, length, hidden_dim = ops.shape(inputs)
        num_picked = ops.shape(positions)[1]
        # One gather from all rows laid end to end is several times faster than
        # `ops.take_along_axis`, which compares shapes at run time.
        starts = ops.expand_dims(ops.arange(batch, dtype=positions.dtype) * length, 1)
        indices = ops.reshape(starts + positions, (-1,))  # (B P,)
        tokens = ops.reshape(inputs, (-1, hidden_dim))  # (B T, D)
        picked = ops.take(tokens, indices, axis=0)  # (B P, D)
        return ops.reshape(picked, (batch, num_picked, hidden_dim))  # (B, P, D)

    def compute_output_shape(self, inputs_shape, positions_shape):
        return (*positions_shape, inputs_shape[-1])


@keras.saving.register_keras_serializable(package="transbeam")
class VocabularyBias(keras.layers.Layer):
    """Adds a learned constant to the score of every token.

    It learns how frequent each token is, which leaves the vectors free to say what
    the context says.

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

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, inputs_shape):
        self.bias = self.add_weight(
            name="bias", shape=(inputs_shape[-1],), initializer="zeros"
        )

    def call(self, inputs):
        return ops.add(inputs, self.bias)

    def compute_output_shape(self, inputs_shape):
        return inputs_shape
