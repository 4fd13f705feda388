"""Collects calibration inputs for quantization."""

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
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.base.run_records import documents, records
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.phone.quantization.quantizer import CALIBRATED, Calibration
from transbeam.serving.runtimes.tflite_generator import PhoneWriter
from transbeam.serving.signatures.base.interface import Endpoint
from transbeam.serving.signatures.generation.tflite_signatures import DECODE, ENCODE

# With fewer, the observed maximum is a poor estimate of the true one.
FEWEST = 16
# The number of tokens that a model generates after each prompt.
_WRITTEN = 8

Row = Mapping[str, np.ndarray]


def make_calibration(
    trained: TrainedRun,
    run_folder: Path,
    endpoints: Mapping[str, Endpoint],
    content: bytes,
    names: Mapping[str, str] = MappingProxyType({}),
    filled: bool = True,
) -> Calibration:
    """Returns calibration inputs for each signature, from the first training records.

    Parity checks use validation records, so calibration and evaluation are on different
    texts.

    Args:
        trained: The model; `export.tflite_calibration` is the number of inputs.
        run_folder: Contains the records.
        endpoints: The signatures of the file.
        content: The content of the float32 TFLite file. A generative model generates
            text with this file, and the inputs of all its calls are recorded.
        names: The new name of each renamed input, mapped to its name in the training
            records.
        filled: Whether every other text is padded to the maximum length.

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
            # Attention masks add large negative numbers to scores, which would be
            # clipped if no calibration input had padding.
            _question(endpoint, row, longest if filled and number % 2 else None)
            for number, row in enumerate(rows)
        ]
        for name, endpoint in endpoints.items()
    }


def _enough(found: Iterator[Row], export: ExportConfig, run_folder: Path) -> list[Row]:
    """Returns the configured number of rows, or fewer; raises an error below 16."""
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
    """Yields the prompts or sources of a generative model."""
    special = trained.tokenizer.special
    if trained.config.model.kind == "decoder":
        for ids, _ in documents(run_folder, split="train"):
            yield {"token_ids": ids}
    else:
        first = special.pad if special.begin is None else special.begin
        for ids, _ in documents(run_folder, "encoder_", split="train"):
            yield {"token_ids": np.array([first], np.int32), "source": ids}


def _recorded(trained: TrainedRun, content: bytes, rows: Sequence[Row]) -> Calibration:
    """Records the inputs of all calls while a file generates text."""
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
    for name in model.signatures:  # sizes that no text needed
        if not model.calls[name]:
            model.calls[name].append(model.ones(name, 1))
    return model.calls


class _Recorder(TFLiteRunner):
    """A TFLite runner that records the inputs of all calls."""

    def __init__(self, content: bytes):
        super().__init__(content)
        self.calls: dict[str, list[Row]] = defaultdict(list)

    def run(self, signature: str, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        self.calls[signature].append(inputs)
        return super().run(signature, **inputs)


def _texts(trained: TrainedRun, run_folder: Path) -> Iterator[Row]:
    longest = trained.config.model.max_sequence_length
    mask = trained.tokenizer.special.mask
    objective = trained.config.objective
    for ids, segments in documents(run_folder, split="train"):
        token_ids = ids[:longest]
        if isinstance(objective, MaskedConfig) and mask not in token_ids:
            # Records for dynamic masking have no masks, but inputs at inference do.
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
    """Returns the inputs of a signature, in the shapes of its file.

    Args:
        endpoint: The signature.
        row: The values of a calibration example, by input name.
        length: The length to which resizable inputs are padded; None for no padding.
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
