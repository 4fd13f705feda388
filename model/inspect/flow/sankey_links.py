"""Links of a Sankey diagram: attention from layer to layer."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transbeam.configs.base.errors import ConfigError


@dataclass(frozen=True)
class SankeyLinks:
    """Links between tokens of adjacent layers, in the order of layer, query and key.

    Attributes:
        layer: int32 (N,). The layer that computes the query token, from 0.
        query: int32 (N,). The position of the query after this layer.
        key: int32 (N,). The position of the key before this layer.
        weight: float32 (N,). The weight of the link.
    """

    layer: np.ndarray
    query: np.ndarray
    key: np.ndarray
    weight: np.ndarray

    def __len__(self) -> int:
        return len(self.weight)


def sankey_links(
    maps: Sequence[np.ndarray] | np.ndarray, threshold: float, top_k: int | None = None
) -> SankeyLinks:
    """Selects the links of a Sankey diagram.

    Args:
        maps: float (L, T, T). Weights from queries to keys for each layer of one text
            without padding, such as means over heads.
        threshold: The smallest weight of a link, above 0 and at most 1.
        top_k: The largest number of links from a query; of equal weights the first keys
            remain. None for all.

    Raises:
        ConfigError: An argument is out of range.

    Example:
    >>> links = sankey_links(np.array([[[0.9, 0.1], [0.3, 0.7]]]), threshold=0.25)
    >>> links.query.tolist(), links.key.tolist()
    ([0, 1, 1], [0, 0, 1])
    """
    if not 0 < threshold <= 1:
        raise ConfigError(
            f"threshold={threshold}: expected a weight above 0 and at most 1"
        )
    if top_k is not None and top_k < 1:
        raise ConfigError(f"top_k={top_k}: expected 1 or more links per token")
    weights = np.asarray(maps, np.float32)
    is_link = weights >= np.float32(threshold)
    if top_k is not None:
        order = np.argsort(-weights, axis=-1, kind="stable")
        rank = np.argsort(order, axis=-1, kind="stable")
        is_link &= rank < top_k
    layer, query, key = (index.astype(np.int32) for index in np.nonzero(is_link))
    return SankeyLinks(layer, query, key, weights[is_link])
