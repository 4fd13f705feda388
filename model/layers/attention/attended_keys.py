"""The pairs of a query and a key to which attention probabilities belong.

Each kind of attention arranges its probabilities in its own way. Reductions over the
keys, such as the mean distance of a head, need to know the arrangement. So attention
passes a function that makes one of these descriptions along with its probabilities; the
function is called only if somebody reads them.

Shapes: `B` batch, `H` heads, `T` queries, `S` keys; for blockwise kinds, `N` blocks of
`Q` queries.
"""

from typing import Any, NamedTuple


class RowKeys(NamedTuple):
    """Probabilities `(B, H, T, S)` of all queries and all keys of a row, in order.

    Attributes:
        visible: bool, broadcastable to `(B, H, T, S)`: the keys to which a query may
            attend. False for all keys of a query that is padding.
    """

    visible: Any


class BlockKeys(NamedTuple):
    """Probabilities `(N, B, H, Q, S)` of blocks of queries, or of blocks of keys.

    A query may be in several blocks, each with other keys.

    Attributes:
        visible: bool, broadcastable to `(N, B, H, Q, S)`: as in `RowKeys`; also False
            for all keys of a query whose probabilities have no meaning here, since it
            attends by other ones.
        query_index: int32 `(N, B, Q)`, the queries' indices in the row.
        key_index: int32, broadcastable to `(N, B, H, S)`, the keys' indices in the row.
            Indices outside of the row belong to invisible keys and queries.
        length: `T`, the length of the row.
    """

    visible: Any
    query_index: Any
    key_index: Any
    length: Any


class ProjectedKeys(NamedTuple):
    """Probabilities `(B, H, T, S)` of keys that are projections of the whole text.

    Attributes:
        visible: As in `RowKeys`.
    """

    visible: Any


AttendedKeys = RowKeys | BlockKeys | ProjectedKeys
