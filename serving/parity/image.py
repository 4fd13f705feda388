"""Holds exported models of images against Keras.

The data job decodes images with Pillow; a SavedModel decodes them in its graph. So the
pixels must be equal, and then the outputs.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.objectives.objective import (
    ImageObjective,
    PooledObjective,
)
from transbeam.configs.schema.objectives.traits import traits
from transbeam.pipeline.sources.decoding.image_decoding import decode_image
from transbeam.serving.base.run_records import records
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.images.files import read_image
from transbeam.serving.parity.base.parity_checks import ParityCheck, at_most
from transbeam.serving.parity.base.pooled_answers import make_pooled_parity
from transbeam.serving.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.runtimes.saved_model import AskTexts

FROM_RECORDS = 12
_ORIENTATION = 0x0112  # EXIF's tag


@dataclass(frozen=True)
class ExpectedImageAnswer:
    """The answer of the Keras model for one image.

    Attributes:
        content: A JPEG or PNG file.
        pixels: uint8 (S, S, P), what the data job makes of it.
        answer: float64, as `PooledParity.read` gives it.
    """

    content: bytes
    pixels: np.ndarray
    answer: np.ndarray


class ImageJudge:
    """Checks image classifiers; see `Judge`.

    Args:
        trained: The Keras model.
        images: Files, and their pixels; latency is measured on the first.
    """

    def __init__(self, trained: TrainedRun, images: Sequence[tuple[bytes, np.ndarray]]):
        objective = trained.config.objective
        assert isinstance(objective, PooledObjective)
        self.answer = make_pooled_parity(objective)
        self.signature = str(traits(objective).ids_signature)
        self.tolerance = trained.config.export.tolerance
        self.trained = trained
        self.expected = [self._expect(*one) for one in images]

    @classmethod
    def from_run(cls, trained: TrainedRun, run_folder: Path) -> "ImageJudge":
        """Returns a checker on the images of `judged_images`."""
        return cls(trained, list(judged_images(trained, run_folder)))

    @property
    def size(self) -> int:
        return len(self.expected)

    def saved_model_rows(self, form: str, ask: AskTexts) -> list[ParityCheck]:
        files = {"image_bytes": [one.content for one in self.expected]}
        pixels = ask("pixels", files)["image"]
        answers = ask("serving_default", files)
        pairs = zip(pixels, self.expected, strict=True)
        different = sum(not np.array_equal(own, one.pixels) for own, one in pairs)
        check, limit = "pixels, images that differ", self.tolerance.saved_model
        return [
            at_most(form, check, different, 0),
            *self.answer.saved_model_rows(form, answers, self._reference, limit),
        ]

    def phone_rows(
        self, form: str, variant: str, model: TFLiteRunner
    ) -> list[ParityCheck]:
        answer = np.array([self._phone_answer(model, one) for one in self.expected])
        return self.answer.phone_rows(
            form, variant, answer, self._reference, self.tolerance
        )

    def ask_once(self, ask: AskTexts) -> Mapping[str, np.ndarray]:
        return ask("serving_default", {"image_bytes": [self.expected[0].content]})

    def ask_phone_once(self, model: TFLiteRunner) -> np.ndarray:
        return self._phone_answer(model, self.expected[0])

    @cached_property
    def _reference(self) -> np.ndarray:
        """float64 (N, ...)."""
        return np.array([one.answer for one in self.expected])

    def _expect(self, content: bytes, pixels: np.ndarray) -> ExpectedImageAnswer:
        batch = {"image": pixels[np.newaxis]}
        outputs: Any = self.trained.model(batch, training=False)
        alone = {name: np.asarray(value)[0] for name, value in outputs.items()}
        return ExpectedImageAnswer(content, pixels, self.answer.read(alone))

    def _phone_answer(
        self, model: TFLiteRunner, one: ExpectedImageAnswer
    ) -> np.ndarray:
        return self.answer.read(model.ask(self.signature, image=one.pixels))


def judged_images(
    trained: TrainedRun, run_folder: Path, from_records: int = FROM_RECORDS
) -> Iterator[tuple[bytes, np.ndarray]]:
    """Yields `export.examples`, edge cases, and validation records as PNG.

    Args:
        trained: Has the configuration.
        run_folder: Contains the validation records; they may be missing.
        from_records: The maximum number of validation records.

    Yields:
        Files, and their pixels, uint8 (S, S, P).

    Raises:
        DataError: An example is not an image.
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
    for record in islice(records(run_folder, "validation"), from_records):
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
