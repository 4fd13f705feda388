"""Errors of the supervised objectives."""

import pytest

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    SpanQAConfig,
    TextToTextConfig,
)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (("only",), r"labels=\['only'\]: at least two"),
        ((), r"labels=\[\]: at least two"),
        (("a", "b", "a"), "'a' occurs twice"),
        (("a", ""), "a label needs a name"),
    ],
)
def test_labels(labels: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ClassificationConfig(labels=labels)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("sum: {txt}", r"there is no field \{txt\}; source may have \{text\}, \{sec"),
        ("sum: {label}", r"there is no field \{label\}"),
        ("sum: {text!r}", r"there is no field \{text!r\}"),
        ("sum: {text:>5}", r"there is no field \{text:>5\}"),
        ("sum: {}", r"there is no field \{\}"),
        ("sum: {text", "A brace that is meant is written twice"),
        ("sum: text}", "A brace that is meant is written twice"),
        ("sum: {{text}}", "the same for every document"),
    ],
)
def test_source_templates(template: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TextToTextConfig(source=template)


def test_the_answer_may_not_be_what_the_model_reads() -> None:
    with pytest.raises(ConfigError, match=r"target may have \{target_text\}, \{label"):
        TextToTextConfig(source="{text}", target="{text}")


def test_shortest_record_of_span_qa() -> None:
    assert SpanQAConfig(max_question_length=10).minimum_sequence_length == 14
