"""Examples on a page: what documents hold is shown, and never obeyed."""

import base64
import io
import re
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from transbeam.trainer.evaluation.examples import Example
from transbeam.trainer.evaluation.html_examples import examples

HOSTILE = "</dd><script>alert(1)</script>' onload='x \x00\u202e&lt;"


class Tags(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(str(page))

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def page_of(example: Example, **document: Any) -> Tags:
    document = {"image": b"", "image_shape": [], "label": "", **document}
    held_out = SimpleNamespace(one=lambda number: document)
    return Tags(examples([example], held_out))  # pyright: ignore[reportArgumentType]


def example(**fields: Any) -> Example:
    given = {"source": "a.txt", "offset": 7, "nats": 1.234, "text": "read"}
    return Example(
        **{**given, "target": "right", "guess": "said", "document": 0, **fields}
    )


@pytest.mark.parametrize("field", ["source", "text", "second_text", "target", "guess"])
def test_hostile_text_is_text(field: str) -> None:
    page = page_of(example(**{field: HOSTILE}))
    assert {tag for tag, _ in page.tags} == {"div", "p", "dl", "dt", "dd"}
    assert all(set(attributes) <= {"class"} for _, attributes in page.tags)
    assert HOSTILE in page.text


def test_a_hostile_label_stays_in_its_attribute() -> None:
    pixels = np.arange(4, dtype=np.uint8)
    page = page_of(
        example(text=""),
        image=pixels.tobytes(),
        image_shape=[2, 2, 1],
        label="'><script>alert(1)</script>",
    )
    ((_, attributes),) = (found for found in page.tags if found[0] == "img")
    assert attributes["alt"] == "'><script>alert(1)</script>"
    assert "script" not in {tag for tag, _ in page.tags}
    source = re.fullmatch("data:image/png;base64,(.*)", attributes["src"] or "")
    assert source
    shown = Image.open(io.BytesIO(base64.b64decode(source[1])))
    assert np.asarray(shown).tolist() == [[0, 1], [2, 3]]


def test_what_is_told() -> None:
    assert page_of(example()).text == "a.txt:7, 1.23 natstextreadtargetrightguesssaid"
    told = page_of(example(nats=None, error=-0.5, text="x" * 601)).text
    assert told.startswith("a.txt:7, -0.5text" + "x" * 600 + " …target")
