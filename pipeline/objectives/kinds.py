"""Records of each kind of objective, made by the module with the kind's name.

None of the objective modules imports TensorFlow.
"""

from typing import Protocol

from transbeam.configs.schema.objectives.objective import ByKind
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives import (
    causal,
    classification,
    completion,
    contrastive_pairs,
    dialogue,
    image_classification,
    masked,
    multi_label_classification,
    pair_classification,
    pair_regression,
    prefix,
    regression,
    sentence_pairs,
    seq2seq,
    span_corruption,
    span_qa,
    text_to_text,
    token_classification,
)
from transbeam.pipeline.records.features import Feature, Records
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


class RecordMaker(Protocol):
    """Interface of the objective modules, one module per kind."""

    def features(self, run: RunConfig) -> tuple[Feature, ...]:
        """Returns the features of a record; needs neither corpus nor tokenizer."""
        ...

    def make_records(
        self, batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
    ) -> Records:
        """Makes the records of a document part in one split, as a pure function."""
        ...


_MODULES: ByKind[RecordMaker] = {
    "masked": masked,
    "sentence_pairs": sentence_pairs,
    "causal": causal,
    "prefix": prefix,
    "span_corruption": span_corruption,
    "seq2seq": seq2seq,
    "text_to_text": text_to_text,
    "completion": completion,
    "dialogue": dialogue,
    "classification": classification,
    "multi_label_classification": multi_label_classification,
    "pair_classification": pair_classification,
    "regression": regression,
    "pair_regression": pair_regression,
    "token_classification": token_classification,
    "span_qa": span_qa,
    "contrastive_pairs": contrastive_pairs,
    "image_classification": image_classification,
}


def contract(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of the records for a configuration."""
    return _MODULES[run.objective.kind].features(run)


def make_records(
    batch: DocumentBatch,
    tokenizer: Tokenizer,
    run: RunConfig,
    split: Split,
    negatives: DocumentBatch | None = None,
) -> Records:
    """Makes the records of the run's objective from documents.

    Args:
        batch: The documents.
        tokenizer: The run's tokenizer.
        run: The run's configuration.
        split: The split of the documents.
        negatives: Excerpts of other documents, for `next_sentence`, which samples
            negatives from them (`sample_sentences.load_negatives`).
    """
    if negatives is not None:
        return sentence_pairs.make_records(batch, tokenizer, run, split, negatives)
    return _MODULES[run.objective.kind].make_records(batch, tokenizer, run, split)
