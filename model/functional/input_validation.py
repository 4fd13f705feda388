"""The inputs of a model, and a functional model that validates them."""

from typing import Any

import keras
import numpy as np

from transbeam.model.base.tensor_checks import (
    check_integers,
    fits,
    get_dtype,
    known_values,
)

IDS = ("padding_mask", "document_ids", "position_ids", "prefix_mask")


def ids(name: str) -> keras.KerasTensor:
    """Makes an input of one integer per token: int32 `(B, T)`."""
    return keras.Input((None,), dtype="int32", name=name)


def token_inputs(
    prefix: str = "", *, packed: bool = False
) -> dict[str, keras.KerasTensor]:
    """Makes the inputs of one sequence: token ids, with mask or positions.

    Args:
        prefix: Prefix of the inputs' names: `"encoder_"` or `"decoder_"` in an
            encoder-decoder, else empty.
        packed: If true, rows hold several documents.

    Example:
    >>> list(token_inputs(packed=True))
    ['token_ids', 'document_ids', 'position_ids']
    >>> list(token_inputs("encoder_"))
    ['encoder_token_ids', 'encoder_padding_mask']
    """
    places = ("document_ids", "position_ids") if packed else ("padding_mask",)
    return {
        f"{prefix}{name}": ids(f"{prefix}{name}") for name in ("token_ids", *places)
    }


def sequence_name(name: str) -> str:
    """Returns the name of the sequence that an input belongs to.

    Example:
    >>> sequence_name("encoder_token_ids"), sequence_name("encoder_padding_mask")
    ('encoder_', 'encoder_')
    >>> sequence_name("token_ids"), sequence_name("image")
    ('', 'image')
    """
    for token_input in ("token_ids", "segment_ids", *IDS):
        if name.endswith(token_input):
            return name.removesuffix(token_input)
    return name


def collect_sequence_info(
    inputs: dict[str, keras.KerasTensor], prefix: str = ""
) -> dict[str, keras.KerasTensor]:
    """Collects masks and positions; see `transbeam.model.layers.sequence_info`."""
    return {
        name: inputs[f"{prefix}{name}"] for name in IDS if f"{prefix}{name}" in inputs
    }


_INT32 = np.iinfo("int32")


@keras.saving.register_keras_serializable(package="transbeam")
class CheckedModel(keras.Model):
    """A functional model that rejects inputs which Keras would silently convert.

    A Keras functional model casts inputs to the declared dtypes and removes axes of
    length 1: token ids of 2.7 become 2, an image with values between 0 and 1 turns
    black, `(2, 6, 1)` is read as `(2, 6)`. A `CheckedModel` requires that ids are
    integers, of any width if their values fit int32; masks may be bool; an image must
    be uint8; all inputs must have equally many rows, and those of one sequence equally
    many tokens.

    A `CheckedModel` checks shapes and dtypes, which costs nothing in a compiled model;
    and, in eager execution, that 64-bit ids fit 32 bits. Layers check that ids are in
    range, also in eager execution only (see `TokenEmbedding`). The model is built,
    called, trained, saved and exported like any functional model.

    Call arguments:
        inputs: dict of tensors by name, or tensors in the order of the names.

    Raises:
        ValueError: An input is missing or not declared, or has another rank, dtype or
            length. Keras itself raises some of the errors.

    Example:
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.model.encoder import build_encoder
    >>> encoder = build_encoder(EncoderConfig(num_layers=1, hidden_dim=8), 10)
    >>> mask = np.ones((1, 3), "int32")
    >>> encoder({"token_ids": np.ones((1, 3)), "padding_mask": mask})
    Traceback (most recent call last):
    ValueError: ...token_ids has dtype float64 (and shape (1, 3)); ...
    >>> encoder({"token_ids": np.ones((1, 4), "int32"), "padding_mask": mask})
    Traceback (most recent call last):
    ValueError: ...token_ids has shape (1, 4); expected that of padding_mask, (1, 3)...
    """

    # Not `__call__`, which Keras bypasses in compiled JAX functions.
    def call(self, inputs, training=None, mask=None, **kwargs):
        given = inputs
        if not isinstance(inputs, dict):
            names = [tensor.name for tensor in self.inputs]
            given = dict(zip(names, keras.tree.flatten(inputs), strict=False))
        self._check(given)
        return super().call(inputs, training=training, mask=mask, **kwargs)

    def _check(self, given: dict[str, Any]) -> None:
        declared = {tensor.name: tensor for tensor in self.inputs}
        if set(given) != set(declared):
            raise ValueError(
                f"{self.name}: inputs has {sorted(given)}; expected {sorted(declared)}"
            )
        for name, tensor in given.items():
            _check_tensor(tensor, declared[name], name)
        _check_lengths(given)


def _check_tensor(tensor: Any, declared: keras.KerasTensor, name: str) -> None:
    free = ("batch", "length")
    axes = [free[i] if n is None else str(n) for i, n in enumerate(declared.shape)]
    expected = f"({', '.join(axes)})"
    if not fits(tuple(tensor.shape), tuple(declared.shape)):
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected {expected}")
    dtype = get_dtype(tensor)
    if declared.dtype != "int32":
        if dtype != declared.dtype:
            raise ValueError(
                f"{name}, of shape {tuple(tensor.shape)}, has dtype {dtype}; expected "
                f"{declared.dtype}"
            )
    elif dtype != "bool" or not name.endswith("_mask"):
        check_integers(tensor, name)
        _check_width(tensor, dtype, name)


def _check_width(tensor: Any, dtype: str, name: str) -> None:
    """Checks that values fit int32."""
    wide = dtype in ("int64", "uint32", "uint64")
    values = known_values(tensor) if wide else None
    if values is None or not values.size:
        return
    if values.min() < _INT32.min or values.max() > _INT32.max:
        raise ValueError(
            f"{name}, of shape {tuple(values.shape)}, go from {values.min()} to "
            f"{values.max()}; expected numbers that int32 can hold"
        )


def _check_lengths(given: dict[str, Any]) -> None:
    """Checks that all inputs have the same batch size, and equal sequence lengths."""
    first: dict[str, str] = {}
    for name in sorted(given):
        batch = min(given)
        sequence = first.setdefault(sequence_name(name), name)
        for other, axes in ((batch, 1), (sequence, 2)):
            shape, expected = tuple(given[name].shape), tuple(given[other].shape)
            if not fits(shape[:axes], expected[:axes]):
                what = "that" if axes == 2 else "as many rows as that"
                raise ValueError(
                    f"{name} has shape {shape}; expected {what} of {other}, {expected}"
                )
