"""Compares exported image models with Keras.

The data job decodes images with Pillow; a SavedModel decodes them in its graph.
Therefore the decoded pixels are compared, too, and must be equal.
"""

import io
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.pipeline.sources.decoding.image_decoding import decode_image
from transbeam.serving.base.run_records import records
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.images.files import read_image
from transbeam.serving.parity.base.parity_checks import ParityCheck, at_most
from transbeam.serving.parity.pooled import PooledParityChecker
from transbeam.serving.runtimes.saved_model import AskTexts, Texts

FROM_RECORDS = 12
_ORIENTATION = 0x0112  # EXIF's tag


class ImageParityChecker(PooledParityChecker):
    """Checks models that read an image; see `ParityChecker`.

    Args:
        trained: The Keras model.
        images: Contents of image files with the pixels that the data job decodes from
            them, uint8 (S, S, P); latency is measured on the first image.
    """

    def __init__(self, trained: TrainedRun, images: Sequence[tuple[bytes, np.ndarray]]):
        super().__init__(
            trained,
            [({"image_bytes": file}, {"image": pixels}) for file, pixels in images],
        )

    @classmethod
    def from_run(cls, trained: TrainedRun, run_folder: Path) -> "ImageParityChecker":
        """Returns a parity checker for the images that `parity_images` yields."""
        return cls(trained, list(parity_images(trained, run_folder)))

    def input_row(self, form: str, ask: AskTexts, given: Texts) -> ParityCheck:
        pairs = zip(ask("pixels", given)["image"], self.expected, strict=True)
        different = sum(
            not np.array_equal(found, one.inputs["image"]) for found, one in pairs
        )
        return at_most(form, "pixels, images that differ", different, 0)


def parity_images(
    trained: TrainedRun, run_folder: Path
) -> Iterator[tuple[bytes, np.ndarray]]:
    """Yields `export.examples`, edge cases, and validation records as PNG.

    Args:
        trained: Has the configuration.
        run_folder: The run's folder; its validation records may be missing.

    Yields:
        The content of an image file and its pixels, uint8 (S, S, P).

    Raises:
        DataError: An entry of `export.examples` is not an image.
    """
    objective = trained.config.objective
    assert isinstance(objective, ImageObjective)
    size, channels = objective.image_size, objective.channels

    def pixels_of(raw: bytes) -> np.ndarray:
        return np.frombuffer(raw, np.uint8).reshape(size, size, channels)

    for name in trained.config.export.examples:
        content = read_image(name)
        try:
            raw = decode_image(content, size, channels)
        except Exception as error:  # Pillow raises many kinds
            raise DataError(f"export.examples: {name}: no image: {error}") from None
        yield content, pixels_of(raw)
    for content in _awkward():
        yield content, pixels_of(decode_image(content, size, channels))
    for record in islice(records(run_folder, "validation"), FROM_RECORDS):
        pixels = record["image"].reshape(size, size, channels)
        yield _file(Image.fromarray(pixels.squeeze()), "PNG"), pixels


def _awkward() -> Iterator[bytes]:
    """Yields a rotated, a gray, a transparent, a palette and a one-pixel image."""
    noise = np.random.default_rng(0).integers(0, 256, (47, 31, 4), np.uint8)
    transparent = Image.fromarray(noise)
    image = transparent.convert("RGB")
    sideways = Image.Exif()
    sideways[_ORIENTATION] = 6
    yield _file(image, "JPEG", exif=sideways)
    yield _file(image.convert("L"), "JPEG")
    yield _file(transparent, "PNG")
    yield _file(image.convert("P"), "PNG")
    yield _file(image.crop((0, 0, 1, 1)).convert("L"), "PNG")


def _file(image: Image.Image, kind: str, **options: Any) -> bytes:
    sink = io.BytesIO()
    image.save(sink, kind, **options)
    return sink.getvalue()
