"""Reads Universal Dependencies treebanks (CoNLL-U), always in UTF-8.

The words of a document are the syntactic words, which have integer ids, because only
syntactic words are annotated. Skipped are

- multiword tokens (`1-2  don't`): their words follow (`1  do`, `2  n't`);
- empty nodes (`8.1`), which represent elided words;
- comments, including the raw text (`# text =`).

A sentence is rejected if its ids are not consecutive from 1 or a word lacks the
selected tag (`_`). The offset of a sentence is the offset of its first byte.

References:
    - [CoNLL-U format](https://universaldependencies.org/format.html)
"""

from collections.abc import Iterator

from transbeam.configs.schema.table_sources import ConlluSourceConfig
from transbeam.pipeline.documents.document import Document, Rejected, Span, excerpt
from transbeam.pipeline.sources.decoding.text_decoding import Line, lines
from transbeam.pipeline.sources.readers.conll import sentences
from transbeam.pipeline.sources.readers.table_rows import tagged_document

_TAG_COLUMN = {"upos": 3, "xpos": 4, "deprel": 7}
_NUM_COLUMNS = 10
_UNSPECIFIED = "_"


def read(span: Span, source: ConlluSourceConfig) -> Iterator[Document | Rejected]:
    """Yields a document per sentence; the span is the whole file."""
    for sentence in sentences(lines(span, "utf-8")):
        if annotated := [line for line in sentence if not line.text.startswith("#")]:
            yield _document(annotated, source.tags, span.file.name)


def _document(sentence: list[Line], tags: str, name: str) -> Document | Rejected:
    offset = sentence[0].offset
    text = "".join(line.text for line in sentence)
    for line in sentence:
        if line.rejected:
            return line.rejected
    rows = [line.content.split("\t") for line in sentence]
    for line, row in zip(sentence, rows, strict=True):
        if len(row) != _NUM_COLUMNS:
            is_cut = line.is_open and len(row) < _NUM_COLUMNS
            return Rejected(
                "truncated sentence"
                if is_cut
                else f"not the {_NUM_COLUMNS} columns of CoNLL-U",
                name,
                line.offset,
                f"{len(row)} in {excerpt(line.content)!r}",
                len(text),
                doubtful=is_cut,
            )
    rows = [row for row in rows if "-" not in row[0] and "." not in row[0]]
    if [row[0] for row in rows] != [str(i) for i in range(1, len(rows) + 1)]:
        reason = "ids that do not count up from 1"
        return Rejected.from_content(reason, name, offset, text)
    found = [row[_TAG_COLUMN[tags]] for row in rows]
    if _UNSPECIFIED in found:
        return Rejected.from_content(f"a word without {tags}", name, offset, text)
    return tagged_document([row[1] for row in rows], found, name, offset)
