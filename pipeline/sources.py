"""Where documents come from: listing a corpus, cutting it into work, reading it.

A unit of work is some 4 MB of source. The cut depends on the files' names and sizes
alone, so every run over the same corpus has the same units, and each unit becomes the
same shard, whoever works on it and when.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.sources import PythonDocsSource, Source, TextSource
from configs.errors import DataError
from pipeline import plain_text, python_docs
from pipeline.documents import Document, Rejected
from pipeline.spans import SourceFile, Span


@dataclass(frozen=True)
class Unit:
    """What one worker reads in one go, and what becomes one shard."""

    index: int
    spans: tuple[Span, ...]

    @property
    def size(self) -> int:
        """Source bytes of the unit."""
        return sum(span.size for span in self.spans)


def list_files(source: Source) -> list[SourceFile]:
    """All files of a corpus, sorted by name.

    Raises:
        DataError: There are none, or they are all empty.
    """
    match source:
        case TextSource():
            files, where = plain_text.list_files(source), f"{source.path!r}"
        case PythonDocsSource():
            files, where = python_docs.list_files(source), f"{list(source.packages)}"
    if not files:
        raise DataError(
            f"data.source: no file matches {where} (seen from {Path.cwd()}). "
            "Mend the path or put the corpus there"
        )
    if not any(file.size for file in files):
        raise DataError(
            f"data.source: all {len(files)} files of {where} are empty. "
            "There is nothing to learn from"
        )
    return sorted(files, key=lambda file: file.name)


def plan_units(
    files: Sequence[SourceFile], source: Source, unit_bytes: int
) -> list[Unit]:
    """Cuts a corpus into units of about `unit_bytes` each.

    A large file of lines or paragraphs is cut inside; other files stay whole.
    """
    splittable = isinstance(source, TextSource) and source.document != "file"
    units: list[Unit] = []
    spans: list[Span] = []
    for span in _spans(files, unit_bytes if splittable else None):
        spans.append(span)
        if sum(span.size for span in spans) >= unit_bytes:
            units.append(Unit(len(units), tuple(spans)))
            spans = []
    if spans:
        units.append(Unit(len(units), tuple(spans)))
    return units


def _spans(files: Iterable[SourceFile], longest: int | None) -> Iterator[Span]:
    for file in files:
        step = longest or max(file.size, 1)
        for start in range(0, max(file.size, 1), step):
            yield Span(file, start, min(start + step, file.size))


def read_unit(unit: Unit, source: Source) -> Iterator[Document | Rejected]:
    """Every document of a unit, in order; what cannot be read comes as `Rejected`.

    Raises:
        DataError: A file has gone or changed its size since it was listed.
    """
    for span in unit.spans:
        try:
            _check_unchanged(span.file)
            match source:
                case TextSource():
                    yield from plain_text.read(span, source.document)
                case PythonDocsSource():
                    yield from python_docs.read(span.file)
        except OSError as error:
            raise DataError(
                f"{span.file.path}: cannot be read: {error.strerror}. Mend its rights "
                "or take it out of the corpus"
            ) from error


def _check_unchanged(file: SourceFile) -> None:
    size = Path(file.path).stat().st_size
    if size != file.size:
        raise DataError(
            f"{file.path}: changed while the job ran ({file.size} bytes when listed, "
            f"{size} now). Run the job again on a corpus that keeps still"
        )


def corpus_fingerprint(files: Sequence[SourceFile]) -> str:
    """Changes when a file is added, removed, resized or written anew."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0{file.size}\0{file.modified}\n".encode())
    return digest.hexdigest()[:16]
