"""Predictions of an exported model for texts or images, through a client.

The Keras model is not used: the printed outputs are those that TF Serving would return.
The kind of model is inferred from its signature.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from transbeam.configs.base.errors import ArtifactError, ConfigError, DataError
from transbeam.serving.base.stream_events import FinalEvent
from transbeam.serving.client.interface import Client, RemoteClient, ServerError
from transbeam.serving.images.files import read_image
from transbeam.serving.predict.formatting import (
    generation,
    masked,
    span_corruption,
)
from transbeam.serving.predict.formatting.formatters import (
    Formatter,
    formatter_of_outputs,
    prediction_lines,
)

_IMAGES = ("image_bytes",)
# The inputs of `serving_default` that --text and --second-text provide.
_INPUTS = (("text",), ("text", "second_text"), ("context", "question"), _IMAGES)
_DEFAULT, _REFINE = "serving_default", "refine"


def predict(
    client: Client,
    texts: Sequence[str | Path],
    second_texts: Sequence[str] = (),
    *,
    iterations: int | None = None,
) -> list[dict[str, Any]]:
    """Computes predictions for texts, pairs of texts, or images.

    Args:
        client: A client of a server, or of a local SavedModel.
        texts: The inputs; for a masked language model each text needs a `[MASK]`. A
            `Path`, or any string given to an image model, is the path of an image file.
        second_texts: The second texts, for a model that reads pairs.
        iterations: The number of iterations in which a masked language model fills all
            masks of a text together; None to fill each alone.

    Returns:
        For each text, a dict with `text`; with `second_text` for a pair; with the
        values of the matching module of `transbeam.serving.predict.formatting`, or the
        `score` of a regression model; and with `truncated`, whether the input was cut.
        For images see `predict_images`.

    Raises:
        ArtifactError: The model has no signature that this command supports.
        DataError: As `predict_images`.
        ConfigError: There are no texts, or the model does not accept one of the texts.
        ServerError: A server is unreachable, or rejects the request.
    """
    _check_any(texts)
    names, formatter = _model_kind(client)
    _check_columns(texts, second_texts, len(names))
    if names == _IMAGES:
        return predict_images(client, texts, formatter)
    texts = _no_images(texts)
    if formatter is masked:
        masked.check(texts)
    if iterations is not None:
        _check_iterations(client, iterations)
    if formatter is span_corruption:
        span_corruption.check(texts)
    # A lone surrogate cannot be encoded as UTF-8.
    columns = {
        name: [text.encode("utf-8", "replace") for text in column]
        for name, column in zip(names, (texts, second_texts), strict=False)
    }
    if iterations is None:
        answers = client.ask(_DEFAULT, columns)
    else:
        rounds = np.full(len(texts), iterations, np.int32)
        answers = client.ask(_REFINE, {**columns, "iterations": rounds})
    found = []
    for row, text in enumerate(texts):
        answer = {name: values[row] for name, values in answers.items()}
        pair = {"second_text": second_texts[row]} if second_texts else {}
        truncated = bool(answer.get("truncated", False))
        formatted = formatter.read(text, answer)
        found.append({"text": text, **pair, **formatted, "truncated": truncated})
    return found


def predict_images(
    client: Client, files: Sequence[str | Path], formatter: Formatter
) -> list[dict[str, Any]]:
    """Classifies images.

    Args:
        client: A client of a server, or of a local SavedModel.
        files: Paths of JPEG or PNG files.
        formatter: Reads the outputs.

    Returns:
        For each file, a dict with its path as `image`, and with the values that the
        formatter returns.

    Raises:
        DataError: A file cannot be read, or the model cannot decode it.
        ServerError: A server is unreachable, or rejects the request.
    """
    contents = [read_image(file) for file in files]
    try:
        answers = client.ask(_DEFAULT, {_IMAGES[0]: contents})
    except ServerError as error:
        if error.code != "INVALID_ARGUMENT":
            raise
        if len(files) == 1:
            raise DataError(f"{files[0]}: the model refuses it: {error}") from None
        # The error of a batch does not identify the image: retry one by one.
        alone = (predict_images(client, [file], formatter) for file in files)
        return [prediction for (prediction,) in alone]
    found = []
    for row, file in enumerate(files):
        answer = {name: values[row] for name, values in answers.items()}
        found.append({"image": str(file), **formatter.read(str(file), answer)})
    return found


def stream(
    client: RemoteClient,
    texts: Sequence[str | Path],
    second_texts: Sequence[str],
    listen: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Generates texts in turn; calls a callback with each part as it is generated.

    Args:
        client: A client of a server started by `transbeam serve`.
        texts: The prompts or source texts.
        second_texts: As in `predict`.
        listen: Callback for each input text and each generated part.

    Returns:
        As `predict`.

    Raises:
        ArtifactError: The model does not generate text.
        ConfigError: As `predict`.
        ServerError: As `predict`.
    """
    _check_any(texts)
    names, formatter = _model_kind(client)
    if formatter not in (generation, span_corruption):
        raise ArtifactError(
            "the model does not generate text, so nothing can be streamed; expected a "
            "model trained for causal, prefix, completion, dialogue, span_corruption, "
            "seq2seq or text_to_text. Leave --stream out"
        )
    _check_columns(texts, second_texts, len(names))
    texts = _no_images(texts)
    found = []
    for row in zip(*(texts, second_texts)[: len(names)], strict=True):
        named = dict(zip(names, row, strict=True))
        listen("\n".join(row) + "\n  → ")
        for part in client.stream(named):
            if isinstance(part, FinalEvent):
                found.append({**named, **asdict(part)})
            else:
                listen(part.text)
        listen("\n" if found[-1]["finished"] else " …\n")
    return found


def describe(prediction: dict[str, Any]) -> str:
    """Formats one prediction as a few text lines."""
    lines = [prediction["image"] if "image" in prediction else prediction["text"]]
    if "second_text" in prediction:
        lines.append(prediction["second_text"])
    lines += prediction_lines(prediction)
    if prediction.get("truncated"):
        lines.append("  (too long for the model: truncated)")
    if "filled" in prediction:
        lines.append(f"  → {prediction['filled']}")
    return "\n".join(lines)


def _check_any(texts: Sequence[str | Path]) -> None:
    if not texts:
        raise ConfigError(
            "there is no input text: give --text 'A text', or --image PATH, or "
            "put some under export.examples"
        )


def _check_iterations(client: Client, iterations: int) -> None:
    if iterations < 1:
        raise ConfigError(f"--iterations {iterations}: expected a number from 1")
    if _REFINE not in client.signatures():
        raise ArtifactError(
            f"--iterations: the model has no signature {_REFINE}. It is for masked "
            "language models, and their exports from before it lack it: export again"
        )


def _no_images(texts: Sequence[str | Path]) -> list[str]:
    for text in texts:
        if isinstance(text, Path):
            raise ConfigError(
                f"{text}: the model reads texts, not images; give --text 'A text'"
            )
    return [str(text) for text in texts]


def _check_columns(
    texts: Sequence[str | Path], second_texts: Sequence[str], num_inputs: int
) -> None:
    """Checks the number of second texts: one per text for pairs, otherwise none."""
    number = len(texts) if num_inputs == 2 else 0
    if len(second_texts) != number:
        raise ConfigError(
            f"there are {len(second_texts)} second texts; expected {number}: "
            + (
                "the model reads pairs, so give --second-text with each --text"
                if number
                else "the model reads one text at a time"
            )
        )


def _model_kind(client: Client) -> tuple[tuple[str, ...], Formatter]:
    """Returns the inputs of `serving_default`, and the formatter of its outputs."""
    signatures = client.signatures()
    signature = signatures.get(_DEFAULT)
    inputs = set(signature.inputs) if signature else set()
    outputs = frozenset(signature.outputs) if signature else frozenset()
    names = next((names for names in _INPUTS if set(names) == inputs), None)
    formatter = formatter_of_outputs(outputs)
    if names is None or formatter is None:
        raise ArtifactError(
            f"the model's signature {_DEFAULT} takes {sorted(inputs)} and gives "
            f"{sorted(outputs)}, among the signatures {sorted(signatures)}; expected "
            f"one from text (and second_text), context and question or image_bytes, to "
            "fills, to classes, to tags, to a text, to a span of it, to a score or to "
            "a vector. Use a model exported by `transbeam export`"
        )
    return names, formatter
