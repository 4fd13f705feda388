"""Embeds image patches as a sequence, and prepends a class token."""

import keras
from keras import ops

from transbeam.model.base.initializers import (
    InitializerLike,
    initializer_or_normal,
    seeded,
)
from transbeam.model.base.tensor_checks import check_rank, fits
from transbeam.model.layers.base_layer import ConfiguredLayer, add_embeddings

IMAGE_AXES = "(batch, height, width, channels)"


@keras.saving.register_keras_serializable(package="transbeam")
class PatchEmbedding(ConfiguredLayer):
    """Splits an image into square patches and projects each with one dense layer.

    The patches are in row-major order, and so are the pixels of a patch, each with its
    channels in order. So the kernel is the reshaped kernel of a convolution with stride
    `patch_size`, computed as one matrix product.

    Shapes: `B` batch, `S` height or width, `C` channels, `p` patch size,
    `N = (S / p) ** 2` patches of a square image, `D` hidden width.

    Args:
        patch_size: int. `p`, in pixels.
        hidden_dim: int. `D`.
        kernel_initializer: Keras initializer of the kernel `(p p C, D)`; None for
            BERT's.
        seed: int or None. Seed of the initial kernel.

    Call arguments:
        inputs: `(B, S, S, C)`. uint8 is scaled from 0..255 to -1..1, as in ViT's
            training; floats are not scaled.

    Returns:
        `(B, N, D)` in the compute dtype.

    Raises:
        ValueError: The input is not of rank 4, its dtype is neither uint8 nor float,
            its number of channels is not that of the kernel, or its height or width, if
            known, is not a multiple of `patch_size`.

    Example:
    >>> patches = PatchEmbedding(patch_size=2, hidden_dim=5)
    >>> tuple(patches(ops.zeros((1, 4, 4, 3), dtype="uint8")).shape)
    (1, 4, 5)

    Masking: none; an image has no padding.

    References:
        - [Dosovitskiy et al., 2021](https://arxiv.org/abs/2010.11929), equation 1
    """

    def __init__(
        self,
        patch_size: int,
        hidden_dim: int,
        kernel_initializer: InitializerLike = None,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.patch_size = patch_size
        self.hidden_dim = hidden_dim
        self.kernel_initializer = initializer_or_normal(kernel_initializer)
        self.seed = seed

    def build(self, inputs_shape):
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.patch_size**2 * inputs_shape[-1], self.hidden_dim),
            initializer=seeded(self.kernel_initializer, self.seed),
        )
        self.bias = self.add_weight(
            name="bias", shape=(self.hidden_dim,), initializer="zeros"
        )

    def call(self, inputs):
        self.check(inputs)
        x = inputs
        if keras.backend.standardize_dtype(x.dtype) == "uint8":
            x = ops.cast(ops.cast(x, "float32") / 127.5 - 1.0, self.compute_dtype)
        size = self.patch_size
        batch, height, width, channels = ops.shape(x)
        rows, columns = height // size, width // size
        x = ops.reshape(x, (batch, rows, size, columns, size, channels))
        x = ops.transpose(x, (0, 1, 3, 2, 4, 5))  # (B, rows, columns, p, p, C)
        x = ops.reshape(x, (batch, rows * columns, size * size * channels))
        return ops.matmul(x, self.kernel) + self.bias  # (B, N, D)

    def check(self, inputs) -> None:
        """Checks that the input is an image that can be split into patches."""
        check_rank(inputs, 4, f"{self.name}: inputs", IMAGE_AXES)
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        if dtype != "uint8" and "float" not in dtype:
            raise ValueError(
                f"{self.name}: inputs has dtype {dtype}; expected uint8 from 0 to 255, "
                "or a float one already scaled"
            )
        shape = tuple(inputs.shape)
        if any(side is not None and side % self.patch_size for side in shape[1:3]):
            raise ValueError(
                f"{self.name}: inputs has shape {shape}; expected {IMAGE_AXES} with a "
                f"height and a width that are multiples of {self.patch_size}"
            )
        channels = self.kernel.shape[0] // self.patch_size**2
        if not fits(shape[3:], (channels,)):
            raise ValueError(
                f"{self.name}: inputs has shape {shape}; expected {IMAGE_AXES} with "
                f"{channels} channels, for which it was built"
            )

    def compute_output_shape(self, inputs_shape):
        batch, height, width, _ = inputs_shape
        if height is None or width is None:
            return (batch, None, self.hidden_dim)
        number = (height // self.patch_size) * (width // self.patch_size)
        return (batch, number, self.hidden_dim)


@keras.saving.register_keras_serializable(package="transbeam")
class ClassToken(ConfiguredLayer):
    """Prepends one learned vector to each sequence.

    This class token corresponds to no patch, so the blocks can aggregate information
    about the whole image at its position. Weight: `embeddings`, `(1, D)`.

    Shapes: `B` batch, `T` length, `D` hidden width.

    Args:
        embeddings_initializer: Keras initializer of the vector; None for BERT's.
        seed: int or None. Seed of the initial vector.

    Call arguments:
        inputs: float `(B, T, D)`.

    Returns:
        `(B, 1 + T, D)` in the compute dtype.

    Raises:
        ValueError: The input is not of rank 3.

    Example:
    >>> tuple(ClassToken()(ops.ones((2, 3, 4))).shape)
    (2, 4, 4)

    Masking: none. A Keras mask on the inputs would have the wrong length here, and
    Keras warns of such a mask.

    References:
        - [Dosovitskiy et al., 2021](https://arxiv.org/abs/2010.11929), equation 1
    """

    def __init__(
        self,
        embeddings_initializer: InitializerLike = None,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.embeddings_initializer = initializer_or_normal(embeddings_initializer)
        self.seed = seed

    def build(self, inputs_shape):
        self.embeddings = add_embeddings(self, 1, inputs_shape[-1])

    def call(self, inputs):
        check_rank(inputs, 3, f"{self.name}: inputs", "(batch, length, hidden_dim)")
        batch, _, hidden_dim = ops.shape(inputs)
        token = ops.broadcast_to(self.embeddings, (batch, 1, hidden_dim))
        return ops.concatenate([token, inputs], axis=1)

    def compute_output_shape(self, inputs_shape):
        batch, length, hidden_dim = inputs_shape
        return (batch, None if length is None else 1 + length, hidden_dim)
