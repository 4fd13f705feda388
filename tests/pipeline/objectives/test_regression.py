"""Regression of texts and of pairs: their numbers, and what is none."""

import numpy as np
import pytest

from tests.pipeline.objectives.record_checks import (
    assert_same_when_shuffled,
    records_of,
)
from tests.pipeline.objectives.word_tokenizer import LETTERS, letters, run_of
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    PairClassificationConfig,
    PairRegressionConfig,
    RegressionConfig,
)
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.objectives import (
    classification,
    pair_classification,
    pair_regression,
    regression,
)
from transbeam.pipeline.objectives.base.labels import as_number


@pytest.mark.parametrize(
    ("module", "like", "objective", "classes"),
    [
        (regression, classification, RegressionConfig(), ClassificationConfig),
        (
            pair_regression,
            pair_classification,
            PairRegressionConfig(),
            PairClassificationConfig,
        ),
    ],
    ids=["text", "pair"],
)
def test_records_are_those_of_classification_with_numbers(
    module, like, objective, classes
) -> None:
    texts = ["a b c", "d e f g h i j k l", "~", "m"]
    numbers = ["1", "-2.5", "0", "3.25e0"]
    documents = [
        Document(text, "x", i, second_text="n o p", label=number)
        for i, (text, number) in enumerate(zip(texts, numbers, strict=True))
    ]
    found = records_of(module, run_of(objective, 8), documents)
    run = run_of(classes(labels=tuple(numbers)), 8)
    expected = records_of(like, run, documents)
    assert found.counts == expected.counts
    assert found.arrays.keys() == expected.arrays.keys()
    for name, array in found.arrays.items():
        if name != "label":
            np.testing.assert_array_equal(array, expected.arrays[name])
    asked = [float(numbers[place]) for place in expected.arrays["label"]]
    assert found.arrays["label"].dtype == np.float32
    assert found.arrays["label"].tolist() == asked
    assert len(asked) == 3
    assert_same_when_shuffled(module, run_of(objective, 8), documents, LETTERS)


def test_what_is_no_number_is_said() -> None:
    labels = ["4.5", "good", "", "nan", "inf", "1e39", "4,5", "1_000", "true", " 7 "]
    documents = [Document("a", "x", i, label=label) for i, label in enumerate(labels)]
    records = records_of(regression, run_of(RegressionConfig(), 8), documents)
    assert records.rejected[:3] == [
        (1, "label 'good' is not a finite number"),
        (2, "no label"),
        (3, "label 'nan' is not a finite number"),
    ]
    assert [row for row, _ in records.rejected] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert sorted(records.arrays["label"].tolist()) == [4.5, 7.0]
    assert letters(records.arrays["token_ids"][0]) == "<a>....."


def test_a_long_label_is_not_told_whole() -> None:
    documents = [Document("a", "x", 0, label="b" * 10_000)]
    ((_, reason),) = records_of(
        regression, run_of(RegressionConfig(), 8), documents
    ).rejected
    assert len(reason) < 200


def test_numbers_are_those_of_float32() -> None:
    assert as_number("0.1") == float(np.float32(0.1))
