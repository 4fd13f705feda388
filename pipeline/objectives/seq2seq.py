"""Sequence to sequence: the encoder reads a source, the decoder generates the target.

    encoder_token_ids  a b c [END]    p q [END]
    decoder_token_ids  [GO] x y       [GO] u v w
    target_ids         x y [END]      u v w [END]

The decoder's input is the target shifted right by one position ([Vaswani et al.,
2017](https://arxiv.org/abs/1706.03762), 3.1). `[GO]` is the begin token or, if the
tokenizer has none, padding, as in T5.
"""

from dataclasses import dataclass

import numpy as np

from transbeam.configs.schema.objectives.supervised import (
    Seq2SeqConfig,
    TextToTextConfig,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.labels import (
    reasons_against,
    rejected_rows,
    token_counts,
    usable_rows,
)
from transbeam.pipeline.objectives.base.special_tokens import needed
from transbeam.pipeline.records.features import DocumentPositions, Feature, Records
from transbeam.pipeline.records.packing.pair_packing import pack_pairs
from transbeam.pipeline.records.token_rows import (
    Grid,
    TokenRows,
    join_rows,
    slice_rows,
    token_features,
    tokenize_column,
)
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record."""
    assert isinstance(run.objective, Seq2SeqConfig)
    return pair_features(run.data.sequence_length, run.objective.decoder_length)


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Makes records of one or more pairs, sorted by the key of the first pair."""
    assert isinstance(run.objective, Seq2SeqConfig)
    reasons = reasons_against(batch, ["text", "target_text"])
    rows = usable_rows(batch, reasons)
    usable = batch.take(rows)
    pairs = TextPairs(
        rows,
        batch.keys[rows],
        tokenize_column(usable, tokenizer),
        tokenize_column(usable, tokenizer, "target_text"),
    )
    return pair_records(pairs, reasons, tokenizer, run, run.objective)


@dataclass(frozen=True)
class TextPairs:
    """Tokenized source and target texts, in the order of the documents' keys.

    Attributes:
        documents: int64 (N,). The row of each pair's document in the batch.
        keys: uint64 (N,).
        sources: The ids of the source texts, N rows.
        targets: The ids of the target texts, N rows.
    """

    documents: np.ndarray
    keys: np.ndarray
    sources: TokenRows
    targets: TokenRows

    def cut(self, which: np.ndarray, source: int, target: int) -> "TextPairs":
        """Selects pairs by index; truncates their sources and targets."""

        def sides(rows: TokenRows, most: int) -> TokenRows:
            return slice_rows(rows, which, 0, np.minimum(rows.lengths[which], most))

        return TextPairs(
            self.documents[which],
            self.keys[which],
            sides(self.sources, source),
            sides(self.targets, target),
        )


def pair_features(encoder_length: int, decoder_length: int) -> tuple[Feature, ...]:
    """Returns the features of a record with source and target."""
    shape = (decoder_length,)
    return (
        *token_features(encoder_length, "encoder_"),
        *token_features(decoder_length, "decoder_"),
        Feature("target_ids", "int32", shape, "the tokens that the decoder predicts"),
        Feature(
            "target_weights", "float32", shape, "1 where there is a target, else 0"
        ),
    )


def pair_records(
    pairs: TextPairs,
    reasons: list[str | None],
    tokenizer: Tokenizer,
    run: RunConfig,
    config: Seq2SeqConfig | TextToTextConfig,
) -> Records:
    """Makes records of pairs.

    Args:
        pairs: The pairs. Pairs whose source or target has no token are left out and
            counted.
        reasons: For each document of the batch, the reason why the document cannot be
            used, or None; the function adds the reasons for pairs that are too long.
        tokenizer: The tokenizer, for the special tokens.
        run: The run's configuration, for the encoder's length.
        config: Configuration with the decoder's length and the rules for packing and
            long pairs.
    """
    lengths = run.data.sequence_length, config.decoder_length
    source_over = pairs.sources.lengths > lengths[0] - 1
    target_over = pairs.targets.lengths > lengths[1] - 1
    if config.too_long == "drop":
        for row in pairs.documents[source_over]:
            reasons[row] = "source longer than data.sequence_length"
        for row in pairs.documents[target_over & ~source_over]:
            reasons[row] = "target longer than objective.decoder_length"
    kept = np.array([reasons[row] is None for row in pairs.documents], np.bool_)
    filled = (pairs.sources.lengths > 0) & (pairs.targets.lengths > 0)
    used = np.flatnonzero(kept & filled)
    whole_tokens = np.sum(pairs.sources.lengths[used] + pairs.targets.lengths[used])
    pairs = pairs.cut(used, lengths[0] - 1, lengths[1] - 1)

    order, record = _arranged(pairs, lengths, packed=config.packed)
    pairs = pairs.cut(order, *lengths)
    sides = pairs.sources, pairs.targets
    framed = frame_pairs(*sides, record, lengths, tokenizer, run)
    return Records(
        arrays=framed.arrays,
        placement=DocumentPositions(
            record, pairs.documents, np.zeros(len(record), np.int64)
        ),
        lengths=framed.lengths,
        counts={
            **token_counts(tokenizer, *sides),
            "truncated_documents": int(np.sum((source_over | target_over)[used])),
            "truncated_tokens": int(
                whole_tokens - len(pairs.sources.ids) - len(pairs.targets.ids)
            ),
            **framed.padding,
            "empty_documents": int(np.sum(kept & ~filled)),
        },
        rejected=rejected_rows(reasons),
    )


@dataclass(frozen=True)
class FramedPairs:
    """Records of source and target texts with their special tokens.

    Attributes:
        arrays: Those of `pair_features`.
        lengths: int64 (records,). The number of tokens of each record, in encoder and
            decoder together.
        padding: The numbers of padding tokens in total, in the encoder and in the
            decoder, by name.
    """

    arrays: dict[str, np.ndarray]
    lengths: np.ndarray
    padding: dict[str, int]


def frame_pairs(
    sources: TokenRows,
    targets: TokenRows,
    record: np.ndarray,
    lengths: tuple[int, int],
    tokenizer: Tokenizer,
    run: RunConfig,
) -> FramedPairs:
    """Adds special tokens to source and target texts, and puts them into records.

    Args:
        sources: The token ids of the N source texts.
        targets: The token ids of the N target texts.
        record: int (N,), ascending. The index of each pair's record.
        lengths: Tokens per record, of the encoder and of the decoder.
        tokenizer: The tokenizer, for its special tokens.
        run: The configuration, for the message if a special token is missing.
    """
    end, special = needed(tokenizer, run, "end"), tokenizer.special
    pad = special.pad
    encoder = join_rows(sources, end)
    decoder = join_rows(special.decoder_begin, targets)
    encoder_grid = Grid.from_lengths(encoder.lengths, lengths[0], record)
    decoder_grid = Grid.from_lengths(decoder.lengths, lengths[1], record)
    return FramedPairs(
        arrays={
            **encoder_grid.token_arrays(encoder.ids, pad, "encoder_"),
            **decoder_grid.token_arrays(decoder.ids, pad, "decoder_"),
            "target_ids": decoder_grid.put(join_rows(targets, end).ids, fill=pad),
            "target_weights": decoder_grid.put(1.0, np.float32),
        },
        lengths=np.bincount(record, encoder.lengths + decoder.lengths).astype(np.int64),
        padding={
            "padding": encoder_grid.padding + decoder_grid.padding,
            "encoder_padding": encoder_grid.padding,
            "decoder_padding": decoder_grid.padding,
        },
    )


def _arranged(
    pairs: TextPairs, lengths: tuple[int, int], *, packed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Returns pair indices in record order, and the record of each of these pairs."""
    count = len(pairs.documents)
    if not packed:
        return np.arange(count), np.arange(count)
    framed = pairs.sources.lengths + 1, pairs.targets.lengths + 1
    records = pack_pairs(*framed, lengths)
    # The packing begins with the longest pairs: sorting by hash shuffles the records.
    records.sort(key=lambda record: int(pairs.keys[record[0]]))
    order = np.array([pair for record in records for pair in record], np.int64)
    sizes = np.array([len(record) for record in records], np.int64)
    return order, np.repeat(np.arange(len(records)), sizes)
