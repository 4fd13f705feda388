"""HTML of example predictions, for reports."""

import base64
import html
import io
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image

from transbeam.pipeline.evaluation_set import HeldOut
from transbeam.trainer.evaluation.examples import Example

_LONGEST_TEXT = 600

EXAMPLES = """
.example { border-top: 1px solid #dde3ea; padding: .6rem 0 }
.example dl { display: grid; grid-template-columns: 5rem 1fr; gap: .15rem .8rem;
              margin: .3rem 0; font-size: .92rem }
.example dt { color: #51606f } .example dd { margin: 0; white-space: pre-wrap;
              overflow-wrap: anywhere }
.example p, .example img { margin: 0; font-size: .85rem; color: #51606f }
.example img { width: 6rem; image-rendering: pixelated }
@media (prefers-color-scheme: dark) { .example { border-color: #313b46 }
.example dt, .example p { color: #9fb0c0 } }
"""


def examples(chosen: Sequence[Example], held_out: HeldOut) -> str:
    """Renders examples as HTML elements.

    Args:
        chosen: The examples.
        held_out: The documents, whose images are shown.
    """
    shown = []
    for example in chosen:
        columns = {
            "text": example.text,
            "second": example.second_text,
            "target": example.target,
            "guess": example.guess,
        }
        rows = "".join(
            f"<dt>{name}</dt><dd>{html.escape(_shortened(text))}</dd>"
            for name, text in columns.items()
            if text
        )
        origin = html.escape(f"{example.source}:{example.offset}")
        shown.append(
            f"<div class='example'><p>{origin}{_cost(example)}</p>"
            f"{_picture(held_out.one(example.document))}<dl>{rows}</dl></div>"
        )
    return "".join(shown)


def _cost(example: Example) -> str:
    if example.error is not None:
        return f", {example.error:+.4g}"
    return "" if example.nats is None else f", {example.nats:.2f} nats"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} …"


def _picture(document: Mapping) -> str:
    """The document's image as an inline PNG, if it has one."""
    if not document["image"]:
        return ""
    pixels = np.frombuffer(document["image"], np.uint8)
    shape = tuple(document["image_shape"])
    image = Image.fromarray(pixels.reshape(shape[:2] if shape[-1] == 1 else shape))
    sink = io.BytesIO()
    image.save(sink, "PNG")
    content = base64.b64encode(sink.getvalue()).decode()
    label = html.escape(document["label"], quote=True)
    return f"<img alt='{label}' src='data:image/png;base64,{content}'>"
