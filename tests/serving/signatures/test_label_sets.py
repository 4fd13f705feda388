"""A model that gives texts any number of labels, asked in all ways."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from tests.serving.conftest import TINY
from tests.serving.session import asking
from tests.serving.signatures.parity_scenario import Scene, altered, failed, remembered
from transbeam.configs.schema.objectives.supervised import (
    MultiLabelClassificationConfig,
)
from transbeam.serving.base.applied_calibration import AppliedCalibration
from transbeam.serving.parity.base.pooled_answers import LabelSetParity
from transbeam.serving.parity.checker_factory import make_parity_checker
from transbeam.serving.parity.export_parity import require_passed
from transbeam.serving.predict.formatting.formatters import (
    formatter_of_outputs,
    prediction_lines,
)
from transbeam.serving.signatures.pooled_answers import LabelSetAnswer
from transbeam.serving.signatures.task_factory import make_signature_task

LABELS = ("law", "sport", "arts")
TEXTS = {"text": ["a tensor of the same shape", "", "true , raise"]}


@pytest.fixture(scope="module")
def scene(tmp_path_factory) -> Scene:
    config = replace(
        TINY,
        objective=MultiLabelClassificationConfig(labels=LABELS, threshold=0.4),
        model=replace(TINY.model, num_layers=1),
        export=replace(TINY.export, examples=("a list",)),
    )
    return Scene.of(tmp_path_factory.mktemp("label_sets") / "run", config)


def test_labels_that_apply_stand_first_and_the_most_probable_before_others() -> None:
    logits = np.log([[0.5 / 0.5, 0.2 / 0.8, 0.9 / 0.1], [0.1 / 0.9] * 3])
    found = LabelSetAnswer(LABELS, (0.4,) * 3).default_outputs(
        {"logits": tf.constant(logits)}
    )
    names = found["labels"].numpy().tolist()
    assert names == [[b"arts", b"law", b""], [b"", b"", b""]]
    np.testing.assert_allclose(found["scores"], [[0.5, 0.2, 0.9], [0.1] * 3], rtol=1e-6)
    assert found["classes"].numpy().tolist() == [[b"law", b"sport", b"arts"]] * 2


def test_each_label_may_have_a_threshold_of_its_own(scene: Scene) -> None:
    probabilities = np.array([[0.5, 0.2, 0.9], [0.1, 0.1, 0.95]])
    logits = tf.constant(np.log(probabilities / (1 - probabilities)))
    found = LabelSetAnswer(LABELS, (0.4, 0.2 - 1e-6, 0.92)).default_outputs(
        {"logits": logits}
    )
    assert found["labels"].numpy().tolist() == [
        [b"", b"law", b"sport"],
        [b"arts", b"", b""],
    ]


def test_fitted_thresholds_decide_in_the_export_and_in_the_parity_check(
    scene: Scene,
) -> None:
    plain = scene.ask("serving_default", TEXTS)["scores"]
    # Between the scores of the texts, so that each label applies to some of them.
    middles = np.median(plain, axis=0) + 1e-4
    fitted = AppliedCalibration(
        thresholds=dict(zip(LABELS, middles.tolist(), strict=True))
    )
    trained = replace(scene.trained, calibration=fitted)
    ask = asking(trained)
    found = ask("serving_default", TEXTS)
    assigned = np.array([np.isin(LABELS, row.astype(str)) for row in found["labels"]])
    np.testing.assert_array_equal(assigned, plain >= middles)
    assert assigned.any(axis=0).all()
    checker = make_parity_checker(trained, scene.folder)
    require_passed(checker.saved_model_rows("functions", ask))
    # The same probabilities, and the labels of another threshold.
    assert failed(checker.saved_model_rows("altered", scene.ask)) == ["labels"]


def test_answers_are_keras_s_also_on_phones(scene: Scene) -> None:
    found = scene.ask("serving_default", TEXTS)
    classified = scene.ask("classify", {"inputs": [*map(example, TEXTS["text"])]})
    assert set(classified) == {"classes", "scores"}
    np.testing.assert_array_equal(classified["scores"], found["scores"])
    assert make_signature_task(scene.trained).methods == {"classify": "classify"}
    phone = scene.phone()
    for one in scene.judge.expected[:3]:
        logits = phone.ask("classify_ids", **one.inputs)["logits"]
        np.testing.assert_allclose(1 / (1 + np.exp(-logits)), one.answer, atol=2e-6)


def example(text: str) -> bytes:
    made = tf.train.Example()
    made.features.feature["text"].bytes_list.value.append(text.encode())
    return made.SerializeToString()


def test_the_parity_check_passes_true_answers_and_no_others(scene: Scene) -> None:
    judge, ask = scene.judge, remembered(scene.ask)
    rows = judge.saved_model_rows("functions", ask)
    assert [row.check.partition(",")[0] for row in rows] == [
        "token ids",
        "probability",
        "labels",
    ]
    require_passed(rows)

    def found(output, change):
        wrong = altered(ask, "serving_default", output, change)
        return failed(judge.saved_model_rows("altered", wrong))

    assert found("scores", lambda scores: scores + 2e-4) == ["probability"]
    assert found("labels", lambda labels: labels[:, ::-1]) == ["labels"]
    assert found("classes", lambda classes: classes[:, ::-1]) == ["labels"]
    for variant, count in (("float32", 1), ("dynamic_int8", 2)):
        rows = judge.phone_rows("file", variant, scene.phone(variant))
        assert len(rows) == count
        require_passed(rows)


def test_a_phone_that_gives_other_labels_fails(scene: Scene) -> None:
    limits = scene.trained.config.export.tolerance
    reference = np.array([[0.9, 0.1, 0.9]] * 4)
    parity = LabelSetParity(LABELS, (0.4,) * 3)
    rows = parity.phone_rows("file", "dynamic_int8", 1 - reference, reference, limits)
    assert failed(rows) == ["probability", "labels"]


def test_what_is_no_number_is_never_right() -> None:
    parity = LabelSetParity(LABELS, (0.4,) * 3)
    decided = parity.decide(np.array([0.0, np.nan, -9.0]))
    assert decided.tolist() == [1, -1, 0]


def test_people_read_the_labels_and_the_probabilities(scene: Scene) -> None:
    found = scene.ask("serving_default", TEXTS)
    formatter = formatter_of_outputs(frozenset(found))
    assert formatter is not None
    answer = {
        "labels": np.array([b"arts", b""], object),
        "classes": np.array([b"law", b"arts"], object),
        "scores": np.array([0.25, 0.75]),
    }
    prediction = formatter.read("", answer)
    assert prediction["labels"] == ["arts"]
    assert prediction_lines(prediction) == [
        "  arts   75.0%",
        "  law    25.0%",
        "  → arts",
    ]
    none = {**answer, "labels": np.array([b"", b""], object)}
    assert prediction_lines(formatter.read("", none))[-1] == "  → (no label)"
