"""An export with a temperature: its probabilities are those of logits / T."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.objective_configs import config_of
from tests.serving.conftest import TINY, make_run
from tests.serving.session import asking
from tests.serving.signatures.parity_scenario import failed, remembered
from tests.serving.untrained import untrained_of
from transbeam.configs.loader.calibration_file import Calibration, read_calibration
from transbeam.configs.schema.objectives.objective import Objective
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    TokenClassificationConfig,
)
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.base.applied_calibration import AppliedCalibration
from transbeam.serving.base.trained_run import TrainedRun, load_trained
from transbeam.serving.parity.base.parity_checks import ParityCheck
from transbeam.serving.parity.checker_factory import make_parity_checker
from transbeam.serving.parity.export_parity import require_passed
from transbeam.serving.phone.conversion.tflite_converter import write_tflite
from transbeam.serving.phone.mediapipe_tasks.mediapipe_models import mediapipe_endpoint
from transbeam.serving.phone.readme.readme_writer import write_handover
from transbeam.serving.signatures.pooled import PooledTask
from transbeam.serving.signatures.task_factory import make_signature_task

T = 2.5
APPLIED = AppliedCalibration(
    T, source=Calibration(weights_sha256="a", records_sha256="b")
)
LABELS = ("O", "B-x", "I-x")
TEXT = "a tensor of the same shape"


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory) -> Path:
    """A folder for tokenizers, which are learned once for each kind."""
    return tmp_path_factory.mktemp("tokenizers")


def softmax_of(logits: np.ndarray, temperature: float) -> list[float]:
    odds = [math.exp(logit / temperature) for logit in logits.tolist()]
    return [each / sum(odds) for each in odds]


@pytest.mark.parametrize(
    "kind",
    [
        "classification",
        "pair_classification",
        "sentence_pairs",
        "multi_label_classification",
        "image_classification",
    ],
)
def test_probabilities_and_logits_of_each_kind(kind: str, tokenizers: Path) -> None:
    trained = untrained_of(config_of(kind), tokenizers)
    task = make_signature_task(replace(trained, calibration=APPLIED))
    assert isinstance(task, PooledTask)
    if kind == "image_classification":
        noise = np.random.default_rng(0).integers(0, 256, (2, 4, 4, 3), np.uint8)
        inputs = [tf.constant(noise)]
    else:
        given = [tf.constant([TEXT, "no"])] * len(task.inputs.specs)
        inputs, _ = task.inputs.read(*given)
    names = [spec.name for spec in task.inputs.tensor_specs(None)]
    model = make_signature_task(trained).inputs.model
    raw = model(dict(zip(names, inputs, strict=True)), training=False)["logits"].numpy()
    logits = task.endpoints()[task.by_ids].function(*inputs)["logits"].numpy()
    np.testing.assert_allclose(logits, raw / T, rtol=1e-6)
    found = task.answer.default_outputs(task.inputs.ask(*inputs))["scores"].numpy()
    for row, scores in zip(raw, found, strict=True):
        expected = softmax_of(row, T)
        if kind == "multi_label_classification":
            expected = [1 / (1 + math.exp(-logit / T)) for logit in row.tolist()]
        assert scores == pytest.approx(expected, rel=1e-5)


def with_temperature(trained: TrainedRun, value: float) -> TrainedRun:
    return replace(trained, calibration=replace(APPLIED, temperature=value))


def make_run_of(objective: Objective, folder: Path) -> Path:
    config = replace(
        TINY,
        objective=objective,
        model=replace(TINY.model, num_layers=1),
        export=replace(TINY.export, examples=("a list",), tflite=("float32",)),
    )
    return make_run(folder / "run", config)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory) -> Path:
    objective = ClassificationConfig(labels=LABELS)
    return make_run_of(objective, tmp_path_factory.mktemp("classes"))


@pytest.mark.parametrize(
    "kind",
    [
        ClassificationConfig,
        pytest.param(
            TokenClassificationConfig,
            marks=pytest.mark.thorough(
                instead="test_tags_have_the_probability_at_the_temperature"
            ),
        ),
    ],
)
def test_the_parity_check_divides_as_well_and_finds_another_temperature(
    kind, tmp_path: Path
) -> None:
    run_folder = make_run_of(kind(labels=LABELS), tmp_path)
    trained = load_trained(run_folder)
    ask = remembered(asking(with_temperature(trained, T)))

    def rows(value: float) -> list[ParityCheck]:
        checker = make_parity_checker(with_temperature(trained, value), run_folder)
        return checker.saved_model_rows("functions", ask)

    require_passed(rows(T))
    assert "log-probability" in failed(rows(1.01 * T))


def test_phones_have_the_temperature_in_the_file_and_in_the_readme(
    run_folder: Path,
) -> None:
    trained = load_trained(run_folder)
    calibrated = with_temperature(trained, T)
    files = write_tflite(calibrated, run_folder, run_folder / "tflite")
    phone = TFLiteRunner(files["float32"])

    def rows(value: float) -> list[ParityCheck]:
        checker = make_parity_checker(with_temperature(trained, value), run_folder)
        return checker.phone_rows("file", "float32", phone)

    require_passed(rows(T))
    assert failed(rows(1.0)) == ["log-probability"]
    applied = read_calibration(run_folder / "tflite/calibration.json", "")
    assert applied is not None
    assert applied.temperature == T
    write_handover(calibrated, run_folder / "tflite")
    readme = (run_folder / "tflite/README.md").read_text("utf-8")
    assert "`logits` are divided by 2.5, the temperature" in readme
    write_handover(trained, run_folder / "tflite")
    assert "divided" not in (run_folder / "tflite/README.md").read_text("utf-8")


def test_tags_have_the_probability_at_the_temperature(tokenizers: Path) -> None:
    trained = untrained_of(config_of("token_classification"), tokenizers)
    found = asking(with_temperature(trained, T))("serving_default", {"text": ["the"]})
    plain = asking(trained)("serving_default", {"text": ["the"]})
    odds = [plain["scores"][0, 0], 1 - plain["scores"][0, 0]]  # of two tags
    shares = softmax_of(np.log(np.array(odds, np.float64)), T)
    assert found["tags"].tolist() == plain["tags"].tolist()
    assert found["scores"][0, 0] == pytest.approx(shares[0], rel=1e-5)


def test_mediapipe_s_probabilities(tokenizers: Path) -> None:
    trained = untrained_of(config_of("classification"), tokenizers)
    ids = tf.constant([[2, 7, 9, 3] + [0] * 28])
    inputs = ids, tf.cast(ids > 0, tf.int32), tf.zeros_like(ids)
    plain, found = (
        mediapipe_endpoint(each).function(*inputs)["probability"].numpy()[0]
        for each in (trained, with_temperature(trained, T))
    )
    expected = softmax_of(np.log(plain.astype(np.float64)), T)
    assert found == pytest.approx(expected, rel=1e-5)
