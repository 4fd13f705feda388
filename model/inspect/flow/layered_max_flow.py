"""Maximum flow through a stack of fully connected layers.

Dinic's algorithm: a breadth-first search from the sink gives each node its distance in
the residual network, a depth-first search fills the paths along which the distance
shrinks, and both repeat until the source cannot reach the sink. A set of nodes of a
layer is an `int` with one bit per node, so that a search asks for all neighbors of a
node at once. Capacities are floats; there is no such algorithm among the project's
dependencies.
"""

from collections.abc import Iterator

import numpy as np

# Residual capacities below it are rounding errors of capacities, which are at most 1.
NO_CAPACITY = 1e-12


class LayeredNetwork:
    """A stack of layers of `n` nodes each, with edges from each layer to the next.

    Args:
        capacities: float (M, n, n). `capacities[a, k, m]` belongs to the edge from node
            `k` of layer `a` to node `m` of layer `a + 1`; at most 1.

    Example:
    >>> network = LayeredNetwork(np.array([[[0.5, 0.25], [0.0, 0.5]]]))
    >>> network.max_flow(np.array([1.0, 0.0]), np.array([1.0, 0.125]))
    0.625

    References:
        - E. A. Dinic, Algorithm for solution of a problem of maximum flow in networks
          with power estimation, Soviet Mathematics Doklady 11, 1970
    """

    def __init__(self, capacities: np.ndarray):
        self._down = [_Edges(layer) for layer in capacities]
        # Of each layer, its neighbors and the edges to them.
        self._edges: list[list[tuple[int, _Edges]]] = [
            [] for _ in range(len(capacities) + 1)
        ]
        for layer, edges in enumerate(self._down):
            self._edges[layer].append((layer + 1, edges))
            self._edges[layer + 1].append((layer, edges.reverse))

    def max_flow(
        self, supply: np.ndarray, demand: np.ndarray, bound: float = np.inf
    ) -> float:
        """Computes the maximum flow from a source to a sink.

        Args:
            supply: float (n,). Capacities of the edges from the source to the nodes of
                the first layer.
            demand: float (n,). Capacities of the edges from the nodes of the last layer
                to the sink.
            bound: An upper bound of the flow; the search ends when it is reached.
        """
        try:
            return _Search(self._edges, supply, demand).run(bound)
        finally:
            for edges in self._down:
                edges.reset()


class _Edges:
    """Residual edges between two layers, in one direction.

    Attributes:
        residual: The residual capacity from each node to each node.
        leaving: The set of ends of the edges that leave a node.
        entering: The set of starts of the edges that enter a node.
        reverse: The edges in the other direction, which take back flow.
    """

    def __init__(self, capacities: np.ndarray, reverse: "_Edges | None" = None):
        self.residual: list[list[float]] = capacities.tolist()
        self.leaving, self.entering = _bit_sets(capacities), _bit_sets(capacities.T)
        self.reverse = reverse or _Edges(np.zeros_like(capacities), self)
        # Changed residual capacities, with their values before the change.
        self._changed: dict[tuple[int, int], float] = {}

    def shift(self, start: int, end: int, flow: float) -> None:
        """Moves residual capacity from an edge to its reverse."""
        self._change(start, end, -flow)
        self.reverse._change(end, start, flow)

    def _change(self, start: int, end: int, by: float) -> None:
        before = self.residual[start][end]
        self._changed.setdefault((start, end), before)
        self._set(start, end, before + by)

    def _set(self, start: int, end: int, residual: float) -> None:
        self.residual[start][end] = residual
        if residual > NO_CAPACITY:
            self.leaving[start] |= 1 << end
            self.entering[end] |= 1 << start
        else:
            self.leaving[start] &= ~(1 << end)
            self.entering[end] &= ~(1 << start)

    def reset(self) -> None:
        """Takes back the flow, in both directions."""
        for edges in (self, self.reverse):
            for (start, end), residual in edges._changed.items():
                edges._set(start, end, residual)
            edges._changed.clear()


class _Search:
    """The search for one maximum flow."""

    def __init__(
        self,
        edges: list[list[tuple[int, _Edges]]],
        supply: np.ndarray,
        demand: np.ndarray,
    ):
        self.edges = edges
        self.supply, self.demand = supply.tolist(), demand.tolist()
        self.everything = (1 << len(supply)) - 1
        # `near[distance][layer]` is the set of nodes at a distance from the sink.
        self.near: list[list[int]] = []

    def run(self, bound: float) -> float:
        total = 0.0
        while total < bound - NO_CAPACITY:
            self._set_distances()
            pushed = self._push_supplies()
            if pushed == 0:
                break
            total += pushed
        return total

    def _push_supplies(self) -> float:
        total = 0.0
        for distance, layers in enumerate(self.near):
            for node in _bits(layers[0]):
                if self.supply[node] > NO_CAPACITY:
                    pushed = self._push(distance, 0, node, self.supply[node])
                    self.supply[node] -= pushed
                    total += pushed
        return total

    def _set_distances(self) -> None:
        found = [0] * len(self.edges)
        found[-1] = sum(
            1 << node for node, left in enumerate(self.demand) if left > NO_CAPACITY
        )
        unseen = [self.everything] * len(self.edges)
        self.near = []
        while any(found):
            self.near.append(found)
            unseen = [a & ~b for a, b in zip(unseen, found, strict=True)]
            found = self._find_starts(found, unseen)

    def _find_starts(self, found: list[int], unseen: list[int]) -> list[int]:
        """Returns the unseen nodes with an edge to one of the found nodes."""
        starts = [0] * len(found)
        for layer, nodes in enumerate(found):
            for neighbor, edges in self.edges[layer]:
                if unseen[neighbor]:
                    entering = edges.reverse.entering
                    for node in _bits(nodes):
                        starts[neighbor] |= entering[node]
        return [a & b for a, b in zip(starts, unseen, strict=True)]

    def _push(self, distance: int, layer: int, node: int, amount: float) -> float:
        """Pushes up to `amount` from a node to the sink; returns what arrived."""
        if distance == 0:
            pushed = min(amount, self.demand[node])
            self.demand[node] -= pushed
            if self.demand[node] <= NO_CAPACITY:
                self.near[0][layer] &= ~(1 << node)
            return pushed
        left, nearer = amount, self.near[distance - 1]
        for neighbor, edges in self.edges[layer]:
            residual = edges.residual[node]
            while ends := edges.leaving[node] & nearer[neighbor]:
                # The edge to a node's own successor is the widest in attention maps.
                own = ends >> node & 1
                end = node if own else (ends & -ends).bit_length() - 1
                pushed = self._push(
                    distance - 1, neighbor, end, min(left, residual[end])
                )
                if pushed:
                    edges.shift(node, end, pushed)
                    left -= pushed
                    if left <= NO_CAPACITY:
                        return amount
        self.near[distance][layer] &= ~(1 << node)  # nothing more passes here
        return amount - left


def _bit_sets(rows: np.ndarray) -> list[int]:
    """Returns the set of the positive entries of each row."""
    packed = np.packbits(rows > NO_CAPACITY, axis=-1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def _bits(nodes: int) -> Iterator[int]:
    """Yields the members of a set of nodes, in ascending order."""
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest
