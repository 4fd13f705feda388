"""`objective`: supervised objectives, for labeled data."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option
from transbeam.configs.base.templates import check_template

_DECODER_LENGTH = (
    "Tokens of a record's target side; its source side has data.sequence_length."
)
_PACKED = (
    "Put several pairs side by side in a record, as many as fit on both sides; else "
    "each record has one pair."
)
_TOO_LONG = (
    "What becomes of a pair one side of which is longer than a record: truncate cuts "
    "the side's end off, drop sends the pair to quarantine."
)
_LABELS = "Names of the classes as the data has them; the first has id 0."

SOURCE_FIELDS = ("text", "second_text")
TARGET_FIELDS = ("target_text", "label")


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig:
    """A text and its answer: translation, summaries. `text` gives `target_text`."""

    kind: Literal["seq2seq"] = "seq2seq"
    decoder_length: int = option(_DECODER_LENGTH, default=128, minimum=8)
    packed: bool = option(_PACKED, default=True)
    too_long: Literal["truncate", "drop"] = option(_TOO_LONG, default="truncate")


@dataclass(frozen=True, kw_only=True)
class TextToTextConfig:
    """Any task as text to text (T5): a prefix tells the model which one."""

    kind: Literal["text_to_text"] = "text_to_text"
    source: str = option(
        "What the model reads, such as `summarize: {text}` or "
        "`mnli premise: {text} hypothesis: {second_text}`."
    )
    target: str = option(
        "What it is to answer: `{target_text}` or `{label}`, and text around it.",
        default="{target_text}",
    )
    decoder_length: int = option(_DECODER_LENGTH, default=128, minimum=8)
    packed: bool = option(_PACKED, default=True)
    too_long: Literal["truncate", "drop"] = option(_TOO_LONG, default="truncate")

    def __post_init__(self) -> None:
        check_template("source", self.source, SOURCE_FIELDS)
        check_template("target", self.target, TARGET_FIELDS)


@dataclass(frozen=True, kw_only=True)
class ClassificationConfig:
    """Predicts the class of a text, `label`, from `text`."""

    kind: Literal["classification"] = "classification"
    labels: tuple[str, ...] = option(_LABELS)

    def __post_init__(self) -> None:
        _check_labels(self.labels)


@dataclass(frozen=True, kw_only=True)
class MultiLabelClassificationConfig:
    """Predicts the labels of a text, such as its topics, from `text`.

    A text may have any number of labels: `label` is a list of names, or a text with a
    separator between them. A text without any label has an empty list, `[]`.
    """

    kind: Literal["multi_label_classification"] = "multi_label_classification"
    labels: tuple[str, ...] = option(_LABELS)
    separator: str = option(
        "Separates the names of labels where `label` is a text and no list.",
        default=",",
    )
    threshold: float = option(
        "A label applies from this probability on.",
        default=0.5,
        minimum=0.001,
        maximum=0.999,
    )
    class_weights: tuple[float, ...] | None = option(
        "How much more it costs to miss a label than to give a text one too many: a "
        "number for each of `labels`, above 1 for rare ones. Left out: 1 each.",
        default=None,
    )

    def __post_init__(self) -> None:
        _check_labels(self.labels)
        if not self.separator.strip() and self.separator != "\t":
            raise ConfigError(
                f"separator={self.separator!r}: expected a mark such as ',' or '|', "
                "since spaces at the ends of names are dropped"
            )
        for label in self.labels:
            if self.separator in label or label != label.strip():
                raise ConfigError(
                    f"labels: {label!r} has the separator {self.separator!r} in it, or "
                    "spaces at its ends: choose another separator, or name"
                )
        weights = self.class_weights
        if weights is None:
            return
        if len(weights) != len(self.labels):
            raise ConfigError(
                f"class_weights: found {len(weights)} numbers; expected "
                f"{len(self.labels)}, one for each of `labels`"
            )
        if not all(0 < weight < math.inf for weight in weights):
            raise ConfigError(
                f"class_weights={list(weights)}: expected finite numbers above 0"
            )


@dataclass(frozen=True, kw_only=True)
class PairClassificationConfig:
    """Predicts the class of two texts, `label`, from `text` and `second_text`.

    A pair that is too long is truncated at the end of its longer text, until both are
    equally long; then at the ends of both in turn.
    """

    kind: Literal["pair_classification"] = "pair_classification"
    labels: tuple[str, ...] = option(_LABELS)

    def __post_init__(self) -> None:
        _check_labels(self.labels)


@dataclass(frozen=True, kw_only=True)
class RegressionConfig:
    """Predicts a number for a text, such as a rating.

    The input is `text`, the target is the number in `label`, without any scaling.
    """

    kind: Literal["regression"] = "regression"


@dataclass(frozen=True, kw_only=True)
class PairRegressionConfig:
    """Predicts a number for two texts, such as their similarity (STS-B).

    The inputs are `text` and `second_text`, the target is the number in `label`,
    without any scaling. A pair that is too long is truncated as in
    `pair_classification`.
    """

    kind: Literal["pair_regression"] = "pair_regression"


@dataclass(frozen=True, kw_only=True)
class TokenClassificationConfig:
    """Predicts a tag for each word of a sentence, `tags`, from `words`."""

    kind: Literal["token_classification"] = "token_classification"
    labels: tuple[str, ...] = option(
        "Names of the tags as the data has them; the first has id 0."
    )
    all_pieces: bool = option(
        "Ask for the tag at every piece of a word, not at its first alone.",
        default=False,
    )

    def __post_init__(self) -> None:
        _check_labels(self.labels)


@dataclass(frozen=True, kw_only=True)
class SpanQAConfig:
    """Finds the answer to the question `second_text` as a span of `text`.

    A text that is longer than a record is split into windows, one record for each.
    """

    kind: Literal["span_qa"] = "span_qa"
    stride: int = option(
        "Tokens from the start of a window to the start of the next; at most a whole "
        "window. Less than half a window keeps short answers whole in one of them.",
        default=128,
        minimum=1,
    )
    max_question_length: int = option(
        "Tokens of a question; the rest of a longer one is cut off.",
        default=64,
        minimum=1,
    )

    @property
    def minimum_sequence_length(self) -> int:
        """The smallest `data.sequence_length`: question, special tokens, a text token.

        Example:
        >>> SpanQAConfig(max_question_length=64).minimum_sequence_length
        68
        """
        return self.max_question_length + 3 + 1


@dataclass(frozen=True, kw_only=True)
class ImageClassificationConfig:
    """Predicts the class of an image, `label`, from `image` (ViT)."""

    kind: Literal["image_classification"] = "image_classification"
    labels: tuple[str, ...] = option(_LABELS)
    image_size: int = option(
        "Height and width in pixels that the source's images have; others go to "
        "quarantine.",
        default=224,
        minimum=1,
    )
    channels: int = option(
        "Numbers of a pixel: 1 for grey, 3 for colour.", default=3, minimum=1, maximum=4
    )

    def __post_init__(self) -> None:
        _check_labels(self.labels)


def _check_labels(labels: tuple[str, ...]) -> None:
    if len(labels) < 2:
        raise ConfigError(f"labels={list(labels)}: at least two are needed to choose")
    doubled = [label for label, count in Counter(labels).items() if count > 1]
    if doubled:
        raise ConfigError(f"labels={list(labels)}: {doubled[0]!r} stands there twice")
    if "" in labels:
        raise ConfigError(f"labels={list(labels)}: a label needs a name")
