"""Masked language modeling: masks some tokens of each record as targets.

Most of the target tokens are replaced by `[MASK]`, some by a random piece, and the rest
are unchanged, so that the model cannot rely on its inputs ([Devlin et al.,
2019](https://arxiv.org/abs/1810.04805), 3.1 and appendix A.1).
"""

from dataclasses import dataclass

import numpy as np

from transbeam.configs.schema.objectives.language_modeling import (
    MaskedConfig,
    MaskingConfig,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.documents.randomness import stage_key, to_unit
from transbeam.pipeline.objectives.base.labels import token_counts
from transbeam.pipeline.objectives.base.mask_selection import (
    TokenBits,
    first_columns,
    join_words,
    mask_counts,
    random_order,
    select_units,
    word_ids,
)
from transbeam.pipeline.objectives.base.special_tokens import needed
from transbeam.pipeline.records.features import DocumentPositions, Feature, Records
from transbeam.pipeline.records.packing.sequence_packing import (
    Packed,
    pack_documents,
    row_blocks,
)
from transbeam.pipeline.records.token_rows import token_features, tokenize_column
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record; without targets if masking is dynamic."""
    assert isinstance(run.objective, MaskedConfig)
    length = run.data.sequence_length
    if run.objective.masking == "dynamic":
        words = "number of the token's word in the record, from 1; 0 is never masked"
        return (
            *token_features(length),
            Feature("word_ids", "int32", (length,), words),
        )
    return masked_features(length, run.objective.predictions_per_record(length))


def masked_features(
    sequence_length: int, predictions_per_record: int
) -> tuple[Feature, ...]:
    """Returns the features of records with masked tokens.

    Example:
    >>> [feature.name for feature in masked_features(128, 20)][3:]
    ['masked_positions', 'masked_ids', 'masked_weights']
    """
    shape = (predictions_per_record,)
    return (
        *token_features(sequence_length),
        Feature(
            "masked_positions",
            "int32",
            shape,
            "indices of the masked tokens, ascending; 0 in unused slots",
        ),
        Feature("masked_ids", "int32", shape, "the original ids of the masked tokens"),
        Feature("masked_weights", "float32", shape, "1 for a slot in use, else 0"),
    )


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Packs documents and masks tokens, or leaves the masking to the trainer."""
    assert isinstance(run.objective, MaskedConfig)
    mask_id = needed(tokenizer, run, "mask")
    special, length = tokenizer.special, run.data.sequence_length
    rows = tokenize_column(batch, tokenizer)
    packed = pack_documents(rows, batch.keys, run, special)
    placement, lengths = packed.placement, packed.lengths
    starts_word = tokenizer.starts_word if run.objective.whole_words else None
    if run.objective.masking == "dynamic":
        arrays = {
            "token_ids": packed.token_ids,
            "document_ids": packed.document_ids,
            "position_ids": packed.position_ids,
            "word_ids": word_ids(packed, slice(None), starts_word),
        }
    else:
        copies = run.objective.copies if split == "train" else 1
        made = [
            mask_records(
                packed,
                run.objective,
                Hiding(run.seed, mask_id, tokenizer.ordinary_ids, starts_word, copy),
            )
            for copy in range(copies)
        ]
        arrays = made[0]
        if copies > 1:
            arrays = {name: np.concatenate([m[name] for m in made]) for name in arrays}
            placement = _repeated(placement, len(packed), copies)
            lengths = np.tile(lengths, copies)
    counts = {
        **token_counts(tokenizer, rows),
        "padding": int(np.sum(length - lengths)),
        "empty_documents": int(np.sum(rows.lengths == 0)),
    }
    if "masked_weights" in arrays:
        counts["predictions"] = int(arrays["masked_weights"].sum())
    return Records(arrays, placement, lengths, counts)


def _repeated(
    placement: DocumentPositions, records: int, copies: int
) -> DocumentPositions:
    copy = np.repeat(np.arange(copies), len(placement.record))
    return DocumentPositions(
        np.tile(placement.record, copies) + copy * records,
        np.tile(placement.document, copies),
        np.tile(placement.offset, copies),
    )


@dataclass(frozen=True, eq=False)
class Hiding:
    """The inputs of masking besides its configuration.

    Attributes:
        seed: The run's seed.
        mask_id: The id of `[MASK]`.
        ordinary_ids: int32 (V',). The ids from which a random replacement piece is
            drawn.
        starts_word: bool (V,). For each piece of the vocabulary, whether it begins a
            new word; None if all do.
        copy: Index of the copy of the records; different tokens are masked in each
            copy.
    """

    seed: int
    mask_id: int
    ordinary_ids: np.ndarray
    starts_word: np.ndarray | None = None
    copy: int = 0

    def key(self, purpose: str) -> int:
        """Returns the key of the random numbers for one purpose."""
        return stage_key(self.seed, f"masking/{self.copy}/{purpose}")


def mask_records(
    packed: Packed, config: MaskingConfig, hiding: Hiding
) -> dict[str, np.ndarray]:
    """Selects and masks tokens.

    In each record `masking_fraction` of the content tokens, rounded, are selected; at
    least one, and no special tokens or padding. The selection and the replacements
    depend on the seed, the copy, and on the token's document and position.

    Returns:
        The arrays of `masked_features`, each (records, …).
    """
    records, length = packed.token_ids.shape
    slots = config.predictions_per_record(length)
    hidden = packed.token_ids.copy()
    positions = np.zeros((records, slots), np.int32)
    asked = np.zeros((records, slots), np.int32)
    weights = np.zeros((records, slots), np.float32)
    choosing = _Choosing(packed, config, hiding, slots)
    showing = TokenBits(packed, hiding.key("show"))
    for rows in row_blocks(records, length):
        columns = choosing.columns(rows)
        used = columns < length
        columns[~used] = 0
        real = np.take_along_axis(packed.token_ids[rows], columns, axis=1)
        shown = _shown(real, showing.select(rows, columns), config, hiding)
        positions[rows] = columns
        asked[rows] = real * used
        weights[rows] = used
        cells = columns + np.arange(len(columns))[:, np.newaxis] * length
        hidden[rows].reshape(-1)[cells[used]] = shown[used]
    return {
        "token_ids": hidden,
        "document_ids": packed.document_ids,
        "position_ids": packed.position_ids,
        "masked_positions": positions,
        "masked_ids": asked,
        "masked_weights": weights,
    }


def _shown(
    real: np.ndarray, bits: np.ndarray, config: MaskingConfig, hiding: Hiding
) -> np.ndarray:
    """Returns the replacements of the target tokens, int32."""
    # One half of the bits selects the kind of replacement, the other the random piece.
    draw = (bits >> np.uint64(32)).astype(np.float64) * 2.0**-32
    pieces = np.uint64(len(hiding.ordinary_ids))
    piece = ((bits & np.uint64(2**32 - 1)) * pieces) >> np.uint64(32)
    random_ids = hiding.ordinary_ids[piece.astype(np.int64)]
    as_random = draw < config.mask_fraction + config.random_fraction
    shown = np.where(as_random, random_ids, real)
    return np.where(draw < config.mask_fraction, np.int32(hiding.mask_id), shown)


class _Choosing:
    """Selects the tokens to mask, one block of records at a time."""

    def __init__(
        self, packed: Packed, config: MaskingConfig, hiding: Hiding, slots: int
    ) -> None:
        self._packed, self._config, self._slots = packed, config, slots
        self._starts_word = hiding.starts_word
        self._choose = TokenBits(packed, hiding.key("choose"))
        self._join = TokenBits(packed, hiding.key("ngram"))

    def columns(self, rows: slice) -> np.ndarray:
        """Returns the result of `mask_selection.choose`, int64 (rows, slots)."""
        packed, config = self._packed, self._config
        content = np.count_nonzero(packed.is_content[rows], axis=1)
        wanted = mask_counts(content, config.masking_fraction, self._slots)
        bits = self._choose.select(rows)
        if config.ngram == 1 and self._starts_word is None:
            order = random_order(packed.is_content[rows], bits)
            return first_columns(order, wanted, self._slots)
        units = word_ids(packed, rows, self._starts_word)
        if config.ngram > 1:
            draws = to_unit(self._join.select(rows))
            units = join_words(units, packed.document_ids[rows], draws, config.ngram)
        return select_units(units, bits, wanted, self._slots)
