"""`objective`: supervised objectives, for labeled data."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option
from transbeam.configs.base.templates import check_template

_DECODER_LENGTH = "Decoder tokens per record; the encoder has data.sequence_length."
_PACKED = (
    "Pack several pairs into a record, as many as fit in both the encoder and the "
    "decoder; false: one pair per record."
)
_TOO_LONG = (
    "Handling of pairs of which one side is longer than a record: `truncate` cuts "
    "off the end of that side, `drop` sends the pair to quarantine."
)
_LABELS = "Class names as they occur in the data, in the order of their ids from 0."

SOURCE_FIELDS = ("text", "second_text")
TARGET_FIELDS = ("target_text", "label")


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig:
    """Sequence to sequence, as in translation: maps `text` to `target_text`."""

    kind: Literal["seq2seq"] = "seq2seq"
    decoder_length: int = option(128, minimum=8, doc=_DECODER_LENGTH)
    packed: bool = option(True, doc=_PACKED)
    too_long: Literal["truncate", "drop"] = option("truncate", doc=_TOO_LONG)


@dataclass(frozen=True, kw_only=True)
class TextToTextConfig:
    """Any task as text to text (T5), with a prefix that names the task."""

    kind: Literal["text_to_text"] = "text_to_text"
    source: str
    """Template of the encoder input, such as `summarize: {text}` or `mnli premise:
    {text} hypothesis: {second_text}`.
    """

    target: str = "{target_text}"
    """Template of the decoder's target: `{target_text}` or `{label}`, optionally with
    text around it.
    """

    decoder_length: int = option(128, minimum=8, doc=_DECODER_LENGTH)
    packed: bool = option(True, doc=_PACKED)
    too_long: Literal["truncate", "drop"] = option("truncate", doc=_TOO_LONG)

    def __post_init__(self) -> None:
        check_template("source", self.source, SOURCE_FIELDS)
        check_template("target", self.target, TARGET_FIELDS)


@dataclass(frozen=True, kw_only=True)
class CompletionConfig:
    """Completion: a decoder learns to follow a prompt with its answer.

    A record holds `[BEGIN] prompt answer [END]`, in which the answer and the end token
    are predicted. Prompt and answer are tokenized separately, so that a prompt has the
    same tokens in the records and in a request; spaces at the end of the template
    `prompt` are tokenized with the answer, as they are inside a text.
    """

    kind: Literal["completion"] = "completion"
    prompt: str
    """Template of the prompt, such as `Question: {text} Answer: `."""

    answer: str = "{target_text}"
    """Template of the answer: `{target_text}` or `{label}`, optionally with text
    around it.
    """

    loss: Literal["answer", "all"] = "answer"
    """Tokens that are predicted: those of the answer, or also those of the prompt."""

    too_long: Literal["truncate_start", "truncate_end", "drop"] = "truncate_end"
    """Handling of prompts that do not fit into a record with their answer:
    `truncate_start` and `truncate_end` cut the texts of the prompt at that side and
    keep the template's own words before and after them, `drop` sends the document to
    quarantine. An answer is never cut: one that does not fit goes to quarantine.
    """

    def __post_init__(self) -> None:
        check_template("prompt", self.prompt, SOURCE_FIELDS)
        check_template("answer", self.answer, TARGET_FIELDS)

    @property
    def separator(self) -> str:
        """Spaces at the end of the template `prompt`, tokenized with the answer.

        Example:
        >>> CompletionConfig(prompt="{text} In short: ").separator
        ' '
        """
        return self.prompt[len(self.prompt.rstrip(" ")) :]

    @property
    def prompt_template(self) -> str:
        """The template `prompt` without its separator.

        Example:
        >>> CompletionConfig(prompt="{text} In short: ").prompt_template
        '{text} In short:'
        """
        return self.prompt.rstrip(" ")


@dataclass(frozen=True, kw_only=True)
class DialogueConfig:
    """Dialogue: a decoder learns to reply in conversations, lists of `messages`.

    A record holds conversations as the chat template renders them; the tokens of the
    assistant's turns are predicted. A conversation that is too long loses its earliest
    turns, except for the system's; one whose last turns do not fit goes to quarantine.
    """

    kind: Literal["dialogue"] = "dialogue"
    chat_template: str | None = None
    """Chat template: Jinja as in Hugging Face's tokenizer_config.json, or the name of
    a built-in one, `plain` (roles as words) or `chatml` (a tokenizer with <|im_start|>
    and <|im_end|>). Left out: the tokenizer's own.
    """

    loss: Literal["assistant", "all"] = "assistant"
    """Tokens that are predicted: those of the assistant's turns, or all."""


@dataclass(frozen=True, kw_only=True)
class ClassificationConfig:
    """Text classification: predicts `label` from `text`."""

    kind: Literal["classification"] = "classification"
    labels: tuple[str, ...] = option(doc=_LABELS)

    def __post_init__(self) -> None:
        _check_labels(self.labels)


@dataclass(frozen=True, kw_only=True)
class MultiLabelClassificationConfig:
    """Multi-label classification, such as topics: predicts `label` from `text`.

    `label` is a list of names, or a string of names with a separator between them. A
    text without labels has an empty list, `[]`.
    """

    kind: Literal["multi_label_classification"] = "multi_label_classification"
    labels: tuple[str, ...] = option(doc=_LABELS)
    separator: str = ","
    """Separator of the label names where `label` is a string, not a list."""

    threshold: float = option(0.5, minimum=0.001, maximum=0.999)
    """Smallest probability at which a label is assigned."""

    class_weights: tuple[float, ...] | None = None
    """Loss weights of the positive class, one for each of `labels`: above 1, a missed
    label costs more than a false one, as suits rare labels. Left out: 1 each.
    """

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
    """Text pair classification: predicts `label` from `text` and `second_text`.

    A pair that is too long is truncated at the end of its longer text, until both are
    equally long; then at the ends of both in turn.
    """

    kind: Literal["pair_classification"] = "pair_classification"
    labels: tuple[str, ...] = option(doc=_LABELS)

    def __post_init__(self) -> None:
        _check_labels(self.labels)


@dataclass(frozen=True, kw_only=True)
class RegressionConfig:
    """Regression, such as a rating: predicts the number `label` from `text`.

    The numbers in the labels are the targets, without rescaling.
    """

    kind: Literal["regression"] = "regression"


@dataclass(frozen=True, kw_only=True)
class PairRegressionConfig:
    """Text pair regression, such as STS-B: predicts the number `label`.

    `label` is predicted from `text` and `second_text`, without rescaling. A pair that
    is too long is truncated as in `pair_classification`.
    """

    kind: Literal["pair_regression"] = "pair_regression"


@dataclass(frozen=True, kw_only=True)
class TokenClassificationConfig:
    """Token classification: predicts `tags`, one for each of `words`."""

    kind: Literal["token_classification"] = "token_classification"
    labels: tuple[str, ...]
    """Tag names as they occur in the data, in the order of their ids from 0."""

    all_pieces: bool = False
    """Predict the tag at every token of a word, not only at its first token."""

    def __post_init__(self) -> None:
        _check_labels(self.labels)


@dataclass(frozen=True, kw_only=True)
class SpanQAConfig:
    """Extractive question answering: finds the answer to `second_text` in `text`.

    A text that is longer than a record is split into windows, one record for each. Of
    an answer in other words (`target_text`), the run of words that is closest to it is
    learned: so a model learns to extract summaries.
    """

    kind: Literal["span_qa"] = "span_qa"
    stride: int = option(128, minimum=1)
    """Tokens from the start of a window to the start of the next; at most a whole
    window. With less than half a window, short answers are whole in at least one
    window.
    """

    max_question_length: int = option(64, minimum=1)
    """Maximum length of a question in tokens; longer ones are truncated."""

    @property
    def minimum_sequence_length(self) -> int:
        """Smallest `data.sequence_length`: question, special tokens, one text token.

        Example:
        >>> SpanQAConfig(max_question_length=64).minimum_sequence_length
        68
        """
        return self.max_question_length + 3 + 1


@dataclass(frozen=True, kw_only=True)
class ImageClassificationConfig:
    """Image classification (ViT): predicts `label` from `image`."""

    kind: Literal["image_classification"] = "image_classification"
    labels: tuple[str, ...] = option(doc=_LABELS)
    image_size: int = option(224, minimum=1)
    """Height and width in pixels of the source's images; images of another size go to
    quarantine.
    """

    channels: int = option(3, minimum=1, maximum=4)
    """Channels of an image: 1 for grayscale, 3 for color."""

    def __post_init__(self) -> None:
        _check_labels(self.labels)


def _check_labels(labels: tuple[str, ...]) -> None:
    if len(labels) < 2:
        raise ConfigError(f"labels={list(labels)}: at least two are needed to choose")
    doubled = [label for label, count in Counter(labels).items() if count > 1]
    if doubled:
        raise ConfigError(f"labels={list(labels)}: {doubled[0]!r} occurs twice")
    if "" in labels:
        raise ConfigError(f"labels={list(labels)}: a label needs a name")
