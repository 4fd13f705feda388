"""Tagged words in columns (CoNLL 2003, WNUT 17), a blank line after each sentence.

Columns are parted by tabs if the first line has one, else by spaces. Every line has as
many as the first; one that has not rejects its sentence. `-DOCSTART-` lines, which
part documents, are left out. A sentence's offset is the byte it begins at.
"""

from collections.abc import Iterable, Iterator

from configs.table_sources import ConllSource
from pipeline.cleaning import excerpt
from pipeline.documents import Document, Rejected
from pipeline.readers.columns import tagged_document
from pipeline.readers.lines import Line, lines
from pipeline.spans import Span


def read(span: Span, source: ConllSource) -> Iterator[Document | Rejected]:
    """A document for each sentence; the span is the whole file."""
    separator, width = "", 0
    for block in sentences(lines(span, source.encoding)):
        sentence = [line for line in block if not line.text.startswith("-DOCSTART-")]
        if not sentence:
            continue
        if not width:
            separator = "\t" if "\t" in sentence[0].text else " "
            width = len(_fields(sentence[0], separator))
        rows = [_fields(line, separator) for line in sentence]
        yield _document(sentence, rows, width, source, span.file.name)


def sentences(source: Iterable[Line]) -> Iterator[list[Line]]:
    """The runs of lines between blank lines."""
    sentence: list[Line] = []
    for line in source:
        if not line.text.isspace():
            sentence.append(line)
        elif sentence:
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def _fields(line: Line, separator: str) -> list[str]:
    # Not at any white space: a word may be, or hold, a no-break space.
    fields = line.content.split(separator)
    return fields if separator == "\t" else [field for field in fields if field]


def _document(
    sentence: list[Line],
    rows: list[list[str]],
    width: int,
    source: ConllSource,
    name: str,
) -> Document | Rejected:
    offset = sentence[0].offset
    text = "".join(line.text for line in sentence)
    shown = excerpt(text), len(text)
    for line, row in zip(sentence, rows, strict=True):
        if line.rejected:
            return line.rejected
        if len(row) != width:
            reason = f"{len(row)} columns, the first line has {width}"
            return Rejected(reason, name, line.offset, *shown)
    try:
        words = [row[source.word_column] for row in rows]
        tags = [row[source.tag_column] for row in rows]
    except IndexError:
        wanted = f"{source.word_column} and {source.tag_column}"
        reason = f"{width} columns, which are not enough for {wanted}"
        return Rejected(reason, name, offset, *shown)
    return tagged_document(words, tags, name, offset)
