"""Where documents come from: listing a corpus, cutting it into work, reading it.

A unit of work is some 4 MB of source. The cut depends on the files' names and sizes
alone, so every run over the same corpus has the same units, and each unit becomes the
same documents, whoever works on it and when.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from configs.encodings import DETECT
from configs.errors import DataError
from configs.sources import (
    ArraysSource,
    ImagesSource,
    MixtureSource,
    PythonDocsSource,
    SingleSource,
    Source,
    TextSource,
    WarcSource,
    WikipediaSource,
    ZipSource,
)
from configs.table_sources import (
    ConllSource,
    ConlluSource,
    CsvSource,
    JsonlSource,
    ParallelSource,
    ParquetSource,
    SquadSource,
    TFRecordSource,
)
from pipeline.documents import Document, Filtered, Rejected
from pipeline.readers import (
    arrays,
    conll,
    conllu,
    csv_table,
    images,
    jsonl,
    parallel,
    parquet,
    plain_text,
    python_docs,
    squad,
    tfrecord,
    warc,
    wikipedia,
    zip_archive,
)
from pipeline.readers.files import (
    BrokenFile,
    is_compressed,
    matching_files,
    size_now,
)
from pipeline.spans import SourceFile, Span

_READERS = {
    ArraysSource: arrays,
    ConllSource: conll,
    ConlluSource: conllu,
    CsvSource: csv_table,
    ImagesSource: images,
    JsonlSource: jsonl,
    ParallelSource: parallel,
    ParquetSource: parquet,
    PythonDocsSource: python_docs,
    SquadSource: squad,
    TFRecordSource: tfrecord,
    TextSource: plain_text,
    WarcSource: warc,
    WikipediaSource: wikipedia,
    ZipSource: zip_archive,
}


@dataclass(frozen=True)
class Unit:
    """What one worker reads in one go: spans of one source."""

    index: int
    spans: tuple[Span, ...]

    @property
    def size(self) -> int:
        """Source bytes of the unit."""
        return sum(span.size for span in self.spans)

    @property
    def part(self) -> int:
        """Which part of the corpus the unit is from; 0 where there is only one."""
        return self.spans[0].file.part


@dataclass(frozen=True)
class CorpusPart:
    """One source of a corpus.

    Attributes:
        source: The source.
        weight: How often each of its training documents is used.
        held_out: Whether it is of `data.validation_source`.
    """

    source: SingleSource
    weight: float = 1.0
    held_out: bool = False

    @property
    def key(self) -> str:
        """Where it stands in the configuration."""
        return "data.validation_source" if self.held_out else "data.source"


def parts_of(
    source: Source, validation_source: Source | None = None
) -> tuple[CorpusPart, ...]:
    """The sources a corpus consists of, those held out behind the others."""
    parts: list[CorpusPart] = []
    for held_out, given in ((False, source), (True, validation_source)):
        if isinstance(given, MixtureSource):
            parts += [CorpusPart(p.source, p.weight, held_out) for p in given.parts]
        elif given is not None:
            parts.append(CorpusPart(given, held_out=held_out))
    return tuple(parts)


def list_files(
    source: Source, validation_source: Source | None = None
) -> list[SourceFile]:
    """All files of a corpus, sorted by its parts (`parts_of`) and by name.

    Raises:
        DataError: A source has no files, or only empty ones; or a file would be read
            twice.
    """
    parts = parts_of(source, validation_source)
    files = [
        replace(file, part=index)
        for index, part in enumerate(parts)
        for file in sorted(_files_of(part), key=lambda file: file.name)
    ]
    _refuse_twice(files, parts)
    return _told_apart(files)


def _told_apart(files: Sequence[SourceFile]) -> list[SourceFile]:
    """The files with a name of its own for each: files of one name get their part's.

    Provenance needs that; the path would differ between machines.
    """
    often = Counter(file.name for file in files)
    names = [f"{f.part}/{f.name}" if often[f.name] > 1 else f.name for f in files]
    if len(set(names)) < len(files):  # a folder of the corpus is called as a part
        names = [f"{file.part}/{file.name}" for file in files]
    return [replace(f, name=name) for f, name in zip(files, names, strict=True)]


def _files_of(part: CorpusPart) -> list[SourceFile]:
    with _named_by(part):
        files, where = _matches(part.source)
    if not files:
        raise DataError(
            f"{part.key}: no file matches {where} (seen from {Path.cwd()}). "
            "Mend the path or put the corpus there"
        )
    if not any(file.size for file in files):
        raise DataError(
            f"{part.key}: all {len(files)} files of {where} are empty. There is "
            f"nothing to {'validate on' if part.held_out else 'learn from'}"
        )
    return files


def _matches(source: SingleSource) -> tuple[list[SourceFile], str]:
    """The files of a source, and what they were asked for by."""
    match source:
        case PythonDocsSource():
            return python_docs.list_files(source), f"{list(source.packages)}"
        case ParallelSource():
            return parallel.list_files(source), f"{source.path!r}"
        case _:
            return matching_files(source.path), f"{source.path!r}"


@contextmanager
def _named_by(part: CorpusPart) -> Iterator[None]:
    """What readers say of `data.source` is said of the key the part stands at."""
    try:
        yield
    except DataError as error:
        told = re.sub(r"(?<![\w/.])data\.source(?![\w/])", part.key, str(error))
        raise DataError(told) from error


def _refuse_twice(files: Iterable[SourceFile], parts: Sequence[CorpusPart]) -> None:
    met: dict[str | tuple[int, int], SourceFile] = {}
    for file in _with_partners(files):
        first = met.setdefault(file.inode or file.path, file)
        if first is file:
            continue
        key = parts[file.part].key
        one, other = (
            f"{f.path} (part {f.part}{', held out' * parts[f.part].held_out})"
            for f in (first, file)
        )
        raise DataError(
            f"{key}: the same file would be read twice: {one} and {other}. Narrow the "
            "path; to train on a source more often, give it a weight in a mixture"
        )


def _with_partners(files: Iterable[SourceFile]) -> Iterator[SourceFile]:
    for file in files:
        yield file
        if file.partner is not None:
            yield replace(file.partner, part=file.part)


def plan_units(
    files: Sequence[SourceFile],
    source: Source,
    unit_bytes: int,
    validation_source: Source | None = None,
) -> list[Unit]:
    """Cuts a corpus into units of about `unit_bytes` each, none of two parts.

    A large file of lines or paragraphs is cut inside; other files stay whole.
    """
    parts = parts_of(source, validation_source)
    units: list[Unit] = []
    for index, of_part in groupby(files, lambda file: file.part):
        spans: list[Span] = []
        size = 0
        for span in _spans(of_part, parts[index].source, unit_bytes):
            spans.append(span)
            size += span.size
            if size >= unit_bytes:
                units.append(Unit(len(units), tuple(spans)))
                spans, size = [], 0
        if spans:
            units.append(Unit(len(units), tuple(spans)))
    return units


def _spans(
    files: Iterable[SourceFile], source: SingleSource, unit_bytes: int
) -> Iterator[Span]:
    for file in files:
        whole = max(file.size, 1)
        step = unit_bytes if _is_splittable(file, source) else whole
        for start in range(0, whole, step):
            yield Span(file, start, min(start + step, file.size))


def _is_splittable(file: SourceFile, source: SingleSource) -> bool:
    """Whether several workers may read a file, each from somewhere in the middle."""
    match source:
        case TextSource():
            by_line = source.document != "file"
        case JsonlSource():
            by_line = True
        case CsvSource():
            by_line = csv_table.is_splittable(source)
        case _:
            return False
    # To detect an encoding may take reading all that is before.
    return by_line and source.encoding != DETECT and not is_compressed(file)


def read_unit(
    unit: Unit, source: Source, validation_source: Source | None = None
) -> Iterator[Document | Filtered | Rejected]:
    """Every document of a unit, in order.

    What cannot be read comes as `Rejected`, what a reader leaves out by rule as
    `Filtered`. A file that breaks off is one `Rejected` after all that was read of it.

    Raises:
        DataError: A file cannot be opened, or has gone or changed its size since it
            was listed.
    """
    part = parts_of(source, validation_source)[unit.part]
    reader = _READERS[type(part.source)]
    for span in unit.spans:
        file = span.file
        try:
            for listed in _with_partners([file]):
                _check_unchanged(listed)
            with _named_by(part):
                yield from reader.read(span, part.source)
        except BrokenFile as broken:
            yield Rejected(broken.reason, file.name, broken.offset, broken.detail)
        except OSError as error:
            raise DataError(
                f"{file.path}: cannot be read: {error.strerror or error}. Mend its "
                "rights or take it out of the corpus"
            ) from error


def _check_unchanged(file: SourceFile) -> None:
    size = size_now(file)
    if size != file.size:
        raise DataError(
            f"{file.path}: changed while the job ran ({file.size} bytes when listed, "
            f"{size} now). Run the job again on a corpus that keeps still"
        )


def corpus_fingerprint(files: Sequence[SourceFile]) -> str:
    """Changes when a file is added, removed, resized or written anew."""
    digest = hashlib.sha256()
    for file in _with_partners(files):
        digest.update(f"{file.name}\0{file.size}\0{file.modified}\n".encode())
    return digest.hexdigest()[:16]
