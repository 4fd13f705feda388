"""Token classification: a tag per word, predicted at the word's first piece.

    token_ids      [CLS] Ber ##lin is big [SEP]
    label_ids        0    3    0    1  1    0
    label_weights    0    1    0    1  1    0

A sentence that is too long for a record is split between two words and continued in the
next record, so that no tag is lost.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from transbeam.configs.schema.objectives.supervised import TokenClassificationConfig
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
from transbeam.pipeline.records.features import Feature, Placement, Records
from transbeam.pipeline.records.token_rows import (
    Grid,
    beside,
    ranges,
    split_rows,
    stretches,
    token_features,
    tokenize_words,
)
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record."""
    assert isinstance(run.objective, TokenClassificationConfig)
    length = run.data.sequence_length
    labels = list(run.objective.labels)
    return (
        *token_features(length),
        Feature("label_ids", "int32", (length,), f"the tag: a place in {labels}"),
        Feature("label_weights", "float32", (length,), "1 where a tag is asked for"),
    )


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Makes one or more records per sentence, in the order of the documents' keys."""
    assert isinstance(run.objective, TokenClassificationConfig)
    config, length = run.objective, run.data.sequence_length
    begin = needed(tokenizer, run, "begin")
    end = needed(tokenizer, run, "end")
    reasons = _reasons_against(batch, config.labels)
    rows = usable_rows(batch, reasons)
    usable = batch.take(rows)
    sentences = usable.values("words")
    words = tokenize_words(sentences, tokenizer, run)

    # A word that is longer than a record has one of its own and is truncated.
    kept = np.minimum(words.lengths, length - 2)
    pieces = stretches(words, np.arange(len(kept)), 0, kept)
    per_sentence = np.array([len(sentence) for sentence in sentences], np.int64)
    cuts = _cut_between_words(per_sentence, kept, length - 2)
    tags = np.repeat(_tag_ids(usable, config.labels), kept)
    asked = (ranges(kept) == 0) | config.all_pieces

    framed = beside(begin, split_rows(pieces.ids, cuts.lengths), end)
    framed_tags = beside(0, split_rows(tags * asked, cuts.lengths), 0)
    framed_asked = beside(0, split_rows(asked, cuts.lengths), 0)
    grid = Grid.from_lengths(framed.lengths, length)
    return Records(
        arrays={
            **grid.token_arrays(framed.ids, tokenizer.special.pad),
            "label_ids": grid.put(framed_tags.ids),
            "label_weights": grid.put(framed_asked.ids, np.float32),
        },
        placement=Placement(
            np.arange(len(cuts.lengths)), rows[cuts.sentences], cuts.starts
        ),
        lengths=framed.lengths,
        counts={
            **token_counts(tokenizer, pieces),
            "predictions": int(asked.sum()),
            "cut_documents": len(np.unique(cuts.sentences[cuts.starts > 0])),
            "truncated_tokens": len(words.ids) - len(pieces.ids),
            "padding": grid.padding,
        },
        rejected=rejected_rows(reasons),
    )


def _reasons_against(batch: DocumentBatch, labels: tuple[str, ...]) -> list[str | None]:
    reasons = reasons_against(batch, ["words", "tags"])
    tagged = zip(batch.values("words"), batch.values("tags"), strict=True)
    for row, (words, tags) in enumerate(tagged):
        unknown = next((tag for tag in tags if tag not in labels), None)
        if reasons[row] is None and len(words) != len(tags):
            reasons[row] = "not as many tags as words"
        elif reasons[row] is None and unknown is not None:
            reasons[row] = (
                f"tag {unknown!r} is not one of the configured labels "
                f"({', '.join(labels)})"
            )
    return reasons


def _tag_ids(batch: DocumentBatch, labels: tuple[str, ...]) -> np.ndarray:
    """Returns the tag ids of the words of all sentences, concatenated, int32."""
    places = {label: place for place, label in enumerate(labels)}
    return np.array([places[t] for tags in batch.values("tags") for t in tags], "i4")


@dataclass(frozen=True)
class _Cuts:
    """Parts of sentences, each at most a record long; all arrays (N,).

    Attributes:
        sentences: int64. The sentence of each part.
        starts: int64. The part's first token within the sentence.
        lengths: int64. The part's number of tokens.
    """

    sentences: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray


def _cut_between_words(
    per_sentence: np.ndarray, word_lengths: np.ndarray, most: int
) -> _Cuts:
    """Splits each sentence into parts as long as possible, between words."""
    word_ends = np.cumsum(word_lengths)
    edges = np.concatenate([[0], word_ends])[np.cumsum([0, *per_sentence])]
    found: list[tuple[int, int, int]] = []
    for sentence, (start, end) in enumerate(pairwise(edges.tolist())):
        at = start
        while end - at > most:
            last = np.searchsorted(word_ends, at + most, side="right") - 1
            cut = int(word_ends[last])
            found.append((sentence, at - start, cut - at))
            at = cut
        found.append((sentence, at - start, end - at))
    return _Cuts(*np.array(found, np.int64).reshape(-1, 3).T)
