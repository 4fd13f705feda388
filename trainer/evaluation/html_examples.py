"""HTML of example predictions, for reports."""

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from markupsafe import Markup
from PIL import Image

from transbeam.pipeline.evaluation_set import ValidationDocuments
from transbeam.pipeline.pages.html_templates import render
from transbeam.trainer.evaluation.examples import Example

_LONGEST_TEXT = 600


def examples(chosen: Sequence[Example], held_out: ValidationDocuments) -> Markup:
    """Renders the examples as a section of the page.

    Args:
        chosen: The examples.
        held_out: The documents, whose images are shown.
    """
    shown = []
    for example in chosen:
        document = held_out.one(example.document)
        texts = {
            "text": _shortened(example.text),
            "second": _shortened(example.second_text),
            "target": _shortened(example.target),
            "guess": _shortened(example.guess),
        }
        picture = {"label": document["label"], "picture": _picture(document)}
        shown.append({**vars(example), **picture, "texts": texts})
    template = Path(__file__).parent / "templates" / "examples.html"
    return Markup(render(template, examples=shown))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} …"


def _picture(document: Mapping) -> str:
    """Returns a document's image as PNG in base64, if the document is an image."""
    if not document["image"]:
        return ""
    pixels = np.frombuffer(document["image"], np.uint8)
    shape = tuple(document["image_shape"])
    image = Image.fromarray(pixels.reshape(shape[:2] if shape[-1] == 1 else shape))
    sink = io.BytesIO()
    image.save(sink, "PNG")
    return base64.b64encode(sink.getvalue()).decode()
