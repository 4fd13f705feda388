"""Tagged words in columns (CoNLL 2003, WNUT 17), a blank line after each sentence.

Columns are parted by tabs if the first line has one, else by spaces. Every line has as
many as the first; one that has not rejects its sentence. Lines that begin as `comment`
says and `-DOCSTART-` lines, which part documents, are left out. A sentence's offset is
the byte it begins at.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from transbeam.configs.schema.table_sources import ConllSourceConfig
from transbeam.pipeline.documents.byte_range import Span
from transbeam.pipeline.documents.document import Document, Rejected
from transbeam.pipeline.documents.rejection import excerpt
from transbeam.pipeline.sources.decoding.text_lines import Line, lines
from transbeam.pipeline.sources.readers.table_rows import tagged_document


@dataclass(frozen=True)
class _Layout:
    """The columns of a file, as its first line has them."""

    first: Line

    @property
    def separator(self) -> str:
        return "\t" if "\t" in self.first.text else " "

    @property
    def width(self) -> int:
        return len(self.fields(self.first))

    def fields(self, line: Line) -> list[str]:
        # Not at any white space: a word may be, or hold, a no-break space.
        fields = line.content.split(self.separator)
        return fields if self.separator == "\t" else [f for f in fields if f]


def read(span: Span, source: ConllSourceConfig) -> Iterator[Document | Rejected]:
    """A document for each sentence; the span is the whole file."""
    layout: _Layout | None = None
    left_out = ("-DOCSTART-", *([source.comment] if source.comment else []))
    for block in sentences(lines(span, source.encoding)):
        sentence = [line for line in block if not line.text.startswith(left_out)]
        if sentence:
            layout = layout or _Layout(sentence[0])
            yield _document(sentence, layout, source, span.file.name)


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


def _document(
    sentence: list[Line], layout: _Layout, source: ConllSourceConfig, name: str
) -> Document | Rejected:
    offset, width = sentence[0].offset, layout.width
    rows = [layout.fields(line) for line in sentence]
    text = "".join(line.text for line in sentence)
    shown = excerpt(text), len(text)
    for line, row in zip(sentence, rows, strict=True):
        if line.rejected:
            return line.rejected
        if len(row) != width:
            reason, told = (
                "not as many columns as the first line",
                _compared(line, row, layout),
            )
            is_cut = line.is_open and len(row) < width
            if is_cut:
                reason = "truncated sentence"
            place = name, line.offset
            return Rejected(reason, *place, told, len(text), doubtful=is_cut)
    try:
        words = [row[source.word_column] for row in rows]
        tags = [row[source.tag_column] for row in rows]
    except IndexError:
        wanted = f"{source.word_column} and {source.tag_column}"
        reason = f"{width} columns, which are not enough for {wanted}"
        return Rejected(reason, name, offset, *shown)
    if source.word_column % width == source.tag_column % width:
        reason = "one column, which is the word and the tag"
        return Rejected(reason, name, offset, *shown)
    return tagged_document(words, tags, name, offset)


def _compared(line: Line, row: list[str], layout: _Layout) -> str:
    """A line beside the one that says how many columns there are."""
    first = layout.first
    told = (
        f"{len(row)} in {excerpt(line.content)!r}, {layout.width} in the first line, "
        f"{excerpt(first.content)!r}"
    )
    if any(one.text.startswith("#") for one in (line, first)):
        told += "; lines that are no words are left out with data.source.comment"
    return told
