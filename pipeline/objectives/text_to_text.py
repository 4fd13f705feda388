"""Text to text: the record layout of `seq2seq`, with texts from templates.

A prefix such as "summarize: " specifies the task for the model ([Raffel et al.,
2020](https://arxiv.org/abs/1910.10683), 2.4).
"""

from itertools import repeat

from transbeam.configs.base.templates import template_parts
from transbeam.configs.schema.objectives.supervised import TextToTextConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.labels import reasons_against, usable_rows
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
    reasons = _reasons_against(batch, config)
    rows = usable_rows(batch, reasons)
    usable = batch.take(rows)
    pairs = TextPairs(
        rows,
        batch.keys[rows],
        tokenize_texts(filled(usable, config.source), tokenizer),
        tokenize_texts(filled(usable, config.target), tokenizer),
    )
    return pair_records(pairs, reasons, tokenizer, run, config)


def usable_texts(batch: DocumentBatch, config: TextToTextConfig) -> list[list[bytes]]:
    """Returns the source and target texts of every usable document.

    Example:
    >>> from transbeam.pipeline.documents.document import Document
    >>> batch = DocumentBatch.from_documents(
    ...     [Document("so", "a.txt", 0, label="good"), Document("no label", "a.txt", 9)]
    ... )
    >>> usable_texts(batch, TextToTextConfig(source="mood: {text}", target="{label}"))
    [[b'mood: so'], [b'good']]
    """
    usable = batch.take(usable_rows(batch, _reasons_against(batch, config)))
    return [filled(usable, template) for template in (config.source, config.target)]


def _reasons_against(
    batch: DocumentBatch, config: TextToTextConfig
) -> list[str | None]:
    parts = template_parts(config.source) + template_parts(config.target)
    return reasons_against(batch, [field for _, field in parts if field])


def filled(batch: DocumentBatch, template: str) -> list[bytes]:
    """Fills a template with the fields of each document; returns UTF-8.

    Example:
    >>> from transbeam.pipeline.documents.document import Document
    >>> document = Document("a text", "a.txt", 0, label="good")
    >>> batch = DocumentBatch.from_documents([document])
    >>> filled(batch, "{text} is {label}")
    [b'a text is good']
    """
    columns = []
    for plain, field in template_parts(template):
        columns.append(repeat(plain.encode("utf-8"), len(batch)))
        if field == "label":
            columns.append([label.encode("utf-8") for label in batch.values("label")])
        elif field is not None:
            columns.append(batch.texts(field))
    return [b"".join(values) for values in zip(*columns, strict=True)]
