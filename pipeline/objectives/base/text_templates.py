"""Texts made from the templates of an objective and the fields of documents."""

from itertools import repeat

from transbeam.configs.base.templates import template_parts
from transbeam.configs.schema.objectives.objective import TextPairObjective
from transbeam.configs.schema.objectives.traits import fields_needed, text_templates
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.labels import reasons_against, usable_rows


def reasons_against_texts(
    batch: DocumentBatch, objective: TextPairObjective
) -> list[str | None]:
    """Returns the reason why each document does not fill the templates, or None."""
    return reasons_against(batch, fields_needed(objective))


def usable_texts(
    batch: DocumentBatch, objective: TextPairObjective
) -> list[list[bytes]]:
    """Returns the source and target texts of every usable document.

    Example:
    >>> from transbeam.configs.schema.objectives.supervised import TextToTextConfig
    >>> from transbeam.pipeline.documents.document import Document
    >>> batch = DocumentBatch.from_documents(
    ...     [Document("so", "a.txt", 0, label="good"), Document("no label", "a.txt", 9)]
    ... )
    >>> usable_texts(batch, TextToTextConfig(source="mood: {text}", target="{label}"))
    [[b'mood: so'], [b'good']]
    """
    usable = batch.take(usable_rows(batch, reasons_against_texts(batch, objective)))
    return [filled(usable, template) for template in text_templates(objective)]


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
