"""Lists the files of a corpus, from all its sources, with unique names."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.sources import (
    MixtureSourceConfig,
    PythonDocsSourceConfig,
    SingleSource,
    Source,
)
from transbeam.configs.schema.table_sources import ParallelSourceConfig
from transbeam.pipeline.documents.document import SourceFile
from transbeam.pipeline.sources.files.file_access import matching_files
from transbeam.pipeline.sources.readers import parallel, python_docs


@dataclass(frozen=True)
class CorpusPart:
    """One source of a corpus.

    Attributes:
        source: The source.
        weight: The number of repetitions of the source's training documents.
        held_out: Whether the source is from `data.validation_source`.
        name: The name of the part of a mixture, if it has one.
    """

    source: SingleSource
    weight: float = 1.0
    held_out: bool = False
    name: str | None = None

    @property
    def key(self) -> str:
        """The key of the source in the configuration."""
        return "data.validation_source" if self.held_out else "data.source"


def list_sources(
    source: Source, validation_source: Source | None = None
) -> tuple[CorpusPart, ...]:
    """Returns the sources of a corpus, validation sources last."""
    parts: list[CorpusPart] = []
    for held_out, given in ((False, source), (True, validation_source)):
        if isinstance(given, MixtureSourceConfig):
            parts += [
                CorpusPart(p.source, p.weight, held_out, p.name) for p in given.parts
            ]
        elif given is not None:
            parts.append(CorpusPart(given, held_out=held_out))
    return tuple(parts)


def list_files(
    source: Source, validation_source: Source | None = None
) -> list[SourceFile]:
    """Lists all files of a corpus, sorted by source (`list_sources`) and by name.

    Raises:
        DataError: A source has no files, or only empty files; or a file would be read
            twice.
    """
    parts = list_sources(source, validation_source)
    files = [
        replace(file, part=index)
        for index, part in enumerate(parts)
        for file in sorted(_list_files(part), key=lambda file: file.name)
    ]
    _refuse_twice(files, parts)
    return _with_unique_names(files)


def missing_paths(source: Source | None) -> list[str]:
    """Returns the paths of a corpus, or globs, that match no file.

    Raises:
        DataError: A path cannot be listed; see `matching_files`.

    Example:
    >>> from transbeam.configs.schema.sources import TextSourceConfig
    >>> missing_paths(TextSourceConfig(path="no/such.txt"))
    ['no/such.txt']
    """
    paths: list[str] = []
    for part in () if source is None else list_sources(source):
        of_part = part.source
        if isinstance(of_part, ParallelSourceConfig):
            paths += [of_part.path, of_part.target_path]
        elif not isinstance(of_part, PythonDocsSourceConfig):
            paths.append(of_part.path)
    return [path for path in dict.fromkeys(paths) if not matching_files(path)]


def _with_unique_names(files: Sequence[SourceFile]) -> list[SourceFile]:
    """Makes file names unique: prefixes repeated names with the index of the source.

    Provenance needs unique names; paths would differ between machines.
    """
    often = Counter(file.name for file in files)
    names = [f"{f.part}/{f.name}" if often[f.name] > 1 else f.name for f in files]
    if len(set(names)) < len(files):  # a folder is named like a prefix
        names = [f"{file.part}/{file.name}" for file in files]
    return [replace(f, name=name) for f, name in zip(files, names, strict=True)]


def _list_files(part: CorpusPart) -> list[SourceFile]:
    with errors_named(part.key):
        files, where = _matches(part.source)
    if not files:
        raise DataError(
            f"{part.key}: no file matches {where} (seen from {Path.cwd()}). "
            f"Fix the path or put the corpus there{_bracket_hint(part.source)}"
        )
    if not any(file.size for file in files):
        raise DataError(
            f"{part.key}: all {len(files)} files of {where} are empty. There is "
            f"nothing to {'validate on' if part.held_out else 'learn from'}"
        )
    return files


def _bracket_hint(source: SingleSource) -> str:
    if isinstance(source, PythonDocsSourceConfig) or "[" not in source.path:
        return ""
    return (
        ". In a path `[ab]` is one character, a or b; a bracket in a name is written "
        "`[[]`"
    )


def _matches(source: SingleSource) -> tuple[list[SourceFile], str]:
    """Returns the files of a source and the pattern that they matched."""
    match source:
        case PythonDocsSourceConfig():
            return python_docs.list_files(source), f"{list(source.packages)}"
        case ParallelSourceConfig():
            return parallel.list_files(source), f"{source.path!r}"
        case _:
            return matching_files(source.path), f"{source.path!r}"


@contextmanager
def errors_named(key: str) -> Iterator[None]:
    """Replaces `data.source` and `data.validation_source` in errors by `key`."""
    try:
        yield
    except DataError as error:
        of_source = r"(?<![\w/.])data\.(validation_)?source(?![\w/])"
        raise DataError(re.sub(of_source, key, str(error))) from error


def _refuse_twice(files: Iterable[SourceFile], parts: Sequence[CorpusPart]) -> None:
    """Rejects files that are read twice, unless they share no document.

    Allowed are parallel files in both directions, ranges of hashes that do not overlap,
    and rows with other values of a column.
    """
    met: dict[str, list[SourceFile]] = {}  # previous files by path
    for file in files:
        for side in with_partners([file]):
            before = met.setdefault(os.path.realpath(side.path), [])
            for first in before:
                one, other = parts[first.part], parts[file.part]
                if _share_no_document(one.source, other.source):
                    continue
                trains = not (one.held_out or other.held_out)
                if not (trains and _are_one_pair_turned(first, file)):
                    raise _read_twice(side, first, file, parts)
            before.append(file)


def _share_no_document(one: SingleSource, other: SingleSource) -> bool:
    """Returns whether two sources of the same files select different documents.

    They have ranges of hashes that do not overlap, or other values of a column.
    """
    wheres = [_where(source) for source in (one, other)]
    if any(wheres[1].get(name, value) != value for name, value in wheres[0].items()):
        return True
    if one.hash_range is None or other.hash_range is None:
        return False
    given = [{**vars(s), "path": "", "hash_range": None} for s in (one, other)]
    is_same = type(one) is type(other) and given[0] == given[1]
    overlap = min(one.hash_range[1], other.hash_range[1]) - max(
        one.hash_range[0], other.hash_range[0]
    )
    return is_same and overlap <= 0


def _where(source: SingleSource) -> Mapping[str, str]:
    columns = getattr(source, "columns", None)
    return (columns.where if columns else None) or {}


def _are_one_pair_turned(one: SourceFile, other: SourceFile) -> bool:
    ends, turned = (
        [os.path.realpath(side.path) for side in with_partners([file])]
        for file in (one, other)
    )
    return one is not other and len(ends) == 2 and turned == ends[::-1]


def _read_twice(
    side: SourceFile, first: SourceFile, file: SourceFile, parts: Sequence[CorpusPart]
) -> DataError:
    real = os.path.realpath(side.path)
    there = next(x for x in with_partners([first]) if os.path.realpath(x.path) == real)
    one, other = (
        f"{f.path} (part {f.part}{', held out' * parts[f.part].held_out})"
        for f in (there, side)
    )
    return DataError(
        f"{parts[file.part].key}: the same file would be read twice: {one} and "
        f"{other}. Narrow the path; to train on a source more often, give it a weight "
        "in a mixture"
    )


def with_partners(files: Iterable[SourceFile]) -> Iterator[SourceFile]:
    """Yields files, each followed by its line-aligned partner file, if any."""
    for file in files:
        yield file
        if file.partner is not None:
            yield replace(file.partner, part=file.part)


def corpus_fingerprint(files: Sequence[SourceFile]) -> str:
    """Computes a hash of the names, sizes and modification times of all files."""
    digest = hashlib.sha256()
    for file in with_partners(files):
        known = (file.part, file.name, file.size, file.modified)
        digest.update("\0".join(map(str, known)).encode() + b"\n")
    return digest.hexdigest()[:16]
