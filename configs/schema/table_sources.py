"""`data.source`: tables, line pairs and annotated text, one kind for each format."""

import itertools
from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.encodings import check_encoding
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option
from transbeam.configs.base.templates import template_fields

_PATH = (
    "Glob of the files; `.gz`, `.bz2`, `.xz` and `.zst` are decompressed while reading."
)
ENCODING = (
    "Encoding of the files: a Python codec such as utf-8, cp1252 or utf-16; or "
    "`detect`: by the byte order mark, else UTF-8, else chardet's estimate. Files "
    "whose encoding cannot be detected reliably go to quarantine."
)


class EncodedSourceConfig:
    """Base class of sources of text files: checks their encoding."""

    encoding: str

    def __post_init__(self) -> None:
        check_encoding(self.encoding)


@dataclass(frozen=True, kw_only=True)
class ColumnsConfig:
    """Mapping from the columns of a table to the parts of a document.

    A name with dots selects a nested value: `translation.en` is the field `en` of the
    field `translation`, `target.0` the first element of the list `target`. A value with
    braces is a template: `{title}. {body}` joins two columns.
    """

    text: str = "text"
    """Column of the text, or a template such as `{title}. {body}`. A list of strings is
    joined with spaces. Ignored where `words` or `messages` is set: the text is then the
    words joined with spaces, or the messages.
    """

    second_text: str | None = None
    """Column of a pair's second text, or of the question about the text; or a template.
    """

    negative_text: str | None = None
    """Column of a text's hard negative (`contrastive_pairs`), or a template. The only
    column that may be missing, null or blank in a row, which then has none.
    """

    target_text: str | None = None
    """Column of the target text of a sequence-to-sequence model, or a template."""

    label: str | None = None
    """Column of the class, of a list of labels, or of the number for regression.
    Numbers and booleans are converted as in JSON: `1`, `true`.
    """

    words: str | None = None
    """Column of a sentence's words: a list, or a string that is split at white space.
    """

    tags: str | None = None
    """Column of the tags, one for each word."""

    messages: str | None = None
    """Column of a conversation: a list of messages with `role` and `content` (OpenAI),
    or `from` and `value` (ShareGPT). The text is then that of all messages.
    """

    choices: tuple[str, ...] = ()
    """Columns or templates of the answers from which a question lets choose, in their
    order; or one column that holds all of them as a list. Read by the tasks of
    `transbeam evaluate --tasks` alone.
    """

    def __post_init__(self) -> None:
        for key in ("text", "second_text", "negative_text", "target_text"):
            value = getattr(self, key)
            if value is not None:
                _check_column(key, value)
        for value in self.choices:
            _check_column("choices", value)
        if self.tags is not None and self.words is None:
            raise ConfigError(
                f"tags={self.tags!r} without `words`: tags belong to words. Name the "
                "column of the words too"
            )

    def names(self) -> list[str]:
        """The names of the columns that are read.

        Example:
        >>> ColumnsConfig(label="stars").names()
        ['text', 'stars']
        >>> ColumnsConfig(text="{title}. {body}").names()
        ['title', 'body']
        """
        has_text = self.words is None and self.messages is None
        texts = (
            self.text if has_text else None,
            self.second_text,
            self.negative_text,
            self.target_text,
        )
        in_texts = [
            columns_in(value) for value in (*texts, *self.choices) if value is not None
        ]
        others = (self.words, self.label, self.tags, self.messages)
        whole = [name for name in others if name is not None]
        return list(dict.fromkeys([*itertools.chain(*in_texts), *whole]))


def _check_column(key: str, value: str) -> None:
    if "" in columns_in(value, key):
        raise ConfigError(
            f"{key}={value!r}: braces without the name of a column inside"
        )


def is_template(column: str) -> bool:
    """Returns whether a column is a template."""
    return "{" in column or "}" in column


def columns_in(column: str, key: str = "text") -> list[str]:
    """The columns used for a text: the named column, or the fields of a template."""
    return template_fields(key, column) if is_template(column) else [column]


@dataclass(frozen=True, kw_only=True)
class JsonlSourceConfig(EncodedSourceConfig):
    """JSON objects: one per line, in an array, or spread over several lines."""

    kind: Literal["jsonl"] = "jsonl"
    path: str = option(doc=_PATH)
    columns: ColumnsConfig = option(ColumnsConfig)
    """Mapping from fields to the parts of a document."""

    encoding: str = option("utf-8", doc=ENCODING)


@dataclass(frozen=True, kw_only=True)
class CsvSourceConfig(EncodedSourceConfig):
    """Tables of delimited fields, such as CSV and TSV."""

    kind: Literal["csv"] = "csv"
    path: str = option(doc=_PATH)
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
class ParquetSourceConfig:
    """Apache Parquet tables; only the columns in use are read."""

    kind: Literal["parquet"] = "parquet"
    path: str
    """Glob of the files."""

    columns: ColumnsConfig = option(ColumnsConfig)
    """Mapping from columns to the parts of a document."""


@dataclass(frozen=True, kw_only=True)
class TFRecordSourceConfig:
    """TFRecord files of `tf.train.Example`s; a feature is a column."""

    kind: Literal["tfrecord"] = "tfrecord"
    path: str = option(doc=_PATH)
    columns: ColumnsConfig = option(ColumnsConfig)
    """Mapping from features to the parts of a document."""


@dataclass(frozen=True, kw_only=True)
class LabeledLinesSourceConfig(EncodedSourceConfig):
    """Text files with a label before the first space or tab of each line."""

    kind: Literal["labeled_lines"] = "labeled_lines"
    path: str = option(doc=_PATH)
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

    target_path: str
    """Glob of the files whose lines become the target text."""

    encoding: str = option("utf-8", doc=ENCODING)


@dataclass(frozen=True, kw_only=True)
class ConllSourceConfig(EncodedSourceConfig):
    """Tagged words in columns, one word a line, a blank line after each sentence."""

    kind: Literal["conll"] = "conll"
    path: str = option(doc=_PATH)
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
class ConlluSourceConfig:
    """Universal Dependencies treebanks (CoNLL-U)."""

    kind: Literal["conllu"] = "conllu"
    path: str = option(doc=_PATH)
    tags: Literal["upos", "xpos", "deprel"] = "upos"
    """Annotation that is used as tags: `upos`, the universal part of speech; `xpos`,
    the language-specific one; `deprel`, the relation to the head.
    """


@dataclass(frozen=True, kw_only=True)
class SquadSourceConfig:
    """Questions and answers about paragraphs, in the JSON of SQuAD 1.1 and 2.0."""

    kind: Literal["squad"] = "squad"
    path: str = option(doc=_PATH)


TableSource = (
    JsonlSourceConfig
    | CsvSourceConfig
    | ParquetSourceConfig
    | TFRecordSourceConfig
    | LabeledLinesSourceConfig
    | ParallelSourceConfig
    | ConllSourceConfig
    | ConlluSourceConfig
    | SquadSourceConfig
)
