"""Asks an exported SavedModel to fill the `[MASK]`s of texts, as any client would.

Nothing of the Keras model is used here: what is printed is what TF Serving would
answer.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

from configs.errors import ArtifactError, ConfigError
from configs.held_back import output_held_back
from configs.saved_models import find_version

MASK = "[MASK]"
_CONTINUATION = "##"
_ADVICE = "Give the folder of a model exported by `transbeam export`"


def predict(model: Path, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Fills the masks of texts.

    Args:
        model: A SavedModel: a version folder, or the folder above, whose highest
            version is taken.
        texts: Each with at least one `[MASK]`.

    Returns:
        For each text `text`, `masks` (for each mask a list of `piece` and `score`,
        the most probable first), `filled` (the text with the best pieces in it) and
        `truncated`, which says that the end was not read, with the masks in it.

    Raises:
        ArtifactError: The folder is no SavedModel, or has other signatures.
        ConfigError: There is no text, or one without a mask.
    """
    if not texts:
        raise ConfigError(
            f"there is no text to fill: give --text 'A {MASK} to fill', or put some "
            "under export.examples"
        )
    for text in texts:
        if MASK not in text:
            raise ConfigError(
                f"{text!r}: there is no {MASK} to fill; write {MASK} where a word is "
                "to be guessed"
            )
    encoded = tf.constant([text.encode("utf-8", "replace") for text in texts])
    signature = _serving_default(find_version(model))
    with output_held_back():
        answers = signature(text=encoded)
    found = []
    for text, fills, scores, truncated in zip(
        texts,
        answers["fills"].numpy(),
        answers["scores"].numpy(),
        answers["truncated"].numpy(),
        strict=True,
    ):
        masks = [
            [
                {"piece": piece.decode("utf-8"), "score": float(score)}
                for piece, score in zip(pieces, row, strict=True)
            ]
            for pieces, row in zip(fills, scores, strict=True)
            if pieces[0]
        ]
        best = [guesses[0]["piece"] for guesses in masks]
        found.append(
            {
                "text": text,
                "masks": masks,
                "filled": fill(text, best),
                "truncated": bool(truncated),
            }
        )
    return found


def fill(text: str, pieces: Sequence[str]) -> str:
    """Puts pieces in the place of the first masks; further masks stay.

    A piece that continues a word is joined to what stands before.

    Example:
    >>> fill("A [MASK] [MASK] of [MASK].", ["ten", "##sor"])
    'A tensor of [MASK].'
    """
    head, *parts = text.split(MASK)
    for piece, part in zip(pieces, parts, strict=False):
        if piece.startswith(_CONTINUATION):
            head = head.rstrip() + piece.removeprefix(_CONTINUATION) + part
        else:
            head += piece + part
    return MASK.join([head, *parts[len(pieces) :]])


def describe(prediction: dict[str, Any]) -> str:
    """One prediction as a few lines, for people."""
    lines = [prediction["text"]]
    for number, guesses in enumerate(prediction["masks"], start=1):
        width = max(len(guess["piece"]) for guess in guesses)
        for rank, guess in enumerate(guesses):
            label = f"{MASK} {number}" if rank == 0 else ""
            lines.append(
                f"  {label:<10} {guess['piece']:<{width}}  {guess['score']:6.1%}"
            )
    if prediction["truncated"]:
        lines.append("  (too long for the model: the end was not read)")
    return "\n".join([*lines, f"  → {prediction['filled']}"])


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
    if set(inputs) != {"text"} or not {"fills", "scores", "truncated"} <= set(outputs):
        raise ArtifactError(
            f"{folder}: its signature serving_default takes {sorted(inputs)} and gives "
            f"{sorted(outputs)}, among the signatures {sorted(signatures)}; expected "
            f"one from text to fills, scores and truncated. {_ADVICE}"
        )
    return signature
