"""One seed for a whole model, split by name."""

import hashlib


def derive_seed(seed: int | None, *names: str) -> int | None:
    """Gives each named part of a model its own seed.

    Two layers of one shape that share a seed start with equal weights and drop
    the same units. Seeds that come from names rather than from a counter also
    stay put when a part is added elsewhere.

    Args:
        seed: Seed of the whole, or None for a different model each time.
        names: Where the part stands, from the outside in.

    Returns:
        An int in `[0, 2**31)`, the same in every process; None when `seed` is.

    Example:
    >>> derive_seed(17, "encoder_layer_0", "query")
    1133917908
    """
    if seed is None:
        return None
    digest = hashlib.blake2b("/".join((str(seed), *names)).encode(), digest_size=4)
    return int.from_bytes(digest.digest(), "little") & 0x7FFF_FFFF
