"""Reads tagged words in columns, such as CoNLL 2003 and WNUT 17.

A blank line follows each sentence. Columns are separated by tabs if the first line that
is not skipped contains a tab, else by spaces. A sentence is rejected if any of its
lines differs from this first line in the number of columns. Lines that begin with the
configured `comment`, and `-DOCSTART-` lines, which separate documents, are skipped. The
offset of a sentence is the offset of its first byte.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from transbeam.configs.schema.table_sources import ConllSourceConfig
from transbeam.pipeline.documents.document import Document, Rejected, Span, excerpt
from transbeam.pipeline.sources.decoding.text_decoding import Line, lines
from transbeam.pipeline.sources.readers.table_rows import tagged_document


@dataclass(frozen=True)
class _Layout:
    """The column layout of a file, determined by the first line that is not skipped."""

    first: Line

    @property
    def separator(self) -> str:
        return "\t" if "\t" in self.first.text else " "

    @property
    def width(self) -> int:
        return len(self.fields(self.first))

    def fields(self, line: Line) -> list[str]:
        # Only at the separator: a word may contain a no-break space.
        fields = line.content.split(self.separator)
        return fields if self.separator == "\t" else [f for f in fields if f]


def read(span: Span, source: ConllSourceConfig) -> Iterator[Document | Rejected]:
    """Yields a document per sentence; the span is the whole file."""
    layout: _Layout | None = None
    left_out = ("-DOCSTART-", *([source.comment] if source.comment else []))
    for block in sentences(lines(span, source.encoding)):
        sentence = [line for line in block if not line.text.startswith(left_out)]
        if sentence:
            layout = layout or _Layout(sentence[0])
            yield _document(sentence, layout, source, span.file.name)


def sentences(source: Iterable[Line]) -> Iterator[list[Line]]:
    """Yields the runs of lines between blank lines."""
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
    for line, row in zip(sentence, rows, strict=True):
        if line.rejected:
            return line.rejected
        if len(row) != width:
            is_cut = line.is_open and len(row) < width
            return Rejected(
                "truncated sentence"
                if is_cut
                else "not as many columns as the first line",
                name,
                line.offset,
                _compared(line, row, layout),
                len(text),
                doubtful=is_cut,
            )
    try:
        words = [row[source.word_column] for row in rows]
        tags = [row[source.tag_column] for row in rows]
    except IndexError:
        wanted = f"{source.word_column} and {source.tag_column}"
        reason = f"{width} columns, which are not enough for {wanted}"
        return Rejected.from_content(reason, name, offset, text)
    if source.word_column % width == source.tag_column % width:
        reason = "one column, which is the word and the tag"
        return Rejected.from_content(reason, name, offset, text)
    return tagged_document(words, tags, name, offset)


def _compared(line: Line, row: list[str], layout: _Layout) -> str:
    """Describes a line in comparison with the first line."""
    first = layout.first
    text = (
        f"{len(row)} in {excerpt(line.content)!r}, {layout.width} in the first line, "
        f"{excerpt(first.content)!r}"
    )
    if any(one.text.startswith("#") for one in (line, first)):
        text += "; lines that are no words are left out with data.source.comment"
    return text
