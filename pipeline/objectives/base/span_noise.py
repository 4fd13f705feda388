"""Selects the noise spans of a text for span corruption.

Every token of every text is a noise token with the same probability, however short the
text:

- The number of noise tokens is `noise_density` of the text, rounded up or down at
  random, so that the share is met on average (rounding to at least one would remove a
  third of a text of three tokens).
- Noise spans and spans without noise alternate; this sequence is rotated cyclically by
  a random number of tokens. Without this rotation, as in T5's own code, the first token
  is never noise and the last one always is.
"""

import numpy as np

from transbeam.configs.schema.objectives.language_modeling import SpanCorruptionConfig
from transbeam.pipeline.documents.randomness import GOLDEN, mix, stage_key, uniform
from transbeam.pipeline.records.packing.sequence_packing import Chunks
from transbeam.pipeline.records.token_rows import ranges


def noise_mask(chunks: Chunks, config: SpanCorruptionConfig, seed: int) -> np.ndarray:
    """Returns the noise mask of the concatenated texts, bool (tokens,).

    Args:
        chunks: The texts, none of them empty.
        config: Configuration with the noise density and the mean span length.
        seed: The run's seed.
    """

    def draw(purpose: str) -> np.ndarray:
        return uniform(stage_key(seed, f"noise/{purpose}"), chunks.keys, chunks.offsets)

    tokens = chunks.lengths
    noise = (tokens * config.noise_density + draw("tokens")).astype(np.int64)
    spans = (noise / config.mean_noise_span_length + draw("spans")).astype(np.int64)
    spans = np.clip(spans, 1, np.maximum(np.minimum(noise, tokens - noise), 1))

    # Each text has as many gaps as spans, each gap before its span; one of them is
    # empty if no token or every token is noise.
    lengths = np.empty((spans.sum(), 2), np.int64)
    salt = mix(chunks.keys ^ chunks.offsets.astype(np.uint64))
    lengths[:, 0] = random_parts(
        tokens - noise, spans, salt, stage_key(seed, "noise/gaps")
    )
    lengths[:, 1] = random_parts(noise, spans, salt, stage_key(seed, "noise/lengths"))
    in_circle = np.repeat(np.tile([False, True], len(lengths)), lengths.reshape(-1))

    turn = (draw("turn") * tokens).astype(np.int64)
    place = ranges(tokens) + np.repeat(turn, tokens)
    wrapped = place - np.where(
        place >= np.repeat(tokens, tokens), np.repeat(tokens, tokens), 0
    )
    start = np.cumsum(tokens) - tokens
    return in_circle[np.repeat(start, tokens) + wrapped]


def random_parts(
    totals: np.ndarray, parts: np.ndarray, documents: np.ndarray, key: int
) -> np.ndarray:
    """Splits integers into a given number of positive parts, uniformly at random.

    Args:
        totals: int64 (N,).
        parts: int64 (N,). The number of parts of each integer, from one to the integer
            itself; one if it is 0.
        documents: uint64 (N,). The documents' hashes, which seed the random numbers.
        key: A key from `stage_key`, which also seeds the random numbers.

    Returns:
        int64 (sum of `parts`,). The sizes of the parts: those of the first integer, of
        the second, …

    Example:
    >>> one = np.ones(1, np.uint64)
    >>> int(random_parts(np.array([9]), np.array([4]), one, 0).sum())
    9
    """
    # A total is a row of units, each of which may begin a part: the first one does, and
    # of the others those with the smallest random numbers.
    owner = np.repeat(np.arange(len(totals)), totals)
    unit = ranges(totals)
    unit_bits = int(totals.max(initial=1)).bit_length()
    owner_bits = len(totals).bit_length()
    draws = mix(
        mix(documents ^ np.uint64(key))[owner] + unit.astype(np.uint64) * GOLDEN
    )
    draws[unit == 0] = 0
    # Sorted by owner, then by random bits; each number contains its unit.
    order = (draws >> np.uint64(owner_bits + unit_bits)) << np.uint64(unit_bits)
    order |= unit.astype(np.uint64)
    order |= owner.astype(np.uint64) << np.uint64(64 - owner_bits)
    order.sort()
    begins = (order & np.uint64(2**unit_bits - 1)).astype(np.int64)
    begins += np.repeat(np.cumsum(totals) - totals, totals)
    begins = begins[unit < np.repeat(parts, totals)]
    is_begin = np.zeros(len(unit), np.bool_)
    is_begin[begins] = True
    lengths = np.diff(np.flatnonzero(np.append(is_begin, True)))
    found = np.zeros(parts.sum(), np.int64)
    found[np.repeat(totals > 0, parts)] = lengths
    return found
