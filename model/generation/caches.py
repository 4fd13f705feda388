"""What happens to the rows of a cache, whatever it is made of."""

from typing import Any

import keras
from keras import ops

CONTEXT = "context"


def repeat_rows(cache: Any, times: int) -> Any:
    """Each row several times, one after the other.

    Example:
    >>> cache = repeat_rows({"key": ops.array([1, 2])}, 2)
    >>> ops.convert_to_numpy(cache["key"])
    array([1, 1, 2, 2], dtype=int32)
    """
    return keras.tree.map_structure(lambda x: ops.repeat(x, times, axis=0), cache)


def take_rows(cache: Any, rows: Any) -> Any:
    """Some rows, int32 `(R,)`, each in the place of one made of the same prompt.

    What stands under `"context"` is the same for them all, and is not moved.

    Example:
    >>> cache = {"key": ops.array([1, 2]), "context": ops.array([7, 7])}
    >>> taken = take_rows(cache, ops.array([1, 1]))
    >>> ops.convert_to_numpy(taken["key"]), ops.convert_to_numpy(taken["context"])
    (array([2, 2], dtype=int32), array([7, 7], dtype=int32))
    """

    def take(part):
        return keras.tree.map_structure(lambda x: ops.take(x, rows, axis=0), part)

    if not isinstance(cache, dict) or CONTEXT not in cache:
        return take(cache)
    moving = {name: part for name, part in cache.items() if name != CONTEXT}
    return {**take(moving), CONTEXT: cache[CONTEXT]}


def has_slots(cache: dict[str, Any]) -> bool:
    """Whether an attention keeps every token by itself, rather than sums of all."""
    return set(cache) == {"key", "value"}


def add_slots(cache: dict[str, Any], number: Any) -> dict[str, Any]:
    """Makes room for more tokens in an attention's cache, `(B, G, S, K)`.

    Example:
    >>> cache = {"key": ops.ones((1, 1, 2, 1)), "value": ops.ones((1, 1, 2, 1))}
    >>> tuple(add_slots(cache, 3)["key"].shape)
    (1, 1, 5, 1)
    """
    if not has_slots(cache):
        return cache
    room = ((0, 0), (0, 0), (0, number), (0, 0))
    return {name: ops.pad(x, room) for name, x in cache.items()}
