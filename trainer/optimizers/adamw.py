"""AdamW with one fused kernel per weight."""

import keras
from keras import ops

from transbeam.model.kernels.elementwise import adam_update


class AdamW(keras.optimizers.AdamW):
    """Keras's AdamW with weight decay and update in one pass, equal up to rounding.

    The arguments are those of `keras.optimizers.AdamW`.

    References:
        - [Loshchilov & Hutter, 2019](https://arxiv.org/abs/1711.05101), algorithm 2
    """

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        moments = self._momentums[index], self._velocities[index]
        rate, step = ops.cast(learning_rate, "float32"), self.iterations + 1
        step = ops.cast(step, "float32")
        # Bias correction, as both means start at zero.
        mean_bias = 1.0 - ops.power(self.beta_1, step)
        square_bias = 1.0 - ops.power(self.beta_2, step)
        decay = self.weight_decay if self._use_weight_decay(variable) else 0.0
        new = adam_update(
            (_read(variable), *map(_read, moments)),
            ops.cast(gradient, variable.dtype),
            (
                rate * ops.sqrt(square_bias) / mean_bias,
                rate * decay,
                ops.convert_to_tensor(self.epsilon, "float32"),
            ),
            (self.beta_1, self.beta_2),
        )
        for old, value in zip((variable, *moments), new, strict=True):
            self.assign(old, value)

    def _apply_weight_decay(self, variables):
        """Does nothing, as `update_step` includes the decay."""


def _read(variable):
    """The value of a Keras variable or, under `tf.distribute`, TensorFlow variable."""
    inner = variable.value if isinstance(variable, keras.Variable) else variable
    return ops.convert_to_tensor(inner)
