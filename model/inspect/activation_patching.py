"""Activation patching: activations of a clean run, put into a corrupted one.

Two texts of the same number of tokens differ in a few of them, so that the model
prefers another answer. If one activation from the clean run restores the clean answer
in the corrupted run, it carries what the texts differ in.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from keras import ops

from transbeam.configs.base.errors import ArtifactError, DataError
from transbeam.model.base.activation_hooks import hooked, recorded

# Inputs of several texts to the difference of two logits of each text: (B,).
LogitDifference = Callable[[Mapping[str, Any]], Any]
Axis = Literal["position", "head"]

# Of logits: rows of a batch with the same values may differ by less.
_ROUNDING = 1e-6
_AXES = {"position": 1, "head": 2}  # of (B, T, D) and of (B, T, H, K)


@dataclass(frozen=True)
class PatchingEffects:
    """The share of the clean answer that each patch restores.

    Attributes:
        layers: Paths of the patched activations without their ending, `L` of them.
        effects: float64 `(L, N)`: by position or head; 1 restores the clean answer, 0
            changes nothing. NaN where a layer has no such head.
        clean: The logit difference of the clean run.
        corrupted: That of the corrupted run.
    """

    layers: tuple[str, ...]
    effects: np.ndarray
    clean: float
    corrupted: float


def patch_activations(
    difference: LogitDifference,
    clean: Mapping[str, np.ndarray],
    corrupted: Mapping[str, np.ndarray],
    ending: str = "/output",
    axis: Axis = "position",
) -> PatchingEffects:
    """Patches each activation at each position, or each head at all positions.

    The effect is `(patched - corrupted) / (clean - corrupted)`, of differences between
    the logits of the right and of the wrong answer.

    Args:
        difference: Computes the logit differences of a batch; calls the model eagerly.
        clean: The inputs of the text with the right answer, `(1, T)` without padding.
        corrupted: Those of a text of the same length, with the wrong answer.
        ending: Ending of the activations' paths: `/output` of blocks,
            `self_attention_residual/update` of one kind of sub-layer, `/heads`; see
            `transbeam.model.base.activation_hooks`.
        axis: `position`, or `head` for activations `/heads`.

    Raises:
        DataError: The texts have different lengths, or the same logit difference.
        ArtifactError: No patch was computed with.

    Example:
    >>> from transbeam.configs.schema.model import DecoderConfig
    >>> from transbeam.model.decoder import build_decoder
    >>> decoder = build_decoder(DecoderConfig(num_layers=2, hidden_dim=8), 10)
    >>> def difference(inputs):
    ...     logits = decoder(inputs)["logits"][:, -1]
    ...     return logits[:, 7] - logits[:, 8]
    >>> def make_inputs(*ids):
    ...     ids = np.array([ids], "int32")
    ...     return {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    >>> found = patch_activations(
    ...     difference, make_inputs(1, 2, 3), make_inputs(1, 4, 3)
    ... )
    >>> found.layers, found.effects.shape
    (('decoder_layer_0', 'decoder_layer_1'), (2, 3))
    >>> abs(found.effects[1].round(3)).tolist()
    [0.0, 0.0, 1.0]

    References:
        - [Zhang & Nanda, 2023](https://arxiv.org/abs/2309.16042), section 2
        - [Meng et al., 2022](https://arxiv.org/abs/2202.05262), section 2.1
    """
    _check_shapes(clean, corrupted)
    right, wrong = _compute_one(difference, clean), _compute_one(difference, corrupted)
    if right == wrong:
        raise DataError(
            f"both texts have the logit difference {right:.4f}, so there is nothing to "
            "restore. Give texts with different answers"
        )
    patched = patched_differences(difference, clean, corrupted, ending, axis)
    size = max(map(len, patched.values())) - 1
    effects = np.full((len(patched), size), np.nan)
    for row, (plain, *values) in zip(effects, patched.values(), strict=True):
        # Of the same batch, because other batches are rounded otherwise.
        change = np.array(values) - plain
        row[: len(values)] = compute_effect(wrong + change, right, wrong)
    layers = tuple(path.removesuffix(ending).rstrip("/") for path in patched)
    return PatchingEffects(layers, effects, right, wrong)


def compute_effect(patched: Any, clean: float, corrupted: float) -> Any:
    """Returns the share of the difference between two runs that a patch restores.

    Example:
    >>> compute_effect(1.0, clean=4.0, corrupted=-2.0)
    0.5
    """
    return (patched - corrupted) / (clean - corrupted)


def patched_differences(
    difference: LogitDifference,
    source: Mapping[str, np.ndarray],
    inputs: Mapping[str, np.ndarray],
    ending: str,
    axis: Axis,
) -> dict[str, np.ndarray]:
    """Computes the logit differences of a run with each patch from another run.

    All patches of an activation are one batch: in its first row nothing is replaced, in
    the n-th row behind it the n-th position or head.

    Args:
        difference: As in `patch_activations`.
        source: The inputs of the run from which activations are taken, `(1, T)`.
        inputs: The inputs of the run that is patched.
        ending: As in `patch_activations`.
        axis: As in `patch_activations`.

    Returns:
        The differences by the activation's path, float64 `(1 + N,)`: the first without
        a patch.
    """
    sizes = _count_patches(difference, source, ending, axis)
    # Of as many rows as the batch that is patched, as batches of other sizes are
    # rounded otherwise.
    sources = {}
    for size in set(sizes.values()):
        with recorded(ending) as sources[size]:
            difference(_repeat(source, size))
    found, moved = {}, False
    for path, size in sizes.items():
        patch = _Patch(path, sources[size][path], axis)
        with hooked(patch):
            values = difference(_repeat(inputs, size))
        if not patch.is_used:
            raise ArtifactError(f"{path}: was not computed, so nothing was patched")
        moved = moved or patch.has_changed
        found[path] = ops.convert_to_numpy(values).astype(np.float64)
    changes = [np.abs(values - values[0]).max() for values in found.values()]
    if moved and max(changes) < _ROUNDING:
        raise ArtifactError(
            f"{ending}: the activations of the two runs differ, and no patch of them "
            "changes the logits: the patches are not computed with"
        )
    return found


def _count_patches(
    difference: LogitDifference,
    source: Mapping[str, np.ndarray],
    ending: str,
    axis: Axis,
) -> dict[str, int]:
    """Finds the activations, and the number of rows for their patches."""
    with recorded(ending) as seen:
        difference(source)
    if not seen:
        raise ArtifactError(
            f"{ending}: the model computed no such activation. Call the model itself, "
            "not a function that was traced before"
        )
    return {path: 1 + value.shape[_AXES[axis]] for path, value in seen.items()}


def _repeat(inputs: Mapping[str, np.ndarray], rows: int) -> dict[str, np.ndarray]:
    return {name: np.repeat(values, rows, axis=0) for name, values in inputs.items()}


class _Patch:
    """A hook that replaces the n-th position or head in row n + 1 of a batch.

    Attributes:
        is_used: True once the activation was replaced.
        has_changed: True if its values differ from those that it replaced.
    """

    def __init__(self, path: str, value: Any, axis: Axis):
        self.path, self.value, self.axis = path, value, _AXES[axis]
        self.is_used = self.has_changed = False

    def __call__(self, path: str, value: Any) -> Any:
        if path != self.path:
            return value
        rows = value.shape[0]
        shape = [rows] + [1] * (len(value.shape) - 1)
        shape[self.axis] = rows - 1
        chosen = ops.reshape(ops.cast(ops.eye(rows, rows - 1, -1), "bool"), shape)
        patched = ops.where(chosen, ops.cast(self.value, value.dtype), value)
        self.is_used = True
        self.has_changed = bool(ops.any(ops.not_equal(patched, value)))
        return patched


def _check_shapes(
    clean: Mapping[str, np.ndarray], corrupted: Mapping[str, np.ndarray]
) -> None:
    for name, values in clean.items():
        other = np.shape(corrupted[name])
        if np.shape(values) != other:
            raise DataError(
                f"{name}: the clean text has {np.shape(values)[-1]} tokens and the "
                f"corrupted one {other[-1]}; a patch needs the same position in both. "
                "Exchange words for others of as many tokens"
            )


def _compute_one(
    difference: LogitDifference, inputs: Mapping[str, np.ndarray]
) -> float:
    return float(ops.convert_to_numpy(difference(inputs))[0])
