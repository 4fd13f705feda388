"""Trained weights change, others stay to the bit, on both backends."""

from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

from tests.model.conftest import fewer_on_jax
from tests.trainer.batches import OBJECTIVES, random_batch, small_model
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.schema.adaptation import (
    Adaptation,
    AllWeightsConfig,
    FrozenWeightsConfig,
    LoraWeightsConfig,
)
from transbeam.configs.schema.block import LayerNormConfig
from transbeam.configs.schema.training import TrainingConfig
from transbeam.model.adaptation.lora import load_adapters
from transbeam.model.cost.parameters import count_numbers, count_trained
from transbeam.trainer.base.adaptation import ADAPTERS, adapt, finish_adaptation
from transbeam.trainer.loop.checkpoint import (
    restore_checkpoint,
    take_snapshot,
    write_checkpoint,
)
from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.objectives.targets import make_targets
from transbeam.trainer.step.build import build_step
from transbeam.trainer.step.state import TrainState, averaged

TAGS = OBJECTIVES["token_classification"]
LORA = LoraWeightsConfig(rank=2, alpha=8.0)
FREEZE = FrozenWeightsConfig(frozen=("token_embedding/*", "*/self_attention/*"))
ADAPTED = {
    f"encoder_layer_0/self_attention/{part}/lora_kernel_{side}"
    for part in ("query", "value")
    for side in "ab"
}
HEAD = {"token_classifier/kernel", "token_classifier/bias"}


def training(**keys) -> TrainingConfig:
    return TrainingConfig(steps=100, batch_size=8, ema_decay=0.5, **keys)


def make(adaptation: Adaptation, **keys):
    config = training(**keys)
    model = small_model(TAGS, dropout=0.5)
    adapt(model, adaptation, seed=1)
    optimizer = keras.optimizers.AdamW(0.01)
    optimizer.build(model.trainable_variables)
    state = TrainState(model, optimizer, config)
    return state, build_step(state, Loss(make_targets(TAGS)), config)


def values(model: keras.Model) -> dict[str, np.ndarray]:
    return {w.path: np.array(ops.convert_to_numpy(w.value)) for w in model.weights}


def answers(model: keras.Model) -> np.ndarray:
    batch = random_batch(TAGS, 4, seed=9)
    inputs = {tensor.name: batch[tensor.name] for tensor in model.inputs}
    return ops.convert_to_numpy(model(inputs)["logits"])


@pytest.mark.parametrize(
    "case", fewer_on_jax([("lora", 2), ("freeze", 1)], [("lora", 2)])
)
def test_exactly_what_is_asked_for_is_trained(case) -> None:
    kind, accumulation = case
    adaptation = {"lora": LORA, "freeze": FREEZE}[kind]
    state, update = make(adaptation, accumulation=accumulation)
    before = values(state.model)
    expected = ADAPTED | HEAD
    if adaptation is FREEZE:
        expected = {
            path
            for path in before
            if not path.startswith("token_embedding/") and "self_attention/" not in path
        }
    assert {w.path for w in state.model.trainable_variables} == expected
    for number in range(2):
        assert int(update(random_batch(TAGS, 8, number))["skipped"]) == 0
    for path, value in values(state.model).items():
        moved = bool(np.any(value != before[path]))
        assert moved == (path in expected), path
    # Two moments for each number that is trained, and the averages.
    trained = sum(before[path].size for path in expected)
    kept = sum(np.prod(v.shape) for v in state.optimizer.variables if len(v.shape))
    assert kept == 2 * trained
    assert sum(np.prod(v.shape) for v in state.averages) == trained


def test_a_checkpoint_of_adapters_is_not_one_of_all_weights(tmp_path: Path) -> None:
    adapted, _ = make(LORA)
    path = write_checkpoint(tmp_path, take_snapshot(adapted, 2))
    plain, _ = make(AllWeightsConfig())
    with pytest.raises(ArtifactError, match=r"lora_kernel_a is there and not here"):
        restore_checkpoint(path, plain)


def test_merged_answers_as_adapted_with_the_averages_in_place(tmp_path: Path) -> None:
    state, update = make(LORA)
    base = small_model(TAGS)
    base.set_weights([w for p, w in values(state.model).items() if "lora" not in p])
    for number in range(3):
        update(random_batch(TAGS, 8, number))
    last = answers(state.model)
    with averaged(state):
        adapted = answers(state.model)
        assert np.abs(adapted - last).max() > 1e-3
        assert finish_adaptation(state.model, tmp_path)
        np.testing.assert_allclose(answers(state.model), adapted, rtol=0, atol=1e-6)
        paths = [w.path for w in state.model.weights]
        assert paths == [w.path for w in base.weights]
        head = {path: values(state.model)[path] for path in HEAD}
    # The file holds the averages too, and means the same on the weights from before.
    load_adapters(base, tmp_path / ADAPTERS)
    for weight in base.weights:
        if weight.path in HEAD:
            weight.assign(head[weight.path])
    np.testing.assert_allclose(answers(base), adapted, rtol=0, atol=1e-6)


def test_without_adapters_there_is_nothing_to_finish(tmp_path: Path) -> None:
    state, _ = make(FREEZE)
    assert not finish_adaptation(state.model, tmp_path)
    assert not list(tmp_path.iterdir())


def test_merged_in_float32_whatever_is_computed_in(tmp_path: Path) -> None:
    model = small_model(TAGS, dtype="mixed_bfloat16")
    adapt(model, LORA, seed=1)
    weights = {weight.path: weight for weight in model.weights}
    part = "encoder_layer_0/self_attention/query"
    a, b = (weights[f"{part}/lora_kernel_{side}"] for side in "ab")
    b.assign(np.full(b.shape, 1e-3, "float32"))
    kernel = values(model)[f"{part}/kernel"]
    expected = kernel + 4.0 * ops.convert_to_numpy(ops.matmul(a, b))
    finish_adaptation(model, tmp_path)
    found = values(model)[f"{part}/kernel"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_weights_besides_the_adapters() -> None:
    model = small_model(TAGS)
    wanted = LoraWeightsConfig(targets=("*/query",), also_trained=("*_norm/gamma",))
    adapt(model, wanted, seed=1)
    trained = {weight.path for weight in model.trainable_variables}
    assert "encoder_layer_0/feedforward_norm/gamma" in trained
    assert not trained & HEAD
    assert {path for path in trained if "lora" in path} == {
        path for path in ADAPTED if "/query/" in path
    }


@pytest.mark.parametrize(
    ("adaptation", "message"),
    [
        (FrozenWeightsConfig(frozen=("layer_0/*",)), "'layer_0/.' fits the path of no"),
        (
            LoraWeightsConfig(targets=("query",)),
            "'query' fits the path of no dense layer",
        ),
        (LoraWeightsConfig(also_trained=("*/gama",)), r"Most like it: .*gamma"),
        (LoraWeightsConfig(rank=17), "rank=17 is not between 1 and 16"),
        (FrozenWeightsConfig(frozen=("*",)), "nothing would be trained"),
    ],
)
def test_what_cannot_be_is_said(adaptation, message) -> None:
    model = small_model(TAGS)
    with pytest.raises(ConfigError, match=message) as error:
        adapt(model, adaptation, seed=1)
    assert str(error.value).startswith("training.adaptation")
    # `check` says the same before anything is built.
    with pytest.raises(ConfigError, match=message) as counted:
        count_trained(shapes_of(model), adaptation)
    assert str(counted.value).startswith("training.adaptation")


@pytest.mark.parametrize(
    "adaptation",
    [
        AllWeightsConfig(),
        FREEZE,
        LORA,
        LoraWeightsConfig(rank=2, targets=("*",), also_trained=("*norm/*",)),
    ],
)
def test_as_many_are_trained_as_cost_counts(adaptation) -> None:
    keys = {"norm": LayerNormConfig(placement="pre")}
    for model in (
        small_model(TAGS, **keys),
        small_model(OBJECTIVES["causal"], tie_embeddings=False, **keys),
        small_model(OBJECTIVES["image_classification"], **keys),
    ):
        if adaptation is FREEZE and "patch_embedding/kernel" in shapes_of(model):
            continue  # which has no table of tokens to freeze
        counted = count_trained(shapes_of(model), adaptation)
        found = adapt(model, adaptation, seed=1)
        assert (found.trainable, found.total) == (
            counted.numbers,
            count_numbers(shapes_of(model), shapes_of(model)) + counted.added,
        )


def shapes_of(model: keras.Model) -> dict[str, tuple[int, ...]]:
    """Without adapters, and without what is no weight: states of random generators."""
    return {
        weight.path: tuple(weight.shape)
        for weight in model.weights
        if "lora" not in weight.path and "seed" not in weight.path
    }


def test_adapters_need_something_to_stand_beside() -> None:
    with pytest.raises(ConfigError, match=r"adaptation\.kind=lora .* init_from"):
        training(adaptation=LORA)
    training(adaptation=LORA, initial_weights="weights.safetensors")
    training(adaptation=LORA, init_from="runs/bert")


def test_nothing_to_adapt_or_freeze() -> None:
    with pytest.raises(ConfigError, match=r"targets=\[\] adapts nothing"):
        LoraWeightsConfig(targets=())
    with pytest.raises(ConfigError, match=r"frozen=\[\] leaves nothing frozen"):
        FrozenWeightsConfig(frozen=())
