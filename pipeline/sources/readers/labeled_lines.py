r"""Reads lines of a label, white space and a text: `positive\tA quiet film.`

Many small classification data sets have this format, as do the files of fastText, in
which labels begin with `__label__`. The label ends at the first space or tab. Blank
lines are skipped. The offset of a document is the offset of its line.

References:
    - [fastText](https://fasttext.cc/docs/en/supervised-tutorial.html), "Getting and
      preparing the data"
"""

import re
from collections.abc import Iterator

from transbeam.configs.schema.table_sources import LabeledLinesSourceConfig
from transbeam.pipeline.documents.document import Document, Rejected, Span
from transbeam.pipeline.sources.decoding.text_decoding import Line, lines

_BETWEEN = re.compile(r"[ \t]+")


def read(span: Span, source: LabeledLinesSourceConfig) -> Iterator[Document | Rejected]:
    """Yields a document per line that begins in a span."""
    for line in lines(span, source.encoding):
        if line.rejected:
            yield line.rejected
        elif not line.text.isspace():
            yield _document(line, source.prefix, span.file.name)


def _document(line: Line, prefix: str, name: str) -> Document | Rejected:
    label, *rest = _BETWEEN.split(line.content.strip(" \t"), maxsplit=1)
    text = rest[0] if rest else ""
    if not label.startswith(prefix):
        reason = f"a line that does not begin with {prefix!r}"
    elif label == prefix:
        reason = "no label"
    elif prefix and text.startswith(prefix):
        reason = "more than one label"
    elif not text:
        reason = "no text after the label"
    else:
        label = label.removeprefix(prefix)
        return Document(text, name, line.offset, label=label)
    return Rejected.from_content(reason, name, line.offset, line.content)
