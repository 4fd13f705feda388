"""`data.source`: text, images and mixtures, one kind for each file format."""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option
from transbeam.configs.schema.source_options import (
    ENCODING,
    HASH_RANGE,
    EncodedSourceConfig,
    SourceConfig,
)
from transbeam.configs.schema.table_sources import TableSource

_DOCUMENT = (
    "Unit of a document: a line, a paragraph that ends at a blank line, or a file."
)


@dataclass(frozen=True, kw_only=True)
class TextSourceConfig(EncodedSourceConfig):
    """Plain text files, also compressed (.gz, .bz2, .xz, .zst)."""

    kind: Literal["text"] = "text"
    path: str
    """Glob of the files, such as `corpus/**/*.txt`."""

    hash_range: tuple[float, ...] | None = option(None, doc=HASH_RANGE)

    document: Literal["line", "paragraph", "file"] = option("paragraph", doc=_DOCUMENT)
    encoding: str = option("utf-8", doc=ENCODING)


@dataclass(frozen=True, kw_only=True)
class ZipSourceConfig(EncodedSourceConfig):
    """Plain text files inside zip archives."""

    kind: Literal["zip"] = "zip"
    path: str
    """Glob of the archives, such as `corpus/*.zip`."""

    hash_range: tuple[float, ...] | None = option(None, doc=HASH_RANGE)

    members: str = "*.txt"
    """Pattern of the files to read, matched against the whole path in the archive; `*`
    also matches `/`.
    """

    document: Literal["line", "paragraph", "file"] = option("file", doc=_DOCUMENT)
    encoding: str = option("utf-8", doc=ENCODING)


@dataclass(frozen=True, kw_only=True)
class WikipediaSourceConfig(SourceConfig):
    """The articles of a Wikipedia dump (MediaWiki's XML export), as plain text."""

    kind: Literal["wikipedia"] = "wikipedia"
    path: str
    """Glob of the dumps, such as `*-pages-articles*.xml.bz2`."""

    hash_range: tuple[float, ...] | None = option(None, doc=HASH_RANGE)


@dataclass(frozen=True, kw_only=True)
class WarcSourceConfig(SourceConfig):
    """Web archives: the text of WET files, and of the pages in WARC files."""

    kind: Literal["warc"] = "warc"
    path: str
    """Glob of the archives, such as `CC-MAIN-*.warc.wet.gz`."""

    hash_range: tuple[float, ...] | None = option(None, doc=HASH_RANGE)


@dataclass(frozen=True, kw_only=True)
class PythonDocsSourceConfig(SourceConfig):
    """The docstrings of installed Python packages, read from their source files.

    The packages are parsed, never imported. Docstrings of installed packages are a
    corpus that needs no download.
    """

    kind: Literal["python_docs"] = "python_docs"
    packages: tuple[str, ...]
    """Top-level packages to read, such as `numpy`."""

    hash_range: tuple[float, ...] | None = option(None, doc=HASH_RANGE)

    examples: Literal["docstrings", "summaries"] = "docstrings"
    """`docstrings`: each docstring is a document. `summaries`: the code of each
    documented function is the text, and the first paragraph of its docstring the target
    text.
    """


@dataclass(frozen=True, kw_only=True)
class ImagesSourceConfig(SourceConfig):
    """Image files in one folder per class."""

    kind: Literal["images"] = "images"
    path: str
    """Glob of the files, such as `flowers/*/*.png`; the name of a file's folder is its
    label.
    """

    hash_range: tuple[float, ...] | None = option(None, doc=HASH_RANGE)

    image_size: int = option(224, minimum=1, maximum=4096)
    """Height and width in pixels to which every image is resized; objective.image_size
    must be equal.
    """


@dataclass(frozen=True, kw_only=True)
class ArraysSourceConfig(SourceConfig):
    """Images with labels in NumPy archives (.npz), all of one size."""

    kind: Literal["arrays"] = "arrays"
    path: str
    """Glob of the archives."""

    hash_range: tuple[float, ...] | None = option(None, doc=HASH_RANGE)

    images: str = "images"
    """Name of the uint8 array of shape (count, height, width) or (count, height, width,
    channels).
    """

    labels: str = "labels"
    """Name of the array of (count,) labels."""


FileSource = (
    TextSourceConfig
    | ZipSourceConfig
    | WikipediaSourceConfig
    | WarcSourceConfig
    | PythonDocsSourceConfig
    | ImagesSourceConfig
    | ArraysSourceConfig
)
SingleSource = FileSource | TableSource


@dataclass(frozen=True, kw_only=True)
class MixturePartConfig:
    """One source of a mixture, its weight and name."""

    source: SingleSource
    """Any source except another mixture."""

    weight: float = option(1.0, minimum=0.0, maximum=100.0)
    """Number of times each training document is used: 2 uses it twice, with different
    random choices; 0.5 uses half of the documents, selected by hash.
    """

    name: str | None = None
    """Name of the part: `transbeam evaluate` reports the scores of generated texts for
    each name, besides those of all. Parts with the same name are scored together.
    """


@dataclass(frozen=True, kw_only=True)
class MixtureSourceConfig:
    """A weighted mixture of several sources."""

    kind: Literal["mixture"] = "mixture"
    parts: tuple[MixturePartConfig, ...]
    """The sources: a list of {source: {kind: ..., ...}, weight: 1.0}."""

    def __post_init__(self) -> None:
        if not self.parts:
            raise ConfigError("parts: expected at least one source, found none")
        if any(part.name is not None and not part.name.strip() for part in self.parts):
            raise ConfigError("parts: a part's name is empty")


Source = SingleSource | MixtureSourceConfig


def check_weights(key: str, source: Source | None) -> None:
    """Checks that an evaluation source has no weights: each document occurs once.

    Raises:
        ConfigError: A part of the evaluation mixture has a weight other than 1.
    """
    if not isinstance(source, MixtureSourceConfig):
        return
    for number, part in enumerate(source.parts):
        if part.weight != 1.0:
            raise ConfigError(
                f"{key}: part {number} has weight={part.weight}, but a weight says how "
                "often a document is trained on. Remove it"
            )
