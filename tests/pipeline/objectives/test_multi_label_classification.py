"""Records of texts with any number of labels."""

import pytest

from tests.pipeline.objectives.record_checks import (
    assert_same_when_shuffled,
    records_of,
)
from tests.pipeline.objectives.word_tokenizer import LETTERS, letters, run_of
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.objectives.supervised import (
    MultiLabelClassificationConfig,
)
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.objectives import multi_label_classification as module

TOPICS = MultiLabelClassificationConfig(labels=("law", "sport", "[arts]"))
DOCUMENTS = [
    Document("a b", "x", 0, label='["sport", "law"]'),
    Document("c", "x", 1, label="sport , law"),
    Document("d", "x", 2, label="[]"),
    Document("f", "x", 3, label="[arts]"),
    Document("g", "x", 4, label="law,chess"),
    Document("h", "x", 5, label=""),
    Document("", "x", 6, label="law"),
]


def test_each_label_that_applies_is_marked() -> None:
    records = records_of(module, run_of(TOPICS, 6), DOCUMENTS)
    found = {
        letters(row).strip("<>."): labels.tolist()
        for row, labels in zip(
            records.arrays["token_ids"], records.arrays["label"], strict=True
        )
    }
    both = [1, 1, 0]
    assert found == {"ab": both, "c": both, "d": [0, 0, 0], "f": [0, 0, 1]}
    assert dict(records.rejected) == {
        4: "label 'chess' is not one of the configured labels (law, sport, [arts])",
        5: "no label",
        6: "no text",
    }


def test_the_order_of_documents_does_not_matter() -> None:
    assert_same_when_shuffled(module, run_of(TOPICS, 6), DOCUMENTS, LETTERS)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"labels": ("a",)}, "at least two"),
        ({"labels": ("a", "b|c"), "separator": "|"}, "has the separator '|' in it"),
        ({"labels": ("a", "b "), "separator": "|"}, "spaces at its ends"),
        ({"labels": ("a", "b"), "separator": " "}, "expected a mark"),
        (
            {"labels": ("a", "b"), "class_weights": (1.0,)},
            "found 1 numbers; expected 2",
        ),
        ({"labels": ("a", "b"), "class_weights": (1.0, 0.0)}, "above 0"),
    ],
)
def test_refused(keys, message) -> None:
    with pytest.raises(ConfigError, match=message.replace("|", r"\|")):
        MultiLabelClassificationConfig(**keys)
