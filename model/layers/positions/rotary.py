"""Rotary position embedding (RoPE) and its scaling for longer texts."""

import math

import keras
import numpy as np
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.base.tensor_checks import check_integers, check_rank
from transbeam.model.kernels.shapes import reshape
from transbeam.model.layers.base_layer import TokenwiseLayer

STRETCHES = ("none", "linear", "ntk", "yarn")


@keras.saving.register_keras_serializable(package="transbeam")
class RotaryEmbedding(TokenwiseLayer):
    """Rotates queries and keys by an angle proportional to their position (RoPE).

    The positions affect the dot product of two rotated vectors only by their
    difference, so attention is relative without a table of weights. The i-th number of
    a head's first half and the i-th of its second half form a pair, which is rotated by
    `position / base ** (2 i / K)`: the layout of LLaMA's published weights.

    A model can process texts longer than in training if the frequencies are scaled,
    either all equally or each by its number of rotations in the training length.

    Shapes: `B` batch, `T` length, `H` heads, `K` head width, even.

    Args:
        base: float above 1. Without scaling, the longest wavelength is about `2 pi
            base` positions.
        stretch: `"none"`, `"linear"` (all frequencies divided by the factor),
            `"ntk"` (the highest kept, the lowest divided, by a larger base) or `"yarn"`
            (high frequencies kept, low ones divided, and the softmax sharpened).
        factor: float, at least 1. Target length divided by training length.
        original_length: int. The training length in tokens; for `"yarn"` only.
        beta_fast: float. Frequencies with more rotations than this number in the
            training length are kept; for `"yarn"` only.
        beta_slow: float. Frequencies with fewer rotations than this number in the
            training length are divided by the factor; frequencies between `beta_slow`
            and `beta_fast` are interpolated.

    Call arguments:
        inputs: float `(B, T, H, K)`.
        position_ids: int `(B, T)`, restarting at 0 in every packed document, or `(T,)`
            for all rows.

    Returns:
        `(B, T, H, K)` in the compute dtype. Computed in float32.

    Raises:
        ConfigError: An argument is out of range, `stretch` is unknown, or `"yarn"` has
            no `original_length`.
        ValueError: `inputs` or `position_ids` has a wrong rank, width or dtype.

    Example:
    >>> rotary = RotaryEmbedding()
    >>> east = ops.array([[[[1.0, 0.0]], [[1.0, 0.0]]]])  # two tokens, one head
    >>> ops.convert_to_numpy(rotary(east, ops.arange(2)))[0, :, 0].round(4)
    array([[1.    , 0.    ],
           [0.5403, 0.8415]], dtype=float32)

    Masking: passes the Keras mask through unchanged.

    References:
        - [Su et al., 2021](https://arxiv.org/abs/2104.09864), equations 14 and 15
        - [Chen et al., 2023](https://arxiv.org/abs/2306.15595), section 2.3 (linear)
        - [Peng et al., 2023](https://arxiv.org/abs/2309.00071), sections 3.1 (NTK),
          3.2 and 3.4 (YaRN). YaRN's interpolation is linear in the index of the pair,
          as in the authors' code, not in the number of rotations.
    """

    def __init__(
        self,
        base: float = 10_000.0,
        stretch: str = "none",
        factor: float = 1.0,
        original_length: int | None = None,
        beta_fast: float = 32.0,
        beta_slow: float = 1.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.base = base
        self.stretch = stretch
        self.factor = factor
        self.original_length = original_length
        self.beta_fast = beta_fast
        self.beta_slow = beta_slow
        self._check_arguments()
        # YaRN's temperature of the scores, applied equally to queries and keys.
        self.magnitude = 0.1 * math.log(factor) + 1.0 if stretch == "yarn" else 1.0

    def _check_arguments(self) -> None:
        if self.stretch not in STRETCHES:
            raise ConfigError(
                f"{self.name}: stretch={self.stretch!r}; known here: {STRETCHES}"
            )
        if self.base <= 1.0 or self.factor < 1.0:
            raise ConfigError(
                f"{self.name}: base={self.base} must be more than 1, and "
                f"factor={self.factor} at least 1"
            )
        if self.stretch == "yarn" and not self.original_length:
            raise ConfigError(
                f"{self.name}: stretch='yarn' needs original_length, the tokens that "
                "the model was trained on"
            )
        if not 0.0 < self.beta_slow < self.beta_fast:
            raise ConfigError(
                f"{self.name}: beta_slow={self.beta_slow} must be more than 0 and less "
                f"than beta_fast={self.beta_fast}"
            )

    def build(self, inputs_shape):
        width = inputs_shape[-1]
        if width is None or width % 2:
            raise ValueError(
                f"{self.name}: inputs has shape {tuple(inputs_shape)}; expected "
                "(batch, length, heads, an even width)"
            )
        # The signs are those of the sine: a pair (x, y) of the two halves becomes
        # (x cos - y sin, y cos + x sin).
        frequencies = self._frequencies(width)
        self.frequencies = np.stack([-frequencies, frequencies]).astype("float32")

    def _frequencies(self, width: int) -> np.ndarray:
        pair = np.arange(width // 2)
        plain = self.base ** (-2.0 * pair / width)
        if self.stretch == "linear":
            return plain / self.factor
        if self.stretch == "ntk":
            # Equals base times factor ** (K / (K - 2)); also defined for K = 2.
            return plain * self.factor ** (-2.0 * pair / max(width - 2, 1))
        if self.stretch == "yarn":
            divided = self._divided_share(pair, width)
            return plain * (1.0 - divided) + plain / self.factor * divided
        return plain

    def _divided_share(self, pair: np.ndarray, width: int) -> np.ndarray:
        """YaRN's ramp: 0 for pairs of high frequency, 1 for those of low frequency."""

        def pair_that_makes(turns):
            wavelength = self.original_length / turns
            return width * math.log(wavelength / math.tau) / (2 * math.log(self.base))

        first = max(math.floor(pair_that_makes(self.beta_fast)), 0)
        last = min(math.ceil(pair_that_makes(self.beta_slow)), width - 1)
        return np.clip((pair - first) / max(last - first, 1e-3), 0.0, 1.0)

    def call(self, inputs, position_ids):
        check_rank(inputs, 4, f"{self.name}: inputs", "(batch, length, heads, width)")
        self._check_position_ids(position_ids, inputs)
        positions = ops.cast(position_ids, "float32")
        positions = ops.expand_dims(
            ops.expand_dims(ops.expand_dims(positions, -1), -1), -1
        )
        angles = positions * self.frequencies  # (B, T, 1, 2, K / 2)
        cos = ops.cos(angles) * self.magnitude
        sin = ops.sin(angles) * self.magnitude
        # The halves get an axis, because flipping it costs one pass over the tensor,
        # while splitting and concatenating costs several.
        *rows, width = ops.shape(inputs)
        halves = reshape(inputs, (*rows, 2, width // 2))
        halves = ops.cast(halves, "float32")  # (B, T, H, 2, K / 2)
        turned = halves * cos + ops.flip(halves, axis=-2) * sin
        return ops.cast(reshape(turned, (*rows, width)), self.compute_dtype)

    def _check_position_ids(self, position_ids, inputs) -> None:
        check_integers(position_ids, f"{self.name}: position_ids")
        shape, length = tuple(position_ids.shape), inputs.shape[1]
        same_length = None in (length, *shape[-1:]) or shape[-1:] == (length,)
        if len(shape) not in (1, 2) or not same_length:
            raise ValueError(
                f"{self.name}: position_ids has shape {shape}; expected (batch, "
                f"{length}) or ({length},), as inputs has {tuple(inputs.shape)}"
            )
