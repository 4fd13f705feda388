"""Keys that the kinds of `data.source` share, with their checks."""

from transbeam.configs.base.encodings import check_encoding
from transbeam.configs.base.errors import ConfigError

ENCODING = (
    "Encoding of the files: a Python codec such as utf-8, cp1252 or utf-16; or "
    "`detect`: by the byte order mark, else UTF-8, else chardet's estimate. Files "
    "whose encoding cannot be detected reliably go to quarantine."
)


HASH_RANGE = (
    "Range of hashes, as numbers from 0 to 1, of the documents that are used: [0, 0.8] "
    "for four fifths of them. Sources that read the same files with the same columns "
    "share no document if their ranges do not overlap. The hash is that of a "
    "document's inputs (not of labels or targets) before cleaning. Left out: all "
    "documents."
)


class SourceConfig:
    """Base class of sources: checks the range of hashes."""

    hash_range: tuple[float, ...] | None

    def __post_init__(self) -> None:
        given = self.hash_range
        if given is None:
            return
        if len(given) != 2 or not 0.0 <= given[0] < given[1] <= 1.0:
            raise ConfigError(
                f"hash_range={list(given)}: expected two ascending numbers from 0 to "
                "1, such as [0, 0.8]"
            )


class EncodedSourceConfig(SourceConfig):
    """Base class of sources of text files: also checks their encoding."""

    encoding: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_encoding(self.encoding)
