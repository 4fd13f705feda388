"""Asks an exported model about texts or images, as any client would.

Nothing of the Keras model is used here: what is printed is what TF Serving would
answer. What kind of model it is, its signature says.
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

# What --text is, and --second-text.
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
# By what is in a prediction, how people read it.
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
    """Asks about texts, about pairs of texts, or about images.

    Args:
        client: Of a server, or of a SavedModel on this machine.
        texts: What to ask about; for a masked language model with a `[MASK]` each. A
            `Path` is for a model of images, as are its texts.
        second_texts: The other halves, for a model that reads pairs.

    Returns:
        For each text `text`; `second_text` of a pair; what
        `transbeam.serving.predict.formatting` reads of the answer, or the `score` of a
        model that gives numbers; and `truncated`, which says that not all of it was
        read. Of images see `predict_images`.

    Raises:
        ArtifactError: The model has other signatures.
        DataError: As `predict_images`.
        ConfigError: There is no text, or one that the model cannot be asked about.
        ServerError: A server does not answer, or refuses.
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
    # Half a character is none in UTF-8.
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
    """Has texts written one after the other, and listens meanwhile.

    Args:
        client: Of a server of ours.
        texts: What to write on from, or to answer.
        second_texts: As in `predict`.
        listen: Is given each text, and each part of what is written.

    Returns:
        As `predict`.

    Raises:
        ArtifactError: The model does not write.
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
    """One prediction as a few lines, for people."""
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
    """As many second texts as texts for pairs, and none for single texts."""
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
    """The names of the texts it asks for, and those of what it gives."""
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
