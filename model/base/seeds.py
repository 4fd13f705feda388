"""Derives the seeds of a model's parts from one seed, by name."""

import hashlib


def derive_seed(seed: int | None, *names: str) -> int | None:
    """Derives the seed of a named part of a model.

    Two layers of one shape with the same seed would start with equal weights and drop
    the same units. Seeds from names, unlike those from a counter, do not change when a
    part is added elsewhere.

    Args:
        seed: Seed of the model, or None for a different model each time.
        names: The path of the part, outermost name first.

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
