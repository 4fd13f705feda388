"""Prunes JSON that is nested more deeply than Python's parser supports.

TF Serving parses JSON of any depth, for example below an ignored key. Python's parser
fails after some hundreds of levels. Values below that depth cannot be part of a tensor,
so pruning them loses nothing.
"""

import numpy as np

# In ASCII, brackets and braces differ in one bit.
_BIT, _OPENING, _CLOSING, _QUOTE = 0x20, ord("{"), ord("}"), ord('"')


def prune_deep(body: bytes, most: int) -> bytes | None:
    r"""Replaces lists and objects below a nesting level by `null`.

    The function is not recursive; its time and memory are linear in the body's length.

    Args:
        body: JSON text.
        most: Number of levels to keep.

    Returns:
        The pruned body, or None if brackets are not balanced.

    Example:
    >>> prune_deep(b'{"a": [[1], "[["], "b": [2]}', 2)
    b'{"a": [null, "[["], "b": [2]}'
    """
    # Escaped quotes do not end a string; escaped backslashes do not escape a quote.
    plain = body.replace(rb"\\", b"__").replace(rb"\"", b"__")
    codes = np.frombuffer(plain, np.uint8)
    # The sums overflow at 256, an even number, which keeps their parity.
    outside = np.cumsum(codes == _QUOTE, dtype=np.uint8) % 2 == 0
    opening = (codes | _BIT == _OPENING) & outside
    closing = (codes | _BIT == _CLOSING) & outside
    levels = np.cumsum(opening.view(np.int8) - closing.view(np.int8), dtype=np.int32)
    starts = np.flatnonzero((levels == most + 1) & opening)
    ends = np.flatnonzero((levels == most) & closing) + 1
    if len(starts) != len(ends) or np.any(ends < starts):
        return None
    kept_from, kept_to = [0, *ends.tolist()], [*starts.tolist(), len(body)]
    return b"null".join(
        body[start:end] for start, end in zip(kept_from, kept_to, strict=True)
    )
