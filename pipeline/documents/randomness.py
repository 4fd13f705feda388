"""Counter-based random numbers that depend on their purpose, not on the order of draws.

Every number is a hash of `(seed, stage, document, counter)`. Therefore a document gets
the same numbers on any runner, in any bundle and after any restart, and millions of
numbers can be computed in one vectorized operation.
"""

import hashlib

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def stage_key(seed: int, stage: str) -> int:
    """Returns a 64-bit key for one purpose of one run.

    Example:
    >>> stage_key(0, "masking") == stage_key(0, "masking") != stage_key(1, "masking")
    True
    """
    digest = hashlib.blake2b(f"{seed}/{stage}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def uniform(key: int, documents: np.ndarray, counters: np.ndarray) -> np.ndarray:
    """Returns uniform numbers in [0, 1), one for each pair of document and counter.

    Args:
        key: From `stage_key`.
        documents: uint64, any shape. The documents' 64-bit hashes.
        counters: Integers that broadcast with `documents`, such as token positions.

    Returns:
        float64 of the broadcast shape, with 53 random bits each.
    """
    bits = mix(
        mix(documents.astype(np.uint64) ^ np.uint64(key))
        + (counters.astype(np.uint64) + np.uint64(1)) * GOLDEN
    )
    return to_unit(bits)


def to_unit(bits: np.ndarray) -> np.ndarray:
    """Converts the upper 53 of 64 random bits to float64 in [0, 1).

    Example:
    >>> to_unit(np.array([0, 2**63], np.uint64)).tolist()
    [0.0, 0.5]
    """
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def mix(bits: np.ndarray) -> np.ndarray:
    """Applies SplitMix64's finalizer (Steele, Lea & Flood, 2014) to 64-bit numbers."""
    shifted = bits >> np.uint64(30)
    mixed = bits ^ shifted
    # In place from here on: this runs once for every token of a corpus.
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    shifted = mixed >> np.uint64(27)
    mixed ^= shifted
    mixed *= np.uint64(0x94D049BB133111EB)
    shifted = mixed >> np.uint64(31)
    mixed ^= shifted
    return mixed
