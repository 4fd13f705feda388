"""Asks an exported SavedModel about texts, as any client would.

Nothing of the Keras model is used here: what is printed is what TF Serving would
answer. What kind of model it is, its signature says.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

from configs.errors import ArtifactError, ConfigError
from configs.held_back import output_held_back
from configs.saved_models import find_version
from serving.answers import choosing, filling, locating, tagging, writing

_ADVICE = "Give the folder of a model exported by `transbeam export`"
# What --text is, and --second-text.
_INPUTS = (("text",), ("text", "second_text"), ("context", "question"))
_NUMBER = frozenset({"score", "truncated"})
_KNOWN = (
    filling.OUTPUTS,
    choosing.OUTPUTS,
    *tagging.OUTPUTS,
    writing.OUTPUTS,
    locating.OUTPUTS,
    _NUMBER,
)


def predict(
    model: Path, texts: Sequence[str], second_texts: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Asks about texts, or about pairs of texts.

    Args:
        model: A SavedModel: a version folder, or the folder above, whose highest
            version is taken.
        texts: What to ask about; for a masked language model with a `[MASK]` each.
        second_texts: The other halves, for a model that reads pairs.

    Returns:
        For each text `text`; `second_text` of a pair; what `serving.answers` reads of
        the answer, or the `score` of a model that gives numbers; and `truncated`,
        which says that not all of it was read.

    Raises:
        ArtifactError: The folder is no SavedModel, or has other signatures.
        ConfigError: There is no text, or one that the model cannot be asked about.
    """
    if not texts:
        raise ConfigError(
            "there is no text to ask about: give --text 'A text', or put some under "
            "export.examples"
        )
    signature = _serving_default(find_version(model))
    asked = set(signature.structured_input_signature[1])
    names = next(names for names in _INPUTS if set(names) == asked)
    _check_columns(texts, second_texts, len(names))
    columns = dict(zip(names, (texts, second_texts), strict=False))
    outputs = frozenset(signature.structured_outputs)
    if outputs == filling.OUTPUTS:
        filling.check(texts)
    inputs = {
        name: tf.constant([text.encode("utf-8", "replace") for text in column])
        for name, column in columns.items()
    }
    with output_held_back():
        answers = {name: of.numpy() for name, of in signature(**inputs).items()}
    found = []
    for row, text in enumerate(texts):
        answer = {name: values[row] for name, values in answers.items()}
        if outputs == filling.OUTPUTS:
            said = filling.read(text, answer)
        elif outputs == choosing.OUTPUTS:
            said = choosing.read(answer)
        elif outputs in tagging.OUTPUTS:
            said = tagging.read(answer)
        elif outputs == writing.OUTPUTS:
            said = writing.read(answer)
        elif outputs == locating.OUTPUTS:
            said = locating.read(answer)
        else:
            said = {"score": float(answer["score"])}
        pair = {"second_text": second_texts[row]} if second_texts else {}
        truncated = bool(answer.get("truncated", False))
        found.append({"text": text, **pair, **said, "truncated": truncated})
    return found


def describe(prediction: dict[str, Any]) -> str:
    """One prediction as a few lines, for people."""
    lines = [prediction["text"]]
    if "second_text" in prediction:
        lines.append(prediction["second_text"])
    if "masks" in prediction:
        lines += filling.lines(prediction)
    elif "classes" in prediction:
        lines += choosing.lines(prediction)
    elif "words" in prediction:
        lines += tagging.lines(prediction)
    elif "generated_text" in prediction:
        lines += writing.lines(prediction)
    elif "answer" in prediction:
        lines += locating.lines(prediction)
    else:
        lines.append(f"  {prediction['score']:.4g}")
    if prediction["truncated"]:
        lines.append("  (too long for the model: not all of it was read)")
    if "filled" in prediction:
        lines.append(f"  → {prediction['filled']}")
    return "\n".join(lines)


def _check_columns(
    texts: Sequence[str], second_texts: Sequence[str], asked: int
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


def _serving_default(folder: Path) -> Any:
    try:
        signatures = tf.saved_model.load(str(folder)).signatures
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise ArtifactError(
            f"{folder}: cannot be loaded as a SavedModel: {error}. {_ADVICE}"
        ) from error
    signature = signatures.get("serving_default")
    inputs = [] if signature is None else signature.structured_input_signature[1]
    outputs = [] if signature is None else signature.structured_outputs
    known = [set(names) for names in _INPUTS]
    if set(inputs) not in known or frozenset(outputs) not in _KNOWN:
        raise ArtifactError(
            f"{folder}: its signature serving_default takes {sorted(inputs)} and gives "
            f"{sorted(outputs)}, among the signatures {sorted(signatures)}; expected "
            f"one from text (and second_text), or from context and question, to "
            f"fills, to classes, to tags, to a text, to a place in it or to a score. "
            f"{_ADVICE}"
        )
    return signature
