"""Learning from a teacher, on both backends."""

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import keras
import numpy as np
import pytest
from keras import ops

from tests.model.conftest import fewer_on_jax, without_jax
from tests.trainer.batches import OBJECTIVES, random_batch, small_model
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.distillation import DistillationConfig
from transbeam.configs.schema.training import TrainingConfig
from transbeam.model.weights.assign import variables_by_path
from transbeam.trainer.distillation.distillation_loss import (
    DistillationLoss,
    with_vectors,
)
from transbeam.trainer.distillation.teacher import begin_as
from transbeam.trainer.objectives.divergence import divergence
from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.objectives.targets import make_targets
from transbeam.trainer.step.build import build_evaluation, build_step
from transbeam.trainer.step.state import TrainState

KINDS = [
    "masked",
    "causal",
    "seq2seq",
    "classification",
    "token_classification",
    "image_classification",
]
LIKE_DISTILBERT = DistillationConfig(teacher="runs/teacher")


def loss_on(
    kind: str,
    student: keras.Model,
    teacher: keras.Model,
    config: DistillationConfig = LIKE_DISTILBERT,
    make: type[DistillationLoss] = DistillationLoss,
) -> DistillationLoss:
    asks = make_targets(OBJECTIVES[kind])
    return make(asks, student=student, teacher=teacher, config=config)


def pair(kind: str, *, dropout: float = 0.0) -> tuple[keras.Model, keras.Model]:
    """A student of one block, which is its teacher's second."""
    options: dict[str, Any] = {"dropout": dropout}
    student = small_model(OBJECTIVES[kind], **options)
    teacher = small_model(OBJECTIVES[kind], num_layers=2, seed=5, **options)
    second = {"layers": (1,), "decoder_layers": (1,)}
    begin_as(student, teacher, DistillationConfig(teacher="runs/teacher", **second))
    return with_vectors(student), with_vectors(teacher)


def updating(student: keras.Model, loss: Loss, **keys):
    """Plain gradient descent, so that an update shows the gradient."""
    config = TrainingConfig(steps=100, batch_size=8, **keys)
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(student.trainable_variables)
    state = TrainState(student, optimizer, config)
    return state, build_step(state, loss, config)


def values(variables) -> list[np.ndarray]:
    return [np.array(ops.convert_to_numpy(variable.value)) for variable in variables]


def assert_close(found, expected, atol: float) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)


def test_the_loss_by_hand() -> None:
    outputs = {"sequence_output": keras.KerasTensor((None, None, 2))}
    stub = cast("keras.Model", SimpleNamespace(output=outputs))
    config = DistillationConfig(
        teacher="runs/teacher",
        temperature=2.0,
        task_weight=3.0,
        teacher_weight=5.0,
        cosine_weight=7.0,
    )
    loss = loss_on("causal", stub, stub, config)
    # Halved and through the softmax, scores are the roots of these, here the numbers.
    student = 2 * np.log([[[0.25, 0.25, 0.5], [0.9, 0.05, 0.05], [1.0, 1.0, 1.0]]])
    teacher = 2 * np.log([[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [1.0, 1.0, 1.0]]])
    batch = {
        "target_ids": np.array([[2, 0, 0]], "int32"),
        "target_weights": np.array([[1.0, 0.0, 0.0]], "float32"),
        "document_ids": np.array([[1, 2, 0]], "int32"),
        "teacher/logits": teacher.astype("float32"),
        "teacher/sequence_output": np.array([[[3, 4], [0, 2], [1, 9]]], "float32"),
    }
    outputs = {
        "logits": student.astype("float32"),
        "sequence_output": np.array([[[3, 0], [0, 5], [-4, 0]]], "float32"),
    }
    assert [float(count) for count in loss.counts(batch)] == [1.0, 2.0]
    value, sums = loss(outputs, batch, [np.float32(4.0), np.float32(8.0)])
    task = -math.log(2 / 3) / 4  # squares of 0.25, 0.25 and 0.5 are as 1, 1 and 4
    nats = 0.5 * math.log(2) + 0.25 * math.log(0.5)
    apart = 1 - 0.6
    expected = 3 * task + 5 * 2.0**2 * nats / 4 + 7 * apart / 8
    assert float(value) == pytest.approx(expected, rel=1e-5)
    assert float(sums["teacher_logits"]["cost"]) == pytest.approx(nats, rel=1e-5)
    assert float(sums["cosine"]["cost"]) == pytest.approx(apart, rel=1e-5)
    assert float(sums["cosine"]["count"]) == 2.0
    assert float(sums["logits"]["cost"]) == pytest.approx(4 * task, rel=1e-5)


@without_jax
@pytest.mark.parametrize("kind", fewer_on_jax(KINDS, ["seq2seq"]))
def test_a_student_that_is_its_teacher_has_only_the_task_left(kind) -> None:
    student = small_model(OBJECTIVES[kind], num_layers=2)
    teacher = small_model(OBJECTIVES[kind], num_layers=2, seed=5)
    begin_as(student, teacher, LIKE_DISTILBERT)
    loss = loss_on(kind, with_vectors(student), with_vectors(teacher))
    batch = loss.prepare(random_batch(OBJECTIVES[kind], 4))
    inputs = {tensor.name: batch[tensor.name] for tensor in student.inputs}
    counts = loss.counts(batch)
    value, sums = loss(loss.student(inputs), batch, counts)
    plain, _ = Loss(loss.targets)(student(inputs), batch, counts[:1])
    assert float(value) == pytest.approx(2.0 * float(plain), rel=1e-5)
    beside = {name for name in sums if name not in student.output}
    cosines = {"encoder_cosine", "decoder_cosine"} if kind == "seq2seq" else {"cosine"}
    assert beside == {"teacher_logits"} | cosines
    for name in beside:
        assert float(sums[name]["count"]) > 0
        mean = float(sums[name]["cost"]) / float(sums[name]["count"])
        assert mean == pytest.approx(0.0, abs=1e-6), name


@pytest.mark.parametrize(
    "kind",
    [
        "masked",
        pytest.param(
            "seq2seq",
            marks=[
                without_jax,
                pytest.mark.thorough(
                    instead="test_accumulated_is_the_whole_batch, "
                    "test_a_student_that_is_its_teacher_has_only_the_task_left"
                ),
            ],
        ),
    ],
)
def test_accumulated_is_the_whole_batch(kind) -> None:
    results = []
    for parts in (1, 4):
        student, teacher = pair(kind)
        before = values(student.trainable_variables)
        loss = loss_on(kind, student, teacher)
        _, update = updating(student, loss, accumulation=parts)
        for seed in range(2):
            numbers = update(random_batch(OBJECTIVES[kind], 8, seed))
        results.append((values(student.trainable_variables), numbers))
    (whole, numbers), (parts, part_numbers) = results
    assert_close(parts, whole, atol=2e-6)
    assert max(np.abs(a - b).max() for a, b in zip(whole, before, strict=True)) > 1e-3
    for x, y in zip(
        keras.tree.flatten(numbers), keras.tree.flatten(part_numbers), strict=True
    ):
        np.testing.assert_allclose(
            ops.convert_to_numpy(x), ops.convert_to_numpy(y), rtol=3e-5
        )


@pytest.mark.parametrize(("noise", "rtol"), [(1.0, 1e-5), (1e-2, 1e-3)])
def test_a_small_divergence_is_exact_over_a_large_vocabulary(noise, rtol) -> None:
    random = np.random.default_rng(0)
    teacher = random.normal(0, 3, (8, 30_000))
    student = teacher + random.normal(0, noise, teacher.shape)
    here, there = (
        scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
        for scores in (student, teacher)
    )
    exact = (np.exp(there) * (there - here)).sum(axis=-1)
    found = ops.convert_to_numpy(divergence(student, teacher, 1.0))
    np.testing.assert_allclose(found, exact, rtol=rtol)


class _Told(DistillationLoss):
    """Finds what the teacher said in the batch."""

    def prepare(self, batch: Mapping[str, Any]) -> Mapping[str, Any]:
        return batch


def test_what_the_teacher_says_is_a_constant_and_it_stays_as_it_is() -> None:
    student, teacher = pair("causal", dropout=0.5)
    loss = loss_on("causal", student, teacher)
    batch = random_batch(OBJECTIVES["causal"], 8)
    told = {
        name: ops.convert_to_numpy(x) for name, x in dict(loss.prepare(batch)).items()
    }
    again = loss.prepare(batch)["teacher/logits"]  # without dropout
    np.testing.assert_array_equal(told["teacher/logits"], ops.convert_to_numpy(again))
    before = values(teacher.variables)
    state, update = updating(student, loss)
    update(batch)
    for a, b in zip(values(teacher.variables), before, strict=True):
        np.testing.assert_array_equal(a, b)
    kept = {id(v) for variables in state.variables.values() for v in variables}
    assert not kept & {id(variable) for variable in teacher.variables}

    copy, _ = pair("causal", dropout=0.5)
    _, update = updating(copy, loss_on("causal", copy, teacher, make=_Told))
    update(told)
    assert_close(values(student.weights), values(copy.weights), atol=1e-6)


@without_jax
def test_a_student_comes_to_answer_as_its_teacher() -> None:
    """From the teacher alone: the task has no weight."""
    _, teacher = pair("classification")
    student = with_vectors(small_model(OBJECTIVES["classification"]))
    config = DistillationConfig(teacher="runs/teacher", task_weight=0, cosine_weight=0)
    loss = loss_on("classification", student, teacher, config)
    batch = random_batch(OBJECTIVES["classification"], 8)
    for weight in teacher.weights:
        if weight.path == "classifier/kernel":
            weight.assign(20 * ops.convert_to_numpy(weight.value))  # it is sure
    _, update = updating(student, loss)
    costs = [float(update(batch)["sums"]["teacher_logits"]["cost"]) for _ in range(40)]
    assert costs[-1] < 0.2 * costs[0]
    found = build_evaluation(student, loss)(batch)["logits"]["guesses"]
    wanted = build_evaluation(teacher, loss)(batch)["logits"]["guesses"]
    agree = ops.convert_to_numpy(found) == ops.convert_to_numpy(wanted)
    assert agree.mean() >= 7 / 8


def test_vectors_of_other_widths_cannot_be_compared() -> None:
    student = with_vectors(small_model(OBJECTIVES["causal"], hidden_dim=8))
    _, teacher = pair("causal")
    with pytest.raises(ConfigError, match="are 8 wide, the teacher's 16"):
        loss_on("causal", student, teacher)
    without = DistillationConfig(teacher="runs/teacher", cosine_weight=0)
    assert len(loss_on("causal", student, teacher, without).targets) == 1


@pytest.mark.parametrize(
    ("kind", "keys", "expected"),
    [
        ("masked", {}, {"encoder_layer_0": 0, "encoder_layer_1": 2}),
        ("causal", {"layers": (3, 1)}, {"decoder_layer_0": 3, "decoder_layer_1": 1}),
        (
            "seq2seq",
            {"decoder_layers": (0, 3)},
            {
                "encoder_layer_0": 0,
                "encoder_layer_1": 2,
                "decoder_layer_0": 0,
                "decoder_layer_1": 3,
            },
        ),
    ],
)
def test_a_student_begins_as_blocks_of_its_teacher(kind, keys, expected) -> None:
    student = small_model(OBJECTIVES[kind], num_layers=2)
    teacher = small_model(OBJECTIVES[kind], num_layers=4, seed=5)
    random = np.random.default_rng(0)
    for weight in teacher.weights:
        weight.assign(random.normal(size=weight.shape))
    begin_as(student, teacher, DistillationConfig(teacher="runs/teacher", **keys))
    there = {path: w.numpy() for path, w in variables_by_path(teacher).items()}
    taken = set()
    for path, weight in variables_by_path(student).items():
        block, _, rest = path.partition("/")
        if block in expected:
            block = f"{block.rpartition('_')[0]}_{expected[block]}"
            taken.add(block)
        np.testing.assert_array_equal(weight.numpy(), there[f"{block}/{rest}"], path)
    assert len(taken) == len(expected)


@pytest.mark.parametrize(
    ("options", "keys", "message"),
    [
        ({"num_layers": 3}, {}, "has 3 blocks and its teacher's only 2"),
        ({}, {"layers": (0, 1)}, r"\[0, 1\] names 2 blocks for the encoder's 1"),
        ({}, {"layers": (2,)}, "no block 2; the teacher's encoder has 2, from 0 to 1"),
        ({"hidden_dim": 8}, {}, r"token_embedding/embeddings: \(30, 16\) there"),
    ],
)
def test_blocks_that_cannot_be_taken(options, keys, message) -> None:
    student = small_model(OBJECTIVES["masked"], **options)
    teacher = small_model(OBJECTIVES["masked"], num_layers=2, seed=5)
    before = student.get_weights()
    with pytest.raises(ConfigError, match=message):
        begin_as(student, teacher, DistillationConfig(teacher="runs/teacher", **keys))
    assert_close(student.get_weights(), before, atol=0)


def test_rules_between_keys() -> None:
    with pytest.raises(ConfigError, match="nothing to learn from the teacher"):
        DistillationConfig(teacher="runs/a", teacher_weight=0, cosine_weight=0)
    with pytest.raises(ConfigError, match=r"layers=\[\] takes nothing"):
        DistillationConfig(teacher="runs/a", layers=(), decoder_layers=(1,))
    with pytest.raises(ConfigError, match="also begins with blocks of its teacher"):
        TrainingConfig(steps=100, initial_weights="w", distillation=LIKE_DISTILBERT)
    alone = DistillationConfig(teacher="runs/a", layers=())
    TrainingConfig(steps=100, initial_weights="w", distillation=alone)
