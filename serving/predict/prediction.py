"""Predictions of an exported model for texts or images, through its client interface.

The Keras model is not used here: the printed outputs are those that TF Serving would
return. The kind of model is inferred from its signature.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.serving.base.stream_events import Whole
from transbeam.serving.client.interface import Client, RemoteClient
from transbeam.serving.predict.formatting import (
    classification,
    embedding,
    generation,
    masked,
    span_corruption,
    span_qa,
    token_classification,
)
from transbeam.serving.predict.image_prediction import INPUTS as IMAGES
from transbeam.serving.predict.image_prediction import predict_images

# The inputs of `serving_default` that --text and --second-text provide.
_INPUTS = (("text",), ("text", "second_text"), ("context", "question"), IMAGES)
_NUMBER = frozenset({"score", "truncated"})
_KNOWN = (
    masked.OUTPUTS,
    classification.OUTPUTS,
    classification.OF_IMAGES,
    *token_classification.OUTPUTS,
    generation.OUTPUTS,
    span_corruption.OUTPUTS,
    span_qa.OUTPUTS,
    embedding.OUTPUTS,
    _NUMBER,
)
_DEFAULT = "serving_default"
# The formatter of a prediction, by a key that it contains.
_LINES = {
    "masks": masked.lines,
    "classes": classification.lines,
    "words": token_classification.lines,
    "fills": span_corruption.lines,
    "generated_text": generation.lines,
    "answer": span_qa.lines,
    "embedding": embedding.lines,
}


def predict(
    client: Client, texts: Sequence[str | Path], second_texts: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Predicts texts, pairs of texts, or images.

    Args:
        client: A client of a server, or of a local SavedModel.
        texts: The inputs; a masked language model needs a `[MASK]` in each. A `Path`,
            or any text given to an image model, is an image file.
        second_texts: The second texts, for a model that reads pairs.

    Returns:
        For each text `text`; `second_text` of a pair; the values of the matching
        module of `transbeam.serving.predict.formatting`, or the `score` of a
        regression model; and `truncated`, whether the input was cut. For images see
        `predict_images`.

    Raises:
        ArtifactError: The model has other signatures.
        DataError: As `predict_images`.
        ConfigError: There is no text, or one that the model does not accept.
        ServerError: A server is unreachable, or rejects the request.
    """
    _check_any(texts)
    names, outputs = _kind_of(client)
    _check_columns(texts, second_texts, len(names))
    if names == IMAGES:
        return predict_images(client, texts)
    texts = _no_images(texts)
    if outputs == masked.OUTPUTS:
        masked.check(texts)
    if outputs == span_corruption.OUTPUTS:
        span_corruption.check(texts)
    # A lone surrogate cannot be encoded as UTF-8.
    columns = {
        name: [text.encode("utf-8", "replace") for text in column]
        for name, column in zip(names, (texts, second_texts), strict=False)
    }
    answers = client.ask(_DEFAULT, columns)
    found = []
    for row, text in enumerate(texts):
        answer = {name: values[row] for name, values in answers.items()}
        pair = {"second_text": second_texts[row]} if second_texts else {}
        truncated = bool(answer.get("truncated", False))
        said = _read(text, answer, outputs)
        found.append({"text": text, **pair, **said, "truncated": truncated})
    return found


def stream(
    client: RemoteClient,
    texts: Sequence[str | Path],
    second_texts: Sequence[str],
    listen: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Generates texts one after the other and passes their parts on as they arrive.

    Args:
        client: A client of our server.
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
    names, outputs = _kind_of(client)
    if outputs not in (generation.OUTPUTS, span_corruption.OUTPUTS):
        raise ArtifactError(
            "the model writes no texts, so there is nothing to listen to; expected a "
            "model trained for causal, prefix, span_corruption, seq2seq or "
            "text_to_text. Ask without --stream"
        )
    _check_columns(texts, second_texts, len(names))
    texts = _no_images(texts)
    found = []
    for row in zip(*(texts, second_texts)[: len(names)], strict=True):
        named = dict(zip(names, row, strict=True))
        listen("\n".join(row) + "\n  → ")
        for part in client.stream(named):
            if isinstance(part, Whole):
                found.append({**named, **asdict(part)})
            else:
                listen(part.text)
        listen("\n" if found[-1]["finished"] else " …\n")
    return found


def _read(text: str, answer: dict[str, Any], outputs: frozenset[str]) -> dict[str, Any]:
    if outputs == masked.OUTPUTS:
        return masked.read(text, answer)
    if outputs == classification.OUTPUTS:
        return classification.read(answer)
    if outputs in token_classification.OUTPUTS:
        return token_classification.read(answer)
    if outputs == generation.OUTPUTS:
        return generation.read(answer)
    if outputs == span_corruption.OUTPUTS:
        return span_corruption.read(text, answer)
    if outputs == span_qa.OUTPUTS:
        return span_qa.read(answer)
    if outputs == embedding.OUTPUTS:
        return embedding.read(answer)
    return {"score": float(answer["score"])}


def describe(prediction: dict[str, Any]) -> str:
    """Formats one prediction as a few text lines."""
    lines = [prediction["image"] if "image" in prediction else prediction["text"]]
    if "second_text" in prediction:
        lines.append(prediction["second_text"])
    for key, lines_of in _LINES.items():
        if key in prediction:
            lines += lines_of(prediction)
            break
    else:
        lines.append(f"  {prediction['score']:.4g}")
    if prediction.get("truncated"):
        lines.append("  (too long for the model: not all of it was read)")
    if "filled" in prediction:
        lines.append(f"  → {prediction['filled']}")
    return "\n".join(lines)


def _check_any(texts: Sequence[str | Path]) -> None:
    if not texts:
        raise ConfigError(
            "there is no text to ask about: give --text 'A text', or --image PATH, or "
            "put some under export.examples"
        )


def _no_images(texts: Sequence[str | Path]) -> list[str]:
    for text in texts:
        if isinstance(text, Path):
            raise ConfigError(
                f"{text}: the model reads texts and does not look at images; give "
                "--text 'A text'"
            )
    return [str(text) for text in texts]


def _check_columns(
    texts: Sequence[str | Path], second_texts: Sequence[str], asked: int
) -> None:
    """Checks that pairs have one second text per text, and single texts none."""
    number = len(texts) if asked == 2 else 0
    if len(second_texts) != number:
        raise ConfigError(
            f"there are {len(second_texts)} second texts; expected {number}: "
            + (
                "the model reads pairs, so give --second-text with each --text"
                if number
                else "the model reads one text at a time"
            )
        )


def _kind_of(client: Client) -> tuple[tuple[str, ...], frozenset[str]]:
    """Returns the names of the text inputs and of the outputs of `serving_default`."""
    signatures = client.signatures()
    signature = signatures.get(_DEFAULT)
    inputs = set(signature.inputs) if signature else set()
    outputs = frozenset(signature.outputs) if signature else frozenset()
    names = next((names for names in _INPUTS if set(names) == inputs), None)
    if names is None or outputs not in _KNOWN:
        raise ArtifactError(
            f"the model's signature {_DEFAULT} takes {sorted(inputs)} and gives "
            f"{sorted(outputs)}, among the signatures {sorted(signatures)}; expected "
            f"one from text (and second_text), context and question or image_bytes, to "
            "fills, to classes, to tags, to a text, to a place in it, to a score or to "
            "a vector. "
            "Ask a model exported by `transbeam export`"
        )
    return names, outputs
