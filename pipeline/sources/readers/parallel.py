"""Reads two line-aligned files: line i of one is the target of line i of the other.

No line is skipped, so that the lines stay aligned: a pair with an empty source is a
document without text (which the cleaning filters); a pair in which only the target is
empty is rejected. A pair's offset is its line number, counted from 1.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.table_sources import ParallelSourceConfig
from transbeam.pipeline.documents.document import (
    Document,
    Rejected,
    SourceFile,
    Span,
)
from transbeam.pipeline.sources.decoding.text_decoding import Line, lines
from transbeam.pipeline.sources.files.file_access import matching_files
from transbeam.pipeline.sources.files.reading_report import report_note

# A line that is a tag, or a text between tags like a segment of WMT's SGML.
_MARKUP = re.compile(
    r"\s*</?[A-Za-z][\w:-]*(?:\s[^<>]*)?/?>(?:.*</[A-Za-z][\w:-]*>)?\s*$"
)
_MUCH_MARKUP = 0.1
_PACKED = re.compile(r"\.(?:gz|bz2|xz|zst)$", re.IGNORECASE)


def list_files(source: ParallelSourceConfig) -> list[SourceFile]:
    """Lists the source files, each with its target file as partner.

    Raises:
        DataError: The numbers of source and target files differ, or the file names
            suggest other pairs.
    """
    files, partners = (
        sorted(matching_files(pattern), key=lambda file: file.name)
        for pattern in (source.path, source.target_path)
    )
    if len(files) != len(partners):
        raise DataError(
            f"data.source: {source.path!r} matches {len(files)} files and "
            f"{source.target_path!r} {len(partners)}: they pair up one to one, sorted "
            "by name. Fix the paths or add what is missing"
        )
    _check_names(files, partners)
    return [
        replace(file, partner=partner)
        for file, partner in zip(files, partners, strict=True)
    ]


def _check_names(files: Sequence[SourceFile], partners: Sequence[SourceFile]) -> None:
    """Rejects pairs such as `2.en` and `3.de` if there is a `2.de`, too."""
    known = dict(zip(_differing_parts(partners), partners, strict=True))
    for key, file, partner in zip(
        _differing_parts(files), files, partners, strict=True
    ):
        if key and known.get(key, partner) != partner:
            raise DataError(
                f"data.source: {file.name} would go with {partner.name}, but there is "
                f"{known[key].name}: files pair up sorted by name. Add what is missing "
                "on one side, or narrow the globs"
            )


def _differing_parts(files: Sequence[SourceFile]) -> list[tuple[str, ...]]:
    """Returns, for each file, the components of its name that are not in all names."""
    names = [re.split(r"[._/-]", _PACKED.sub("", file.name)) for file in files]
    shared = set(names[0]).intersection(*names) if names else set()
    return [tuple(part for part in name if part not in shared) for name in names]


def read(span: Span, source: ParallelSourceConfig) -> Iterator[Document | Rejected]:
    """Yields a document per pair of lines; the span is the whole file.

    Raises:
        DataError: One file has more lines than the other.
    """
    file, partner = span.file, span.file.partner
    assert partner is not None  # set by `list_files`
    sides = (
        lines(Span(side, 0, side.size), source.encoding) for side in (file, partner)
    )
    counts = [0, 0]
    in_markup = [0, 0]
    for number, pair in enumerate(zip_longest(*sides), start=1):
        text, target = pair
        counts = [n + (line is not None) for n, line in zip(counts, pair, strict=True)]
        for side, line in enumerate(pair):
            in_markup[side] += line is not None and bool(_MARKUP.match(line.text))
        if text is not None and target is not None:
            yield _document(text, target, (file.name, partner.name), number)
    for side, number in zip((file, partner), in_markup, strict=True):
        if number > _MUCH_MARKUP * max(counts):
            what = (
                f"{number:,} of {max(counts):,} lines are tags of SGML or XML, as in "
            )
            what += "the files of shared tasks: take the markup off before"
            report_note("markup", side.name, what)
    if counts[0] != counts[1]:
        raise DataError(
            f"{file.path} has {counts[0]} lines and {partner.path} {counts[1]}: they "
            "do not belong together line by line. Fix the files or the globs"
        )


def _document(
    text: Line, target: Line, names: tuple[str, str], number: int
) -> Document | Rejected:
    for line, name in zip((text, target), names, strict=True):
        if line.rejected:
            return replace(line.rejected, source=name, offset=number)
    name, _ = names
    if text.content.strip() and not target.content.strip():
        return Rejected.from_content("no target", name, number, text.content)
    return Document(text.content, name, number, target_text=target.content)
