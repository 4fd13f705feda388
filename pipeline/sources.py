"""Where documents come from: listing a corpus, cutting it into work, reading it.

A unit of work is some 4 MB of source. The cut depends on the files' names and sizes
alone, so every run over the same corpus has the same units, and each unit becomes the
same documents, whoever works on it and when.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from configs.encodings import DETECT
from configs.errors import DataError
from configs.sources import (
    ArraysSource,
    ImagesSource,
    MixturePart,
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
    real_path,
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
        """Which source of a mixture the unit is from; 0 where there is only one."""
        return self.spans[0].file.part


def parts_of(source: Source) -> tuple[MixturePart, ...]:
    """The sources of a mixture with their weights; any other source with weight 1."""
    if isinstance(source, MixtureSource):
        return source.parts
    return (MixturePart(source=source),)


def list_files(source: Source) -> list[SourceFile]:
    """All files of a corpus, sorted by source of the mixture and by name.

    Raises:
        DataError: A source has no files, or only empty ones; or a file would be read
            twice.
    """
    files = [
        replace(file, part=index)
        for index, part in enumerate(parts_of(source))
        for file in sorted(_files_of(part.source), key=lambda file: file.name)
    ]
    _refuse_twice(files)
    # Provenance needs a name for each file; the path would differ between machines.
    often = Counter(file.name for file in files)
    return [
        replace(file, name=f"{file.part}/{file.name}") if often[file.name] > 1 else file
        for file in files
    ]


def _files_of(source: SingleSource) -> list[SourceFile]:
    match source:
        case PythonDocsSource():
            files, where = python_docs.list_files(source), f"{list(source.packages)}"
        case ParallelSource():
            files, where = parallel.list_files(source), f"{source.path!r}"
        case _:
            files, where = matching_files(source.path), f"{source.path!r}"
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
    return files


def _refuse_twice(files: Iterable[SourceFile]) -> None:
    met: dict[str, SourceFile] = {}
    for file in _with_partners(files):
        first = met.setdefault(real_path(file), file)
        if first is not file:
            raise DataError(
                f"data.source: the same file would be read twice: {first.path} (part "
                f"{first.part}) and {file.path} (part {file.part}). Narrow the path; "
                "to use a source more often, give it a weight in a mixture"
            )


def _with_partners(files: Iterable[SourceFile]) -> Iterator[SourceFile]:
    for file in files:
        yield file
        if file.partner is not None:
            yield replace(file.partner, part=file.part)


def plan_units(
    files: Sequence[SourceFile], source: Source, unit_bytes: int
) -> list[Unit]:
    """Cuts a corpus into units of about `unit_bytes` each, none of two sources.

    A large file of lines or paragraphs is cut inside; other files stay whole.
    """
    parts = parts_of(source)
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


def read_unit(unit: Unit, source: Source) -> Iterator[Document | Filtered | Rejected]:
    """Every document of a unit, in order.

    What cannot be read comes as `Rejected`, what a reader leaves out by rule as
    `Filtered`. A file that breaks off is one `Rejected` after all that was read of it.

    Raises:
        DataError: A file cannot be opened, or has gone or changed its size since it
            was listed.
    """
    part = parts_of(source)[unit.part].source
    reader = _READERS[type(part)]
    for span in unit.spans:
        file = span.file
        try:
            for listed in _with_partners([file]):
                _check_unchanged(listed)
            yield from reader.read(span, part)
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
