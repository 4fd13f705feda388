"""Text to text: the record layout of `seq2seq`, with texts from templates.

A prefix such as "summarize: " specifies the task for the model ([Raffel et al.,
2020](https://arxiv.org/abs/1910.10683), 2.4).
"""

from transbeam.configs.schema.objectives.supervised import TextToTextConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.labels import usable_rows
from transbeam.pipeline.objectives.base.text_templates import (
    filled,
    reasons_against_texts,
)
from transbeam.pipeline.objectives.seq2seq import TextPairs, pair_features, pair_records
from transbeam.pipeline.records.features import Feature, Records
from transbeam.pipeline.records.token_rows import tokenize_texts
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record, those of `seq2seq`."""
    assert isinstance(run.objective, TextToTextConfig)
    return pair_features(run.data.sequence_length, run.objective.decoder_length)


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Makes records of pairs as `seq2seq` does."""
    assert isinstance(run.objective, TextToTextConfig)
    config = run.objective
    reasons = reasons_against_texts(batch, config)
    rows = usable_rows(batch, reasons)
    usable = batch.take(rows)
    pairs = TextPairs(
        rows,
        batch.keys[rows],
        tokenize_texts(filled(usable, config.source), tokenizer),
        tokenize_texts(filled(usable, config.target), tokenizer),
    )
    return pair_records(pairs, reasons, tokenizer, run, config)
