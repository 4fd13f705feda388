"""Images: the bytes as they came, one shape for all."""

import numpy as np

from tests.pipeline.objectives.record_checks import (
    assert_same_when_shuffled,
    records_of,
)
from tests.pipeline.objectives.word_tokenizer import LETTERS, run_of
from transbeam.configs.schema.objectives.supervised import ImageClassificationConfig
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.objectives import image_classification

RUN = run_of(ImageClassificationConfig(labels=("cat", "dog"), image_size=2), 8)
PIXELS = bytes(range(244, 256))


def image(pixels: bytes, shape: tuple[int, ...], label: str = "dog") -> Document:
    return Document("", "x", pixels[0], label=label, image=pixels, image_shape=shape)


def test_pixels_in_row_order() -> None:
    records = records_of(image_classification, RUN, [image(PIXELS, (2, 2, 3))])
    assert records.arrays["image"][0, 0, 1].tolist() == [247, 248, 249]
    assert records.arrays["image"][0, 1, 0].tolist() == [250, 251, 252]
    assert records.arrays["label"].tolist() == [1]


def test_what_does_not_fit_is_said() -> None:
    documents = [
        image(PIXELS, (2, 2, 3), "bird"),
        image(PIXELS, (3, 4, 1)),
        image(PIXELS[:-1], (2, 2, 3)),
        Document("no image", "x", 0, label="cat"),
    ]
    records = records_of(image_classification, RUN, documents)
    assert records.rejected == [
        (0, "label 'bird' is not one of the configured labels (cat, dog)"),
        (1, "image of shape 3x4x1, expected 2x2x3"),
        (2, "image of 11 bytes, expected 12"),
        (3, "no image"),
    ]
    assert records.arrays["image"].shape == (0, 2, 2, 3)


def test_shuffling_does_not_show() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 12), np.uint8)
    documents = [image(row.tobytes(), (2, 2, 3)) for row in pixels]
    assert_same_when_shuffled(image_classification, RUN, documents, LETTERS)
