"""Records of pre-split words, with a target for each word at its first token.

    token_ids      [CLS] Ber ##lin is big [SEP]
    label_ids        0    3    0    1  1    0
    label_weights    0    1    0    1  1    0

A decoder's records have no `[SEP]`, and `[CLS]` only if the tokenizer has a begin token
of its own. A decoder's token sees only the tokens before it: not the next words, and
not the further pieces of its own word.

A sentence that is too long for a record is split between two words and continued in the
next record, so that no target is lost.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.labels import (
    reasons_against,
    rejected_rows,
    token_counts,
    usable_rows,
)
from transbeam.pipeline.objectives.base.special_tokens import check_special
from transbeam.pipeline.records.features import DocumentPositions, Feature, Records
from transbeam.pipeline.records.framing import frame_texts
from transbeam.pipeline.records.token_rows import (
    Grid,
    ranges,
    slice_rows,
    split_rows,
    token_features,
    tokenize_words,
)
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.text_frame import TextFrame, frame_of_run


@dataclass(frozen=True)
class WordTargets:
    """The targets of W words.

    Attributes:
        values: (W,). The target of each word.
        known: bool (W,). Whether each word has a target.
        all_pieces: Whether every token of a word has the word's target, not only the
            first token.
    """

    values: np.ndarray
    known: np.ndarray
    all_pieces: bool = False


def word_features(run: RunConfig, target: Feature) -> tuple[Feature, ...]:
    """Returns the features of a record whose words have targets."""
    length = run.data.sequence_length
    weights = Feature(
        "label_weights", "float32", (length,), "1 where a tag is predicted"
    )
    return *token_features(length), target, weights


def reasons_against_tags(
    batch: DocumentBatch, reason_against: Callable[[str], str | None]
) -> list[str | None]:
    """Returns the reason why each document cannot be used; None if it can be.

    Args:
        batch: The documents, with the columns `words` and `tags`.
        reason_against: Returns the reason why a tag is invalid, or None.
    """
    reasons = reasons_against(batch, ["words", "tags"])
    tagged = zip(batch.values("words"), batch.values("tags"), strict=True)
    for row, (words, tags) in enumerate(tagged):
        if reasons[row] is None and len(words) != len(tags):
            reasons[row] = "not as many tags as words"
        elif reasons[row] is None:
            reasons[row] = next(filter(None, map(reason_against, tags)), None)
    return reasons


def word_records(
    batch: DocumentBatch,
    tokenizer: Tokenizer,
    run: RunConfig,
    reasons: Sequence[str | None],
    name: str,
    targets: Callable[[list[str]], WordTargets],
) -> Records:
    """Makes one or more records per sentence, in the order of the documents' keys.

    Args:
        batch: The documents.
        tokenizer: The run's tokenizer.
        run: The configuration of a run whose records have words.
        reasons: For each document, the reason why it cannot be used; None if it can be.
        name: Name of the feature with the targets.
        targets: Maps the tags of all words of usable documents to their targets.
    """
    length = run.data.sequence_length
    check_special(tokenizer.special, run)
    frame = frame_of_run(run, tokenizer.special)
    room = length - frame.size()
    rows = usable_rows(batch, reasons)
    usable = batch.take(rows)
    sentences = usable.values("words")
    words = tokenize_words(sentences, tokenizer, run)

    # A word that is longer than a record has one of its own and is truncated.
    kept = np.minimum(words.lengths, room)
    pieces = slice_rows(words, np.arange(len(kept)), 0, kept)
    per_sentence = np.array([len(sentence) for sentence in sentences], np.int64)
    cuts = _cut_between_words(per_sentence, kept, room)
    found = targets([tag for tags in usable.values("tags") for tag in tags])
    is_target = (ranges(kept) == 0) | found.all_pieces
    is_target &= np.repeat(found.known, kept)
    values = np.where(is_target, np.repeat(found.values, kept), 0)

    framed = frame_texts(split_rows(pieces.ids, cuts.lengths), frame=frame)
    # The index among all pieces; the special tokens have that of the appended 0.
    index = split_rows(np.arange(len(pieces.ids)), cuts.lengths)
    nowhere = TextFrame(*(None if token is None else -1 for token in frame))
    framed_index = frame_texts(index, frame=nowhere).ids
    framed_values = np.append(values, 0)[framed_index]
    framed_weights = np.append(is_target, 0)[framed_index]
    grid = Grid.from_lengths(framed.lengths, length)
    return Records(
        arrays={
            **grid.token_arrays(framed.ids, tokenizer.special.pad),
            name: grid.put(framed_values, found.values.dtype.type),
            "label_weights": grid.put(framed_weights, np.float32),
        },
        placement=DocumentPositions(
            np.arange(len(cuts.lengths)), rows[cuts.sentences], cuts.starts
        ),
        lengths=framed.lengths,
        counts={
            **token_counts(tokenizer, pieces),
            "predictions": int(is_target.sum()),
            "cut_documents": len(np.unique(cuts.sentences[cuts.starts > 0])),
            "truncated_tokens": len(words.ids) - len(pieces.ids),
            "padding": grid.padding,
        },
        rejected=rejected_rows(reasons),
    )


@dataclass(frozen=True)
class _Cuts:
    """Parts of sentences, each at most a record long; all arrays (N,).

    Attributes:
        sentences: int64. The index of the sentence that each part belongs to.
        starts: int64. The index in the sentence of the part's first token.
        lengths: int64. The part's number of tokens.
    """

    sentences: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray


def _cut_between_words(
    per_sentence: np.ndarray, word_lengths: np.ndarray, most: int
) -> _Cuts:
    """Splits sentences between words into parts that are as long as a record allows."""
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
