"""Adafactor: adaptive updates with sublinear optimizer state."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="transbeam")
class Adafactor(keras.optimizers.Optimizer):
    """Scales gradients by running mean squares of rows and columns only.

    A matrix of shape (n, m) has n + m numbers of state, where Adam has 2 n m. Unlike
    Keras' own Adafactor, this one does not store the product of row and column means (n
    m further numbers), and does not limit the step size to 1 / sqrt(step).

    Args:
        learning_rate: float or schedule: the paper's relative step size ρ, relative to
            the root mean square of a weight.
        decay_exponent: At step t the new squares have the weight
            `t ** -decay_exponent` in the running mean.
        epsilon_1: Added to squared gradients.
        epsilon_2: Lower bound of a weight's root mean square.
        clip_threshold: Largest root mean square of an update before it is scaled.
        weight_decay: Weight decay: the share of a weight that each step subtracts,
            times the learning rate.
        name: The optimizer's name.

    Example:
    >>> weight = keras.Variable([[2.0, 2.0]])
    >>> optimizer = Adafactor(0.25)
    >>> optimizer.apply([ops.convert_to_tensor([[3.0, -3.0]])], [weight])
    >>> weight.numpy().tolist()
    [[1.5, 2.5]]

    References:
        - [Shazeer & Stern, 2018](https://arxiv.org/abs/1804.04235), algorithms 4 and 5
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
        decay_exponent: float = 0.8,
        epsilon_1: float = 1e-30,
        epsilon_2: float = 1e-3,
        clip_threshold: float = 1.0,
        weight_decay: float | None = None,
        name: str = "adafactor",
    ):
        super().__init__(learning_rate, weight_decay=weight_decay, name=name)
        self.decay_exponent = decay_exponent
        self.epsilon_1 = epsilon_1
        self.epsilon_2 = epsilon_2
        self.clip_threshold = clip_threshold

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._means = [
            [self._mean_of(variable, axis) for axis in _mean_axes(variable)]
            for variable in variables
        ]

    def _mean_of(self, variable, axis):
        shape = list(variable.shape)
        name = variable.path.replace("/", "_")
        if axis is None:
            return self.add_variable(shape, name=f"{name}_squares")
        shape.pop(axis)
        return self.add_variable(shape, name=f"{name}_squares_{-axis}")

    def update_step(self, gradient, variable, learning_rate):
        step = ops.cast(self.iterations + 1, "float32")
        news = step**-self.decay_exponent
        # The gradient of an embedding may be sparse.
        gradient = ops.convert_to_tensor(gradient, sparse=False)
        squares = ops.square(gradient) + self.epsilon_1
        means = []
        for mean, axis in zip(
            self._means[self._get_variable_index(variable)],
            _mean_axes(variable),
            strict=True,
        ):
            new = squares if axis is None else ops.mean(squares, axis=axis)
            means.append(mean + news * (new - mean))
            self.assign(mean, means[-1])
        update = gradient / ops.sqrt(_product(means))
        update /= ops.maximum(1.0, _rms(update) / self.clip_threshold)
        size = ops.maximum(_rms(variable), self.epsilon_2)
        self.assign_sub(variable, learning_rate * size * update)

    def get_config(self):
        config = super().get_config()
        return {
            "learning_rate": config["learning_rate"],
            "weight_decay": config["weight_decay"],
            "name": config["name"],
            "decay_exponent": self.decay_exponent,
            "epsilon_1": self.epsilon_1,
            "epsilon_2": self.epsilon_2,
            "clip_threshold": self.clip_threshold,
        }


def _mean_axes(variable) -> tuple[int | None, ...]:
    """Axes over which squares are averaged; None stores every square."""
    return (-1, -2) if len(variable.shape) >= 2 else (None,)


def _product(means):
    """Reconstructs elementwise mean squares from those of rows and columns."""
    if len(means) == 1:
        return means[0]
    rows, columns = means
    share = rows / ops.mean(rows, axis=-1, keepdims=True)
    return share[..., None] * columns[..., None, :]


def _rms(x):
    return ops.sqrt(ops.mean(ops.square(x)))
