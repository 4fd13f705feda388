"""Splits a corpus into work units and reads their documents.

A work unit is about 4 MB of source files. The split depends on the files' names and
sizes alone, so every run over the same corpus has the same units, and each unit yields
the same documents on any worker at any time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from transbeam.configs.base.encodings import DETECT
from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.sources import (
    ArraysSourceConfig,
    ImagesSourceConfig,
    PythonDocsSourceConfig,
    SingleSource,
    Source,
    TextSourceConfig,
    WarcSourceConfig,
    WikipediaSourceConfig,
    ZipSourceConfig,
)
from transbeam.configs.schema.table_sources import (
    ConllSourceConfig,
    ConlluSourceConfig,
    CsvSourceConfig,
    JsonlSourceConfig,
    LabeledLinesSourceConfig,
    ParallelSourceConfig,
    ParquetSourceConfig,
    SquadSourceConfig,
    TFRecordSourceConfig,
    XmlSourceConfig,
)
from transbeam.pipeline.documents.document import (
    BrokenFile,
    Item,
    Rejected,
    SourceFile,
    Span,
)
from transbeam.pipeline.documents.hash_range import apply_hash_range
from transbeam.pipeline.sources.corpus_files import (
    errors_named,
    list_sources,
    with_partners,
)
from transbeam.pipeline.sources.files.file_access import is_compressed, size_now
from transbeam.pipeline.sources.readers import (
    arrays,
    conll,
    conllu,
    csv_table,
    images,
    jsonl,
    labeled_lines,
    parallel,
    parquet,
    plain_text,
    python_docs,
    squad,
    tfrecord,
    warc,
    wikipedia,
    xml_rows,
    zip_archive,
)

_READERS = {
    ArraysSourceConfig: arrays,
    ConllSourceConfig: conll,
    ConlluSourceConfig: conllu,
    CsvSourceConfig: csv_table,
    ImagesSourceConfig: images,
    JsonlSourceConfig: jsonl,
    LabeledLinesSourceConfig: labeled_lines,
    ParallelSourceConfig: parallel,
    ParquetSourceConfig: parquet,
    PythonDocsSourceConfig: python_docs,
    SquadSourceConfig: squad,
    TFRecordSourceConfig: tfrecord,
    TextSourceConfig: plain_text,
    WarcSourceConfig: warc,
    WikipediaSourceConfig: wikipedia,
    XmlSourceConfig: xml_rows,
    ZipSourceConfig: zip_archive,
}

# Line-based sources, whose files can be split.
_BY_LINE = (
    TextSourceConfig,
    JsonlSourceConfig,
    CsvSourceConfig,
    LabeledLinesSourceConfig,
)


@dataclass(frozen=True)
class Unit:
    """A work unit for one worker: spans of one source."""

    index: int
    spans: tuple[Span, ...]

    @property
    def size(self) -> int:
        """The number of source bytes of the unit."""
        return sum(span.size for span in self.spans)

    @property
    def part(self) -> int:
        """The index of the unit's source in the corpus; 0 if it is the only source."""
        return self.spans[0].file.part


def plan_units(
    files: Sequence[SourceFile],
    source: Source,
    unit_bytes: int,
    validation_source: Source | None = None,
) -> list[Unit]:
    """Splits a corpus into units of about `unit_bytes` each, with one source each.

    A large file of lines or paragraphs is split; other files stay whole.
    """
    parts = list_sources(source, validation_source)
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
        step = unit_bytes if _is_splittable(file, source, unit_bytes) else whole
        for start in range(0, whole, step):
            yield Span(file, start, min(start + step, file.size))


def _is_splittable(file: SourceFile, source: SingleSource, unit_bytes: int) -> bool:
    """Returns whether a file can be split, to be read by several workers."""
    if file.size <= unit_bytes or not isinstance(source, _BY_LINE):
        return False
    # Detecting the encoding may require reading the file from the start.
    if source.encoding == DETECT or _may_be_compressed(file):
        return False
    match source:
        case TextSourceConfig():
            return source.document != "file"
        case JsonlSourceConfig():
            return jsonl.is_splittable(file, source)
        case CsvSourceConfig():
            return source.quoting == "none"  # each row is a line
        case LabeledLinesSourceConfig():
            return True


def _may_be_compressed(file: SourceFile) -> bool:
    try:
        return is_compressed(file)
    except OSError:
        return True  # reading the file will report the error


def read_unit(
    unit: Unit, source: Source, validation_source: Source | None = None
) -> Iterator[Item]:
    """Yields the items of `read_spans` without the spans."""
    for _, item in read_spans(unit, source, validation_source):
        yield item


def read_spans(
    unit: Unit, source: Source, validation_source: Source | None = None
) -> Iterator[tuple[Span, Item]]:
    """Yields every document of a unit, in order, with its span.

    Unreadable input is yielded as `Rejected`; a document that a reader leaves out by
    rule is yielded as `Filtered`. Each unreadable part of a file is one `Rejected` with
    its number of bytes. Other information from readers is collected by
    `reading_report.reported`.

    Raises:
        DataError: A file cannot be opened, or was removed or resized since it was
            listed.
    """
    part = list_sources(source, validation_source)[unit.part]
    reader = _READERS[type(part.source)]
    for span in unit.spans:
        file = span.file
        try:
            with errors_named(part.key):
                for listed in with_partners([file]):
                    _check_unchanged(listed)
                for item in reader.read(span, part.source):
                    yield span, apply_hash_range(item, part.source)
        except BrokenFile as broken:
            for entry in _entries(broken, span):
                yield span, entry
        except OSError as error:
            raise DataError(
                f"{file.path}: cannot be read: {error.strerror or error}. Fix its "
                "rights or take it out of the corpus"
            ) from error


def _entries(broken: BrokenFile, span: Span) -> Iterator[Rejected]:
    for damage in broken.damage:
        # The rest of the file belongs to other spans.
        unread = span.size if damage.unread is None else min(damage.unread, span.size)
        yield Rejected(
            damage.reason,
            span.file.name,
            damage.offset,
            damage.detail,
            unread=unread,
            doubtful=damage.doubtful,
        )


def _check_unchanged(file: SourceFile) -> None:
    size = size_now(file)
    if size != file.size:
        raise DataError(
            f"{file.path}: changed while the job ran ({file.size} bytes when listed, "
            f"{size} now). Run the job again on a corpus that keeps still"
        )
