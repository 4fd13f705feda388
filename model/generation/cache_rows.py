"""Operations on the rows of a KV cache, a nested structure of tensors."""

from typing import Any

import keras
from keras import ops

CONTEXT = "context"


def repeat_rows(cache: Any, times: int) -> Any:
    """Repeats each row of a cache.

    Example:
    >>> cache = repeat_rows({"key": ops.array([1, 2])}, 2)
    >>> ops.convert_to_numpy(cache["key"])
    array([1, 1, 2, 2], dtype=int32)
    """
    return keras.tree.map_structure(lambda x: ops.repeat(x, times, axis=0), cache)


def gather_rows(part: Any, rows: Any) -> Any:
    """Gathers rows, by their indices int32 `(R,)`, of all tensors in a structure."""
    return keras.tree.map_structure(lambda x: ops.take(x, rows, axis=0), part)


def concatenate_rows(first: Any, second: Any) -> Any:
    """Concatenates the rows of two structures of tensors."""
    return keras.tree.map_structure(
        lambda x, y: ops.concatenate([x, y], axis=0), first, second
    )


def take_rows(cache: Any, rows: Any) -> Any:
    """Gathers a cache's rows by index, int32 `(R,)`; each row must keep its prompt.

    Entries of the cache under `"context"` depend only on the prompt, and are returned
    unchanged.

    Example:
    >>> cache = {"key": ops.array([1, 2]), "context": ops.array([7, 7])}
    >>> taken = take_rows(cache, ops.array([1, 1]))
    >>> ops.convert_to_numpy(taken["key"]), ops.convert_to_numpy(taken["context"])
    (array([2, 2], dtype=int32), array([7, 7], dtype=int32))
    """
    if not isinstance(cache, dict) or CONTEXT not in cache:
        return gather_rows(cache, rows)
    moving = {name: part for name, part in cache.items() if name != CONTEXT}
    return {**gather_rows(moving, rows), CONTEXT: cache[CONTEXT]}


def has_slots(cache: dict[str, Any]) -> bool:
    """Checks if an attention's cache has a slot per token, not sums over tokens."""
    return set(cache) == {"key", "value"}


def add_slots(cache: dict[str, Any], number: Any) -> dict[str, Any]:
    """Adds free slots to an attention's cache, `(B, G, S, K)`.

    Example:
    >>> cache = {"key": ops.ones((1, 1, 2, 1)), "value": ops.ones((1, 1, 2, 1))}
    >>> tuple(add_slots(cache, 3)["key"].shape)
    (1, 1, 5, 1)
    """
    if not has_slots(cache):
        return cache
    room = ((0, 0), (0, 0), (0, number), (0, 0))
    return {name: ops.pad(x, room) for name, x in cache.items()}


def move_slots(cache: Any, shift: Any, slots: Any) -> Any:
    """Shifts the tokens of a cache to the right.

    The cached values of a token do not depend on its column, only on the number of
    tokens before it in its row.

    Args:
        cache: The cache of `DecodeFunctions.prefill`.
        shift: The number of columns; negative shifts to the left, which is allowed only
            if the dropped columns are padding.
        slots: The number of slots after the shift.
    """
    if not isinstance(cache, dict):
        return cache
    moved = dict(cache)
    moved["padding_mask"] = move_columns(cache["padding_mask"], shift, slots, 1, 1)
    moved["layers"] = tuple(
        {name: move_columns(x, shift, slots, axis=2) for name, x in layer.items()}
        if has_slots(layer)
        else layer
        for layer in cache["layers"]
    )
    if "hidden" in cache:
        moved["hidden"] = move_columns(cache["hidden"], shift, slots, axis=1)
    return moved


def move_columns(x: Any, shift: Any, size: Any, axis: int, fill: int = 0) -> Any:
    """Shifts a tensor to the right, with 0 before it and `fill` after it.

    Example:
    >>> x = ops.array([[1, 2, 3]])
    >>> ops.convert_to_numpy(move_columns(x, 1, 5, axis=1, fill=9))
    array([[0, 1, 2, 3, 9]], dtype=int32)
    >>> ops.convert_to_numpy(move_columns(x, -1, 2, axis=1))
    array([[2, 3]], dtype=int32)
    """
    smaller, larger = (min, max) if _known(shift, size) else (ops.minimum, ops.maximum)
    shape = ops.shape(x)
    first, before = larger(-shift, 0), larger(shift, 0)
    kept = smaller(shape[axis] - first, size - before)
    lead = [0] * len(shape)
    lead[axis] = first
    x = ops.slice(x, lead, (*shape[:axis], kept, *shape[axis + 1 :]))
    paddings = [(0, 0)] * len(shape)
    paddings[axis] = (before, 0)
    x = ops.pad(x, paddings)
    paddings[axis] = (0, size - before - kept)
    return ops.pad(x, paddings, constant_values=fill)


def join_rows(first: Any, second: Any) -> Any:
    """Concatenates the rows of two caches with equally many slots."""
    if not isinstance(first, dict) or CONTEXT not in first:
        return concatenate_rows(first, second)
    widths = [ops.shape(part[CONTEXT]["padding_mask"])[1] for part in (first, second)]
    known = all(isinstance(width, int) for width in widths)
    widest = max(widths) if known else ops.maximum(*widths)
    return concatenate_rows(
        *(_with_wide_context(part, widest) for part in (first, second))
    )


def _with_wide_context(cache, width):
    context = cache[CONTEXT]
    layers = tuple(
        {name: move_columns(x, 0, width, axis=2) for name, x in layer.items()}
        for layer in context["layers"]
    )
    mask = move_columns(context["padding_mask"], 0, width, axis=1)
    return {**cache, CONTEXT: {"padding_mask": mask, "layers": layers}}


def _known(*sizes):
    return all(isinstance(size, int) for size in sizes)
