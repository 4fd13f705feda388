"""Statistics of heads in NumPy, from the weights of all pairs and their definitions."""

from typing import Any

import numpy as np
from keras import ops

from tests.model.layers.attention.masked_reference import real
from transbeam.model.inspect.attention_statistics import OFFSETS
from transbeam.model.layers.attention.base_attention import Attention
from transbeam.model.layers.attention.full import MultiHeadAttention


class LayerModel:
    """Stands in for a model: one attention layer with fixed inputs `(B, T, D)`."""

    name = "one_layer"

    def __init__(self, layer: Attention, x: np.ndarray, names: tuple[str, ...]):
        self.layer, self.x = layer, x
        self.input = dict.fromkeys(names)

    def _flatten_layers(self) -> list[Attention]:
        return [self.layer]

    def __call__(self, inputs: dict[str, Any], training: bool = False) -> Any:
        return self.layer(self.x, inputs, training=training)


def dense_weights(layer: Attention, heads: Any, mask: np.ndarray) -> np.ndarray:
    """Softmax of all pairs in float64, from queries and keys: `(B, H, T, T)`."""
    query, key = (ops.convert_to_numpy(x).astype("float64") for x in heads[:2])
    if isinstance(layer, MultiHeadAttention):
        query = query * layer.score_scale
    key = key.repeat(query.shape[2] // key.shape[2], axis=2)
    scores = np.einsum("bqhk,bshk->bhqs", query, key)
    mask = mask if mask.ndim == 4 else mask[:, None]
    exponentials = np.exp(scores) * mask
    sums = exponentials.sum(axis=-1, keepdims=True)
    return exponentials / np.where(sums > 0, sums, 1)


def expected_statistics(
    weights: np.ndarray,
    mask: np.ndarray,
    classes: np.ndarray,
    *,
    threshold: float,
    distant: int,
    end: int,
) -> dict[str, np.ndarray]:
    """Sums the statistics query by query.

    Args:
        weights: `(B, H, T, S)`.
        mask: bool, visible pairs `(B, H, T, S)`, none for padding.
        classes: `(B, T, C)`.
        threshold: Of the sparsity.
        distant: Largest distance that is not distant.
        end: The class of end tokens.
    """
    batch, heads, length, _ = weights.shape
    names = ("entropy", "entropy_share", "confidence", "confidence_without_end")
    names += ("sparsity", "distance", "distant", "first", "end_to_end")
    found: dict[str, np.ndarray] = {}
    found |= {name: np.zeros((batch, heads)) for name in names}
    found["offsets"] = np.zeros((batch, heads, len(OFFSETS)))
    found["classes"] = np.zeros((batch, heads, classes.shape[2]))
    for name in ("queries", "queries_with_two_keys", "end_queries"):
        found[name] = np.zeros(batch)
    for b, h, q in np.ndindex(batch, heads, length):
        keys = np.flatnonzero(mask[b, h, q])
        if not len(keys):
            continue
        a, is_end = weights[b, h, q, keys], classes[b, keys, end] == 1
        entropy = -sum(w * np.log(w) for w in a if w > 0)
        found["entropy"][b, h] += entropy
        if h == 0:
            found["queries"][b] += 1
            found["queries_with_two_keys"][b] += len(keys) > 1
            found["end_queries"][b] += classes[b, q, end]
        if len(keys) > 1:
            found["entropy_share"][b, h] += entropy / np.log(len(keys))
        found["confidence"][b, h] += a.max()
        found["confidence_without_end"][b, h] += max(a[~is_end], default=0)
        found["sparsity"][b, h] += np.mean(a < threshold)
        found["distance"][b, h] += a @ np.abs(keys - q)
        found["distant"][b, h] += a[np.abs(keys - q) > distant].sum()
        for number, offset in enumerate(OFFSETS):
            found["offsets"][b, h, number] += a[keys == q + offset].sum()
        start = np.flatnonzero(mask[b].any(axis=(0, 1)))[0]
        found["first"][b, h] += a[keys == start].sum()
        found["classes"][b, h] += a @ classes[b, keys]
        if classes[b, q, end]:
            found["end_to_end"][b, h] += a[is_end].sum()
    return found


def token_classes(sequence_info: dict[str, np.ndarray]) -> np.ndarray:
    """Three random classes of tokens, of padding too: `(B, T, 3)`."""
    shape = (*real(sequence_info).shape, 3)
    return np.random.default_rng(4).integers(0, 2, shape)
