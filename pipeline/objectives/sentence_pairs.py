"""Sentence pairs: masked tokens as in `masked`, and a label for the second segment.

A record contains one pair, `[CLS] first segment [SEP] second segment [SEP]`; a segment
has one or more sentences. The second segment is the one that follows the first in the
document or, half of the time, a negative: for `next_sentence` a segment of another
document ([Devlin et al., 2019](https://arxiv.org/abs/1810.04805), A.2), for
`sentence_order` the two segments are swapped ([Lan et al.,
2020](https://arxiv.org/abs/1909.11942), 3.1).

Differences from BERT's own code: the second segment of a negative `next_sentence` pair
never comes from the document of the first segment; a single sentence that remains at
the end of a document is left out, because it could occur only in a negative pair and
would unbalance the labels; and pairs have only as many sentences as fit into a record,
instead of being truncated.
"""

import numpy as np

from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split, input_key
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.labels import token_counts
from transbeam.pipeline.objectives.base.sentence_pair_sampling import (
    SegmentPairs,
    choose_pairs,
)
from transbeam.pipeline.objectives.base.sentences import Sentences, tokenize_sentences
from transbeam.pipeline.objectives.base.special_tokens import needed
from transbeam.pipeline.objectives.masked import Hiding, mask_records, masked_features
from transbeam.pipeline.records.features import DocumentPositions, Feature, Records
from transbeam.pipeline.records.framing import frame_texts
from transbeam.pipeline.records.packing.sequence_packing import Chunks, Packed
from transbeam.pipeline.records.token_rows import (
    Grid,
    segment_feature,
    slice_rows,
    split_rows,
)
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.text_frame import TextFrame

_FRAME = 3  # special tokens: one before the segments and one after each
_LABELS = {
    "next_sentence": "1 if the second segment is from another document, 0 if it "
    "follows the first",
    "sentence_order": "1 if the two segments stand in the wrong order, else 0",
}


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record."""
    assert isinstance(run.objective, SentencePairsConfig)
    length, task = run.data.sequence_length, run.objective.task
    return (
        *masked_features(length, run.objective.predictions_per_record(length)),
        segment_feature(length),
        Feature(f"{task}_label", "int32", (), _LABELS[task]),
    )


def make_records(
    batch: DocumentBatch,
    tokenizer: Tokenizer,
    run: RunConfig,
    split: Split,
    negatives: DocumentBatch | None = None,
) -> Records:
    """Makes positive and negative segment pairs, and masks tokens in the pairs.

    Args:
        batch: The documents.
        tokenizer: The run's tokenizer.
        run: The run's configuration.
        split: The split of the documents.
        negatives: Passages of other documents, with the hashes of these documents as
            keys; given for `next_sentence` if the batch has few documents. In
            `Records.placement` passage i has the row number `len(batch) + i`.
    """
    config, length = run.objective, run.data.sequence_length
    assert isinstance(config, SentencePairsConfig)
    begin, end = needed(tokenizer, run, "begin"), needed(tokenizer, run, "end")
    hiding = Hiding(
        run.seed,
        needed(tokenizer, run, "mask"),
        tokenizer.ordinary_ids,
        tokenizer.starts_word if config.whole_words else None,
    )
    # Any two sentences fit, so that no pair has to be truncated.
    longest = (length - _FRAME) // 2
    own, num_own = batch, len(batch)
    identities = np.array([input_key(t, b"", b"") for t in own.texts()], np.uint64)
    if negatives is not None:
        batch = DocumentBatch.of_batches([own.only(["text"]), negatives.only(["text"])])
        identities = np.concatenate([identities, negatives.keys])
    sentences = tokenize_sentences(batch, tokenizer, config.sentences, longest)
    pairs = choose_pairs(
        sentences,
        batch.keys,
        config,
        seed=run.seed,
        capacity=length - _FRAME,
        identities=identities,
        num_negatives=len(batch) - num_own,
    )
    num_own_tokens = sentences.edges[sentences.first[num_own]]

    everything = split_rows(sentences.ids, np.array([len(sentences.ids)]))
    only_row = np.zeros(len(pairs.labels), np.int64)
    one = slice_rows(everything, only_row, pairs.starts[:, 0], pairs.lengths[:, 0])
    two = slice_rows(everything, only_row, pairs.starts[:, 1], pairs.lengths[:, 1])
    framed = frame_texts(one, two, frame=TextFrame(begin, end, end))
    grid = Grid.from_lengths(framed.lengths, length)
    packed = _packed(grid, framed.ids, pairs, tokenizer.special.pad)
    arrays = mask_records(packed, config, hiding)
    segments = _repeated([0, 1], [one.lengths + 2, two.lengths + 1])
    own_ids = sentences.ids[:num_own_tokens]
    per_document = sentences.per_document[:num_own]
    alone = (per_document == 1).nonzero()[0]
    return Records(
        arrays={
            **arrays,
            "segment_ids": grid.put(segments),
            f"{config.task}_label": pairs.labels,
        },
        placement=_placement(pairs, sentences),
        lengths=framed.lengths,
        counts={
            **token_counts(tokenizer, split_rows(own_ids, np.array([len(own_ids)]))),
            "truncated_tokens": pairs.left_out,
            "padding": grid.padding,
            "predictions": int(arrays["masked_weights"].sum()),
            "empty_documents": int(np.sum(per_document == 0)),
        },
        filtered=[(row, "fewer than two sentences") for row in alone.tolist()],
    )


def _repeated(values: list[int], lengths: list[np.ndarray]) -> np.ndarray:
    """For each row, repeats `values[i]` `lengths[i][row]` times; joins the rows."""
    times = np.stack(lengths, axis=1)
    return np.repeat(np.tile(values, len(times)), times.reshape(-1))


def _packed(grid: Grid, ids: np.ndarray, pairs: SegmentPairs, pad: int) -> Packed:
    """Converts the records to `Packed` with one chunk each, as masking requires."""
    ones = np.ones(len(pairs.keys), np.int64)
    one, two = pairs.lengths[:, 0], pairs.lengths[:, 1]
    is_content = _repeated([0, 1, 0, 1, 0], [ones, one, ones, two, ones])
    return Packed(
        **grid.token_arrays(ids, pad),
        is_content=grid.put(is_content, np.bool_),
        chunks=Chunks(
            starts=pairs.starts[:, 0],
            lengths=grid.lengths,
            keys=pairs.keys,
            offsets=np.zeros_like(ones),
            documents=pairs.documents[:, 0],
        ),
        record=np.arange(len(ones)),
    )


def _placement(pairs: SegmentPairs, sentences: Sentences) -> DocumentPositions:
    """Returns the document and the offset of each of a record's two segments."""
    documents = pairs.documents.reshape(-1)
    starts = sentences.edges[sentences.first[documents]]
    return DocumentPositions(
        np.repeat(np.arange(len(pairs.keys)), 2),
        documents,
        pairs.starts.reshape(-1) - starts,
    )
