"""Classification of images: pixels as bytes, and the class of the image."""

import numpy as np

from transbeam.configs.schema.objectives.supervised import ImageClassificationConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.labels import (
    label_feature,
    label_ids,
    one_per_record,
    reasons_against,
    rejected_rows,
    usable_rows,
)
from transbeam.pipeline.records.features import Feature, Records
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def image_shape(config: ImageClassificationConfig) -> tuple[int, int, int]:
    """Returns the height, width and channels of the run's images."""
    return (config.image_size, config.image_size, config.channels)


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record."""
    assert isinstance(run.objective, ImageClassificationConfig)
    shape = image_shape(run.objective)
    return (
        Feature("image", "uint8", shape, "height, width, channels; 0 to 255 each"),
        label_feature(run.objective.labels),
    )


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Makes one record per image, in the order of the documents' keys."""
    assert isinstance(run.objective, ImageClassificationConfig)
    labels, shape = run.objective.labels, image_shape(run.objective)
    reasons = reasons_against(batch, ["image", "label"], labels)
    found = zip(batch.values("image"), batch.values("image_shape"), strict=True)
    for row, (image, its_shape) in enumerate(found):
        reasons[row] = reasons[row] or _reason_against(image, its_shape, shape)
    rows = usable_rows(batch, reasons)
    usable = batch.take(rows)
    pixels = np.frombuffer(b"".join(usable.values("image")), np.uint8)
    return Records(
        arrays={
            "image": pixels.reshape(-1, *shape),
            "label": label_ids(usable, labels),
        },
        placement=one_per_record(rows),
        lengths=np.zeros(len(rows), np.int64),  # an image has no tokens
        counts={},
        rejected=rejected_rows(reasons),
    )


def _reason_against(
    image: bytes, found: list[int], expected: tuple[int, ...]
) -> str | None:
    if tuple(found) != expected:
        return f"image of shape {_text(found)}, expected {_text(expected)}"
    if len(image) != np.prod(expected):
        return f"image of {len(image)} bytes, expected {np.prod(expected)}"
    return None


def _text(shape: list[int] | tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "unknown"
