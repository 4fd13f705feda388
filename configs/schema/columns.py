"""`columns`: the mapping from a table's columns to the parts of a document."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.templates import template_fields


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

    label_names: Mapping[str, str] | None = None
    """Names for the values of `label`, such as {"0": negative, "1": positive}: the
    words that a model writes, or names that several sources share. A row with another
    value is rejected.
    """

    references: str | None = None
    """Column of the texts that a generated text is compared with, a list or one text;
    the best one counts. Read by `transbeam evaluate` alone. Left out: the target.
    """

    where: Mapping[str, str] | None = None
    """Values that columns must have in the rows that are used, such as {lang: en}; the
    other rows are filtered. A value is written as a label is.
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

    choices: tuple[str, ...] | None = None
    """Columns or templates of the answers from which a question lets choose, in their
    order; or one column that holds all of them as a list. Read by the tasks of
    `transbeam evaluate --tasks` alone.
    """

    def __post_init__(self) -> None:
        for key in ("text", "second_text", "negative_text", "target_text"):
            value = getattr(self, key)
            if value is not None:
                _check_column(key, value)
        for value in self.choices or ():
            _check_column("choices", value)
        if self.label_names is not None:
            _check_label_names(self.label_names, self.label)
        if self.where is not None and not self.where:
            raise ConfigError("where: expected a column and its value, found none")
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
            columns_in(value)
            for value in (*texts, *(self.choices or ()))
            if value is not None
        ]
        others = (self.words, self.label, self.tags, self.messages, self.references)
        whole = [name for name in others if name is not None] + [*(self.where or ())]
        return list(dict.fromkeys([*itertools.chain(*in_texts), *whole]))


def _check_column(key: str, value: str) -> None:
    if "" in columns_in(value, key):
        raise ConfigError(
            f"{key}={value!r}: braces without the name of a column inside"
        )


def _check_label_names(names: Mapping[str, str], label: str | None) -> None:
    if label is None:
        raise ConfigError(
            "label_names: without `label` there is nothing to name. Name the column of "
            "the label too"
        )
    for value, name in names.items():
        if not name.strip():
            raise ConfigError(f"label_names: the name of {value!r} is empty")
    if not names:
        raise ConfigError("label_names: expected a name for each label, found none")


def is_template(column: str) -> bool:
    """Returns whether a column is a template."""
    return "{" in column or "}" in column


def columns_in(column: str, key: str = "text") -> list[str]:
    """The columns used for a text: the named column, or the fields of a template."""
    return template_fields(key, column) if is_template(column) else [column]
