"""Masked language modelling: hide some tokens of each record and ask for them.

Of the asked-for tokens most are shown as `[MASK]`, some as a random piece and the
rest as they are, so that the model may not trust what it sees
([Devlin et al., 2019](https://arxiv.org/abs/1810.04805), 3.1 and appendix A.1).
"""

import numpy as np

from configs.language_modelling import MaskedConfig
from pipeline.packing import Packed
from pipeline.randomness import stage_key, uniform


def mask_records(
    packed: Packed,
    config: MaskedConfig,
    *,
    seed: int,
    mask_id: int,
    ordinary_ids: np.ndarray,
) -> dict[str, np.ndarray]:
    """Chooses and hides tokens; see `pipeline.features.masked_features`.

    In each record `masking_fraction` of the content tokens, rounded, are chosen; at
    least one, and none of `[CLS]`, `[SEP]` and padding. Which ones, and what is shown
    in their place, depends on the seed and on the token's document and place.

    Args:
        packed: The records.
        config: The shares.
        seed: The run's seed.
        mask_id: The id of `[MASK]`.
        ordinary_ids: int32 (V',). The ids a random piece is drawn from.

    Returns:
        The arrays of the record contract, each (records, …).
    """

    def draw(purpose: str) -> np.ndarray:
        key = stage_key(seed, f"masking/{purpose}")
        return uniform(key, packed.keys, packed.counters)

    length = packed.token_ids.shape[1]
    slots = config.predictions_per_record(length)
    content = packed.is_content.sum(axis=1)
    wanted = np.clip(np.rint(content * config.masking_fraction), 1, slots)
    wanted = np.minimum(wanted, content).astype(np.int64)

    # The tokens with the smallest numbers are the chosen ones.
    scores = np.where(packed.is_content, draw("choose"), 2.0)
    candidates = np.argpartition(scores, min(slots, length - 1), axis=1)[:, :slots]
    rank = np.argsort(np.take_along_axis(scores, candidates, axis=1), axis=1)
    candidates = np.take_along_axis(candidates, rank, axis=1)
    used = np.arange(slots) < wanted[:, None]
    positions = np.where(used, candidates, length)  # unused slots sort to the end
    positions.sort(axis=1)
    used = positions < length
    positions = np.where(used, positions, 0)

    asked = np.take_along_axis(packed.token_ids, positions, axis=1)
    show = np.take_along_axis(draw("show"), positions, axis=1)
    piece = np.take_along_axis(draw("piece"), positions, axis=1)
    random_ids = ordinary_ids[(piece * len(ordinary_ids)).astype(np.int64)]
    as_mask = show < config.mask_fraction
    as_random = show < config.mask_fraction + config.random_fraction
    shown = np.select([as_mask, as_random], [mask_id, random_ids], asked)
    token_ids = packed.token_ids.copy()
    row, slot = np.nonzero(used)
    token_ids[row, positions[row, slot]] = shown[row, slot]
    return {
        "token_ids": token_ids,
        "document_ids": packed.document_ids,
        "position_ids": packed.position_ids,
        "masked_positions": positions.astype(np.int32),
        "masked_ids": np.where(used, asked, 0).astype(np.int32),
        "masked_weights": used.astype(np.float32),
    }
