"""Attention flow: the maximum flow from a layer's tokens to the input tokens."""

import numpy as np

from transbeam.configs.base.errors import ConfigError
from transbeam.model.inspect.flow.layered_max_flow import LayeredNetwork

# A flow is searched for each pair of tokens, in time that grows with the square of
# their number.
MAX_TOKENS = 64
# Bounds of a flow that differ by less are equal: they are sums of many roundings.
_EQUAL = 1e-9


def attention_flow(mixed: np.ndarray) -> np.ndarray:
    """Computes the attention flow from the last layer's tokens to the input tokens.

    The layers' tokens are the nodes of a network, and the weights of attention and
    residual connection are the capacities of its edges. The flow of a pair is the
    maximum flow from the token of the last layer to the input token: unlike in rollout,
    a path is as good as its narrowest edge, and all flow from a token shares the edges.

    A flow is found without a search if its lower and upper bounds meet. It is at most
    what the nodes of a layer can each receive from the token and send to the input
    token; and at least the flow by way of any one node, which is the smaller one of
    the flow to that node and of the flow from it.

    Args:
        mixed: float (L, T, T), the first layer first. Attention of one text without
            padding, from `mean_with_residual`; rows sum to one.

    Returns:
        float64 (T, T): `[q, k]` is the flow from token `q` after the last layer to
        input token `k`, at most 1 and exact up to 1e-9. Divide rows by their sums
        (`normalize_rows`) to compare flow with rollout.

    Raises:
        ConfigError: The text has more than 64 tokens.

    Example:
    >>> first, second = [[0.9, 0.1], [0.2, 0.8]], [[0.55, 0.45], [0.25, 0.75]]
    >>> attention_flow(np.array([first, second])).round(2)
    array([[0.75, 0.55],
           [0.45, 0.85]])

    References:
        - [Abnar & Zuidema, 2020](https://arxiv.org/abs/2005.00928), section 3
    """
    num_tokens = mixed.shape[-1]
    if num_tokens > MAX_TOKENS:
        raise ConfigError(
            f"attention flow of {num_tokens} tokens: it takes a maximum flow for each "
            f"of {num_tokens**2:,} pairs of tokens, and is computed for up to "
            f"{MAX_TOKENS}. Take a shorter text, or its rollout"
        )
    return _flow(np.asarray(mixed, np.float64))


def normalize_rows(weights: np.ndarray) -> np.ndarray:
    """Divides rows by their sums; rows of zeros stay.

    Example:
    >>> normalize_rows(np.array([[3.0, 1.0], [0.0, 0.0]]))
    array([[0.75, 0.25],
           [0.  , 0.  ]])
    """
    sums = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(sums > 0, sums, 1.0)


def divide_by_receptive_field(weights: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """Divides rollout or flow by the number of tokens that pass an input token on.

    In a causal model the first tokens are seen by all later ones, so that more paths
    lead to them, whatever the model attends to. The paper proposes to divide by the
    receptive field; the formula here is ours: the weight from token `q` to token `k` is
    divided by the number of tokens that `q` sees and that see `k`: `q - k + 1` in a
    causal model, and the same number for all pairs in a bidirectional one, which
    changes nothing. Rows are normalized afterward.

    Args:
        weights: float (T, T). Rollout or flow.
        visible: bool (T, T). True where a key reaches a query, through all layers.

    Returns:
        float (T, T), with rows that sum to one.

    Example:
    >>> causal = np.tri(2, dtype=bool)
    >>> divide_by_receptive_field(np.array([[1.0, 0.0], [0.5, 0.5]]), causal).round(2)
    array([[1.  , 0.  ],
           [0.33, 0.67]])

    References:
        - [Abnar & Zuidema, 2020](https://arxiv.org/abs/2005.00928), section 5
    """
    between = visible.astype(np.int64) @ visible.astype(np.int64)
    return normalize_rows(np.where(visible, weights / np.maximum(between, 1), 0.0))


def _flow(mixed: np.ndarray) -> np.ndarray:
    if len(mixed) == 1:
        return mixed[0].copy()
    received, sent = _receivable(mixed), _sendable(mixed)
    high = np.minimum(received[0], sent[-1])
    for layer in range(1, len(mixed)):
        high = np.minimum(high, _by_node(received[layer], sent[layer]))
    if len(mixed) == 2:  # one layer between: its nodes share no edge
        return high
    network = LayeredNetwork(mixed[-2:0:-1])
    low = np.minimum(_flow_by_way_of_middle(mixed), high)
    flows = low.copy()
    for query, key in np.argwhere(low < high - _EQUAL):
        flows[query, key] = network.max_flow(
            mixed[-1, query], mixed[0, :, key], float(high[query, key])
        )
    return flows


def _receivable(mixed: np.ndarray) -> list[np.ndarray]:
    """Bounds the flow from each last token to each node: (T, T) by layer.

    A node receives through an edge at most its capacity, and at most what the edge's
    start receives. Layer 0 are the input tokens.
    """
    bounds = [mixed[-1]]
    for capacities in mixed[-2::-1]:
        bounds.append(np.minimum(1, _by_node(bounds[-1], capacities)))
    return bounds[::-1]


def _sendable(mixed: np.ndarray) -> list[np.ndarray]:
    """Bounds the flow from each node to each input token: (T, T) by layer."""
    bounds = [np.eye(mixed.shape[-1]), mixed[0]]
    for capacities in mixed[1:]:
        bounds.append(np.minimum(1, _by_node(capacities, bounds[-1])))
    return bounds


def _by_node(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Adds up what passes each node: sum over v of min(before[q, v], after[v, k])."""
    return np.minimum(before[:, :, None], after[None]).sum(axis=1)


def _flow_by_way_of_middle(mixed: np.ndarray) -> np.ndarray:
    """Returns a lower bound of all flows, from a few flows for each token.

    Given a distribution over the nodes of a middle layer, a last token sends what it
    can of it, and an input token receives what it can of it. What a token fails to send
    is missing at most once. Flows in deep models are mostly limited by the edges into
    the input token alone, and this bound reaches them if the distribution suits the
    attention: smooth attention has paths from all tokens to all nodes alike, and sharp
    attention leads to few of them.
    """
    middle = len(mixed) // 2
    above = LayeredNetwork(mixed[-2 : middle - 1 : -1])
    below = LayeredNetwork(mixed[middle - 1 : 0 : -1])
    num_tokens = mixed.shape[-1]
    rollout = np.eye(num_tokens)
    for layer in mixed[middle:]:
        rollout = layer @ rollout
    bounds = []
    for nodes in (rollout.mean(axis=0), np.full(num_tokens, 1 / num_tokens)):
        sent = np.array([above.max_flow(supply, nodes) for supply in mixed[-1]])
        received = np.array([below.max_flow(nodes, demand) for demand in mixed[0].T])
        bounds.append(received[None] - (nodes.sum() - sent[:, None]))
    return np.maximum(bounds[0], bounds[1]).clip(min=0)
