"""What is asked of a model to see what its numbers are like, before it is rounded."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.schema.export import ExportConfig
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.serving.base.run_records import documents, records
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.phone.quantization.quantizer import CALIBRATED, Calibration
from transbeam.serving.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.runtimes.tflite_generator import PhoneWriter
from transbeam.serving.signatures.base.interface import Endpoint
from transbeam.serving.signatures.generation.tflite_signatures import DECODE, ENCODE

# With fewer, the largest number that is met says little of the largest there is.
FEWEST = 16
# Tokens that a model is let write after each.
_WRITTEN = 8

Row = Mapping[str, np.ndarray]


def calibration_of(
    trained: TrainedRun,
    run_folder: Path,
    endpoints: Mapping[str, Endpoint],
    content: bytes,
    names: Mapping[str, str] = MappingProxyType({}),
    filled: bool = True,
) -> Calibration:
    """Questions for each signature, made of the first training records.

    The gate asks about validation records, so what is calibrated here is judged on
    other texts.

    Args:
        trained: The model; `export.tflite_calibration` says how many.
        run_folder: Holds the records.
        endpoints: The signatures of the file.
        content: The file in float32. One that writes is let write, and what it is
            asked on the way are the questions.
        names: What inputs are called here that have other names elsewhere.
        filled: Whether every other text is filled up to the longest.

    Raises:
        ArtifactError: There are fewer than 16 texts or images.
    """
    config = trained.config
    if DECODE in endpoints:
        rows = _enough(_written(trained, run_folder), config.export, run_folder)
        return _recorded(trained, content, rows)
    if isinstance(config.objective, ImageObjective):
        found = _images(config.objective, run_folder)
    else:
        found = _texts(trained, run_folder)
    rows = [
        {**row, **{name: row[of] for name, of in names.items()}}
        for row in _enough(found, config.export, run_folder)
    ]
    longest = config.model.max_sequence_length
    return {
        name: [
            # What forbids padding is a number, too, and one that was never met would be
            # cut down to those that were.
            _question(endpoint, row, longest if filled and number % 2 else None)
            for number, row in enumerate(rows)
        ]
        for name, endpoint in endpoints.items()
    }


def _enough(found: Iterator[Row], export: ExportConfig, run_folder: Path) -> list[Row]:
    """So many as are wanted, but never too few."""
    wanted = max(export.tflite_calibration, FEWEST)
    rows = list(islice(found, wanted))
    if len(rows) < FEWEST:
        variants = ", ".join(each for each in export.tflite if each in CALIBRATED)
        raise ArtifactError(
            f"{run_folder / 'data/records'}: the training split has {len(rows)} to "
            f"calibrate {variants} on; expected {FEWEST} at least, better {wanted}. "
            f"Make records of more, or leave {variants} out of export.tflite: "
            "dynamic_int8 needs none"
        )
    return rows


def _written(trained: TrainedRun, run_folder: Path) -> Iterator[Row]:
    """What a model that writes begins with, and what it answers."""
    special = trained.tokenizer.special
    if trained.config.model.kind == "decoder":
        for ids, _ in documents(run_folder, split="train"):
            yield {"token_ids": ids}
    else:
        first = special.pad if special.begin is None else special.begin
        for ids, _ in documents(run_folder, "encoder_", split="train"):
            yield {"token_ids": np.array([first], np.int32), "source": ids}


def _recorded(trained: TrainedRun, content: bytes, rows: Sequence[Row]) -> Calibration:
    """All that a file is asked while it writes on from some texts."""
    model = _Recorder(content)
    writer = PhoneWriter(model)
    stops = trained.tokenizer.special.ends
    number = min(_WRITTEN, writer.slots // 2)
    most = min(writer.longest_prompt, writer.slots - number)
    for row in rows:
        source = row.get("source")
        if source is not None:
            source = source[: model.shapes(ENCODE)["token_ids"][1]]
        writer.write(
            row["token_ids"][:most], number, source=source, stop_token_ids=stops
        )
    for name in model.signatures:  # of a size that no text had
        if not model.asked[name]:
            model.asked[name].append(model.ones(name, 1))
    return model.asked


class _Recorder(TFLiteRunner):
    """Keeps what it is asked."""

    def __init__(self, content: bytes):
        self.asked: dict[str, list[Row]] = defaultdict(list)
        super().__init__(content)
        self.asked.clear()  # ones, to begin with

    def run(self, signature: str, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        self.asked[signature].append(inputs)
        return super().run(signature, **inputs)


def _texts(trained: TrainedRun, run_folder: Path) -> Iterator[Row]:
    longest = trained.config.model.max_sequence_length
    mask = trained.tokenizer.special.mask
    objective = trained.config.objective
    for ids, segments in documents(run_folder, split="train"):
        token_ids = ids[:longest]
        if isinstance(objective, MaskedConfig) and mask not in token_ids:
            # Records for dynamic masking have none, but who asks for a guess has.
            token_ids = token_ids.copy()
            token_ids[1 : -1 : round(1 / objective.masking_fraction)] = mask
        yield {
            "token_ids": token_ids,
            "padding_mask": np.ones_like(token_ids),
            "segment_ids": segments[:longest],
            "masked_positions": np.flatnonzero(token_ids == mask),
        }


def _images(objective: ImageObjective, run_folder: Path) -> Iterator[Row]:
    size, channels = objective.image_size, objective.channels
    for record in records(run_folder, "train"):
        yield {"image": record["image"].reshape(size, size, channels)}


def _question(
    endpoint: Endpoint, row: Row, length: int | None
) -> dict[str, np.ndarray]:
    """The inputs of a signature, as its file takes them.

    Args:
        endpoint: The signature.
        row: All that may be asked for.
        length: What inputs of any length are filled up to, if to anything.
    """
    found: dict[str, Any] = {}
    for spec in endpoint.inputs:
        name = str(spec.name)
        values = row[name]
        size = length if spec.shape[1] is None else spec.shape[1]
        if size is not None and values.ndim == 1:
            values = np.pad(values[:size], (0, max(size - len(values), 0)))
        found[name] = values[np.newaxis].astype(spec.dtype.as_numpy_dtype)
    return found
