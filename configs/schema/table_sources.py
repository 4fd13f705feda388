"""`data.source`: tables, line pairs and annotated text, one kind for each format."""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option
from transbeam.configs.schema.columns import ColumnsConfig
from transbeam.configs.schema.source_options import (
    ENCODING,
    HASH_RANGE,
    EncodedSourceConfig,
    SourceConfig,
)

_PATH = (
    "Glob of the files; `.gz`, `.bz2`, `.xz` and `.zst` are decompressed while reading."
)


@dataclass(frozen=True, kw_only=True)
class JsonlSourceConfig(EncodedSourceConfig):
    """JSON objects: one per line, in an array, or spread over several lines."""

    kind: Literal["jsonl"] = "jsonl"
    path: str = option(doc=_PATH)
    hash_range: tuple[float, ...] | None = option(None, doc=HASH_RANGE)
    columns: ColumnsConfig = option(ColumnsConfig)
    """Mapping from fields to the parts of a document."""

    encoding: str = option("utf-8", doc=ENCODING)


@dataclass(frozen=True, kw_only=True)
class CsvSourceConfig(EncodedSourceConfig):
    """Tables of delimited fields, such as CSV and TSV."""

    kind: Literal["csv"] = "csv"
    path: str = option(doc=_PATH)
    hash_range: tuple[float, ...] | None = option(None, doc=HASH_RANGE)
    columns: ColumnsConfig = option(ColumnsConfig)
    """Mapping from columns to the parts of a document: by name in the header; without a
    header by number in quotes, counted from "0".
    """

    header: bool = True
    """The first row holds the column names."""

    delimiter: str = ","
    r"""Separator of the fields, one character, such as "," or "\t" (in double quotes).
    """

    quoting: Literal["auto", "none"] = "auto"
    """`auto`: a field may be in double quotes, with any character inside and a quote
    doubled (RFC 4180). `none`: quotes are ordinary characters, as in most TSV.
    """

    encoding: str = option("utf-8", doc=ENCODING)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n\ufeff':
            raise ConfigError(
                f"delimiter={self.delimiter!r}: expected one character, not a quote "
                r'or a line end. A tab is written "\t", in double quotes'
            )


@dataclass(frozen=True, kw_only=True)
class ParquetSourceConfig(SourceConfig):
    """Apache Parquet tables; only the columns in use are read."""

    kind: Literal["parquet"] = "parquet"
    path: str
    """Glob of the files."""

    hash_range: tuple[float, ...] | None = option(None, doc=HASH_RANGE)

    columns: ColumnsConfig = option(ColumnsConfig)
    """Mapping from columns to the parts of a document."""


@dataclass(frozen=True, kw_only=True)
class TFRecordSourceConfig(SourceConfig):
    """TFRecord files of `tf.train.Example`s; a feature is a column."""

    kind: Literal["tfrecord"] = "tfrecord"
    path: str = option(doc=_PATH)
    hash_range: tuple[float, ...] | None = option(None, doc=HASH_RANGE)
    columns: ColumnsConfig = option(ColumnsConfig)
    """Mapping from features to the parts of a document."""


@dataclass(frozen=True, kw_only=True)
class XmlSourceConfig(SourceConfig):
    """Rows of an XML file: the elements of one name, in the file's own encoding."""

    kind: Literal["xml"] = "xml"
    path: str = option(doc=_PATH)
    hash_range: tuple[float, ...] | None = option(None, doc=HASH_RANGE)
    row: str
    """Name of the elements that are rows, such as `pair`, without a namespace."""

    columns: ColumnsConfig = option(ColumnsConfig)
    """Mapping from child elements (`name`), attributes (`@name`) and the whole text of
    a row (`#text`) to the parts of a document.
    """


@dataclass(frozen=True, kw_only=True)
class LabeledLinesSourceConfig(EncodedSourceConfig):
    """Text files with a label before the first space or tab of each line."""

    kind: Literal["labeled_lines"] = "labeled_lines"
    path: str = option(doc=_PATH)
    hash_range: tuple[float, ...] | None = option(None, doc=HASH_RANGE)
    prefix: str = ""
    """Prefix that is removed from each label, such as fastText's `__label__`."""

    encoding: str = option("utf-8", doc=ENCODING)


@dataclass(frozen=True, kw_only=True)
class ParallelSourceConfig(EncodedSourceConfig):
    """Pairs of text files with aligned lines, such as translations.

    The files of both globs are paired in the order of their names.
    """

    kind: Literal["parallel"] = "parallel"
    path: str
    """Glob of the files whose lines become the text."""

    hash_range: tuple[float, ...] | None = option(None, doc=HASH_RANGE)

    target_path: str
    """Glob of the files whose lines become the target text."""

    encoding: str = option("utf-8", doc=ENCODING)


@dataclass(frozen=True, kw_only=True)
class ConllSourceConfig(EncodedSourceConfig):
    """Tagged words in columns, one word a line, a blank line after each sentence."""

    kind: Literal["conll"] = "conll"
    path: str = option(doc=_PATH)
    hash_range: tuple[float, ...] | None = option(None, doc=HASH_RANGE)
    word_column: int = 0
    """Column of the word, counted from 0, or from the end with -1."""

    tag_column: int = -1
    """Column of the tag, counted from 0, or from the end with -1."""

    comment: str | None = None
    """Prefix of comment lines, which are skipped, such as `# id`. None by default,
    because a word may begin with a `#`.
    """

    encoding: str = option("utf-8", doc=ENCODING)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.comment == "":
            raise ConfigError(
                "comment='': every line begins with nothing. Write what the lines "
                "begin with that are no words, or leave the key out"
            )


@dataclass(frozen=True, kw_only=True)
class ConlluSourceConfig(SourceConfig):
    """Universal Dependencies treebanks (CoNLL-U)."""

    kind: Literal["conllu"] = "conllu"
    path: str = option(doc=_PATH)
    hash_range: tuple[float, ...] | None = option(None, doc=HASH_RANGE)
    tags: Literal["upos", "xpos", "deprel"] = "upos"
    """Annotation that is used as tags: `upos`, the universal part of speech; `xpos`,
    the language-specific one; `deprel`, the relation to the head.
    """


@dataclass(frozen=True, kw_only=True)
class SquadSourceConfig(SourceConfig):
    """Questions and answers about paragraphs, in the JSON of SQuAD 1.1 and 2.0."""

    kind: Literal["squad"] = "squad"
    path: str = option(doc=_PATH)
    hash_range: tuple[float, ...] | None = option(None, doc=HASH_RANGE)
    answers: Literal["spans", "texts"] = "spans"
    """`spans`: answers are places in the paragraph, for span_qa. `texts`: the first
    answer is the target text, for models that write; generated texts are compared with
    all answers, and questions without an answer are filtered.
    """


TableSource = (
    JsonlSourceConfig
    | CsvSourceConfig
    | ParquetSourceConfig
    | TFRecordSourceConfig
    | XmlSourceConfig
    | LabeledLinesSourceConfig
    | ParallelSourceConfig
    | ConllSourceConfig
    | ConlluSourceConfig
    | SquadSourceConfig
)
