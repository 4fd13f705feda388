"""Optimizers, against updates worked out by hand or written down in numpy anew."""

from pathlib import Path
from typing import Any, get_args

import keras
import numpy as np
import pytest

from tests.trainer.batches import OBJECTIVES, random_batch, small_model
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    Model,
    PoolerConfig,
)
from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    SentencePairsConfig,
)
from transbeam.configs.schema.objectives.objective import Objective
from transbeam.configs.schema.objectives.supervised import (
    RegressionConfig,
    SpanQAConfig,
    TokenClassificationConfig,
)
from transbeam.configs.schema.optimizers import (
    NOT_DECAYED,
    AdafactorConfig,
    AdamWConfig,
    LionConfig,
    MuonConfig,
    Optimizer,
)
from transbeam.configs.schema.training import TrainingConfig
from transbeam.model.build import build_model
from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.objectives.targets import make_targets
from transbeam.trainer.optimizers.adafactor import Adafactor
from transbeam.trainer.optimizers.build import build_optimizer, is_decayed
from transbeam.trainer.optimizers.schedules import Warmup
from transbeam.trainer.step.build import build_step
from transbeam.trainer.step.state import TrainState

EVERY = [kind() for kind in get_args(Optimizer)]
SMALL = {"num_layers": 1, "hidden_dim": 8}
TINY = Path(__file__).parents[3] / "configs/tiny"
LABELS = ("a", "b", "c")


def variable(value: Any, name: str, layer: str = "dense") -> keras.Variable:
    with keras.name_scope(layer):
        return keras.Variable(np.asarray(value, "float32"), name=name)


def update(optimizer: Any, variables: list, *gradients: list) -> list[np.ndarray]:
    """The variables after an update with each list of gradients."""
    for of_each in gradients:
        tensors = [keras.ops.convert_to_tensor(g, "float32") for g in of_each]
        optimizer.apply(tensors, variables)
    return [v.numpy() for v in variables]


def by_kind(config: Any) -> str:
    return config.kind


# What decays.


@pytest.mark.parametrize(
    "name",
    [
        "bert_base",
        "gpt2_small",
        "llama_7b",
        "linformer_base",
        "longformer_base",
        "classifier_small",
        "t5_small",
        "vit_base",
    ],
)
def test_matrices_decay_and_biases_norms_and_embeddings_do_not(name: str) -> None:
    run = load_run(TINY / f"{name}.yaml", with_model=True)
    keras.backend.clear_session()
    model = build_model(run.model, run.objective, vocabulary_size=10)
    tables = ("token_", "position_", "segment_", "relative_bias", "class_token")
    for weight in model.trainable_weights:
        matrix = len(weight.shape) > 1 and not any(t in weight.path for t in tables)
        assert is_decayed(weight.path, NOT_DECAYED) == matrix, weight.path


@pytest.mark.parametrize("kind", get_args(Optimizer), ids=lambda kind: kind.__name__)
def test_without_gradients_decayed_weights_alone_move(kind: Any) -> None:
    matrix, vector = [[4.0, -8.0], [1.0, 2.0]], [4.0, -8.0]
    variables = [
        variable(matrix, "kernel"),
        variable(matrix, "kernel", layer="logits"),
        variable(matrix, "embeddings"),
        variable(vector, "bias"),
    ]
    optimizer = build_optimizer(
        kind(weight_decay=0.5), Warmup(0.25, warmup_steps=2), variables
    )
    zeros = [np.zeros(v.shape) for v in variables]
    after = update(optimizer, variables, zeros, zeros)
    # The rate of the first step is 0.125, of the second 0.25.
    left = (1 - 0.5 * 0.125) * (1 - 0.5 * 0.25)
    for value, share in zip(after[:3], [left, left, 1.0], strict=True):
        np.testing.assert_allclose(value, share * np.array(matrix), rtol=1e-6)
    assert after[3].tolist() == vector


@pytest.mark.parametrize("kind", get_args(Optimizer), ids=lambda kind: kind.__name__)
def test_own_patterns_say_what_does_not_decay(kind: Any) -> None:
    variables = [variable([[8.0]], "kernel"), variable([8.0], "bias")]
    config = kind(weight_decay=0.5, not_decayed=("dense/ker",))
    optimizer = build_optimizer(config, Warmup(0.5, 0), variables)
    kernel, bias = update(optimizer, variables, [[[0.0]], [0.0]])
    assert (kernel.item(), bias.item()) == (8.0, 6.0)
    optimizer = build_optimizer(
        kind(weight_decay=0.5, not_decayed=()), Warmup(0.5, 0), variables
    )
    kernel, bias = update(optimizer, variables, [[[0.0]], [0.0]])
    assert (kernel.item(), bias.item()) == (6.0, 4.5)


# What the updates are.


def test_adamw_by_the_paper() -> None:
    random = np.random.default_rng(1)
    weight = random.normal(size=(3, 2))
    gradients = random.normal(size=(2, 3, 2)) * 100
    variables = [variable(weight, "kernel")]
    config = AdamWConfig(beta_1=0.8, beta_2=0.9, epsilon=1e-9, weight_decay=0.1)
    optimizer = build_optimizer(config, Warmup(0.5, 0), variables)
    got = update(optimizer, variables, *([g] for g in gradients))
    # Loshchilov & Hutter, algorithm 2.
    mean = square = np.zeros_like(weight)
    for step, gradient in enumerate(gradients, 1):
        mean = 0.8 * mean + 0.2 * gradient
        square = 0.9 * square + 0.1 * gradient**2
        corrected = (mean / (1 - 0.8**step), square / (1 - 0.9**step))
        direction = corrected[0] / np.sqrt(corrected[1])
        weight = weight - 0.5 * (direction + 0.1 * weight)
    np.testing.assert_allclose(got[0], weight, rtol=1e-5)
    # Nothing was clipped.
    np.testing.assert_allclose(optimizer.variables[1].numpy(), mean, rtol=1e-5)


def test_lion_by_the_paper() -> None:
    variables = [variable([1.0, 1.0, 1.0], "kernel")]
    config = LionConfig(beta_1=0.5, beta_2=0.75, weight_decay=0.25)
    optimizer = build_optimizer(config, Warmup(0.5, 0), variables)
    got = update(optimizer, variables, [[2.0, -8.0, 0.0]], [[-4.0, -1.0, 3.0]])
    # Means after the first step: a quarter of the gradient. Second step: signs of
    # (0.5 · 0.5 - 0.5 · 4, -0.5 · 2 - 0.5, 1.5).
    first = 1.0 - 0.5 * (np.array([1.0, -1.0, 0.0]) + 0.25)
    second = first - 0.5 * (np.array([-1.0, -1.0, 1.0]) + 0.25 * first)
    np.testing.assert_allclose(got[0], second, rtol=1e-6)


def adafactor_by_the_paper(weight: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """Shazeer & Stern, algorithm 4 with 7's choices, and a constant rate of 0.5."""
    rows, columns = np.zeros(weight.shape[0]), np.zeros(weight.shape[1])
    for step, gradient in enumerate(gradients, 1):
        beta = 1 - step**-0.8
        squares = gradient**2 + 1e-30
        rows = beta * rows + (1 - beta) * squares.sum(1)
        columns = beta * columns + (1 - beta) * squares.sum(0)
        direction = gradient / np.sqrt(np.outer(rows, columns) / rows.sum())
        direction /= max(1.0, np.sqrt(np.mean(direction**2)))
        size = max(1e-3, np.sqrt(np.mean(weight**2)))
        weight = weight - 0.5 * size * direction
    return weight


@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_adafactor_by_the_paper(scale: float) -> None:
    random = np.random.default_rng(2)
    weight = random.normal(size=(4, 3)) * scale
    gradients = random.normal(size=(3, 4, 3)) * np.array([1, 50, 0.1])[:, None, None]
    variables = [variable(weight, "kernel")]
    optimizer = build_optimizer(AdafactorConfig(), Warmup(0.5, 0), variables)
    got = update(optimizer, variables, *([g] for g in gradients))
    expected = adafactor_by_the_paper(weight, gradients)
    np.testing.assert_allclose(got[0], expected, rtol=1e-4, atol=1e-6 * scale)


def test_adafactor_is_keras_own_below_one_by_the_root_of_the_step() -> None:
    random = np.random.default_rng(3)
    shapes = [(4, 3), (5,), (2, 3, 4)]
    weights = [random.normal(size=shape) for shape in shapes]
    gradients = [[random.normal(size=shape) for shape in shapes] for _ in range(4)]
    results = []
    for optimizer in (
        Adafactor(0.01),
        keras.optimizers.Adafactor(0.01, relative_step=False),
    ):
        variables = [variable(w, f"w{i}") for i, w in enumerate(weights)]
        results.append(update(optimizer, variables, *gradients))
    for own, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(own, theirs, rtol=1e-5)


def test_adafactor_keeps_rows_and_columns_alone() -> None:
    optimizer = Adafactor(Warmup(0.1, 0))
    optimizer.build([variable(np.ones((30, 20)), "kernel"), variable([1.0], "bias")])
    numbers = [int(np.prod(v.shape)) for v in optimizer.variables]
    assert numbers == [1, 30, 20, 1]


def test_adafactor_is_made_again_from_its_config() -> None:
    made = Adafactor(0.5, 0.7, 1e-20, 1e-2, 2.0, weight_decay=0.1)
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(made))
    assert isinstance(copy, Adafactor)
    assert copy.get_config() == made.get_config()


def orthogonal_by_the_paper(matrix: np.ndarray) -> np.ndarray:
    """Jordan et al.'s five steps of Newton and Schulz, on either side."""
    x = matrix / np.linalg.norm(matrix)
    for _ in range(5):
        product = x @ x.T
        x = 3.4445 * x + (-4.775 * product + 2.0315 * product @ product) @ x
    return x


@pytest.mark.parametrize("shape", [(6, 4), (4, 6)])
def test_muon_by_the_paper(shape: tuple[int, int]) -> None:
    random = np.random.default_rng(4)
    weight = random.normal(size=shape)
    gradients = random.normal(size=(2, *shape))
    variables = [variable(weight, "kernel")]
    config = MuonConfig(momentum=0.9, weight_decay=0.1)
    optimizer = build_optimizer(config, Warmup(0.5, 0), variables)
    got = update(optimizer, variables, *([g] for g in gradients))
    momentum = np.zeros(shape)
    for gradient in gradients:
        momentum = 0.9 * momentum + gradient
        direction = orthogonal_by_the_paper(gradient + 0.9 * momentum)
        values = np.linalg.svd(direction, compute_uv=False)
        assert np.all((values > 0.6) & (values < 1.3))
        # Liu et al., 2025, eq. 4.
        step = 0.2 * np.sqrt(max(shape)) * direction
        weight = weight - 0.5 * (step + 0.1 * weight)
    np.testing.assert_allclose(got[0], weight, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("config", "objective"),
    [
        (
            EncoderConfig(pooler=PoolerConfig(projection=True), **SMALL),
            SentencePairsConfig(),
        ),
        (EncoderConfig(**SMALL), TokenClassificationConfig(labels=LABELS)),
        (EncoderConfig(**SMALL), SpanQAConfig()),
        (EncoderConfig(**SMALL), RegressionConfig()),
        (DecoderConfig(tie_embeddings=False, **SMALL), CausalConfig()),
    ],
    ids=["pairs", "tokens", "spans", "regression", "causal"],
)
def test_muon_takes_the_hidden_matrices_alone(
    config: Model, objective: Objective
) -> None:
    model = build_model(config, objective, vocabulary_size=10)
    variables = model.trainable_variables
    optimizer = build_optimizer(MuonConfig(), Warmup(0.1, 0), variables)
    kept = {v.name for v in optimizer.variables}
    by_muon = {
        v.path for v in variables if f"{v.path.replace('/', '_')}_velocity" not in kept
    }
    block = {"decoder": "decoder_layer_0", "encoder": "encoder_layer_0"}[config.kind]
    hidden = {
        *(f"self_attention/{name}" for name in ("query", "key", "value", "output")),
        *(f"feedforward/{name}" for name in ("intermediate", "output")),
    }
    head = {"head_dense/kernel", "pooler/kernel"}
    assert by_muon - head == {f"{block}/{name}/kernel" for name in hidden}
    assert by_muon & head == (
        head if isinstance(objective, SentencePairsConfig) else set()
    )


def test_what_muon_leaves_is_adam_s() -> None:
    results = []
    for config in (
        MuonConfig(beta_1=0.8, beta_2=0.9, epsilon=1e-6, weight_decay=0.1),
        AdamWConfig(beta_1=0.8, beta_2=0.9, epsilon=1e-6, weight_decay=0.1),
    ):
        variables = [variable([1.0, -2.0], "bias"), variable([[3.0]], "embeddings")]
        optimizer = build_optimizer(config, Warmup(0.5, 0), variables)
        results.append(update(optimizer, variables, *[[[0.3, 4.0], [[-2.0]]]] * 3))
    for muon, adam in zip(*results, strict=True):
        np.testing.assert_array_equal(muon, adam)


# What every optimizer can do.


@pytest.mark.parametrize("config", EVERY, ids=by_kind)
def test_restored_it_goes_on_as_if_it_had_not_stopped(config: Optimizer) -> None:
    random = np.random.default_rng(5)
    shapes = {"kernel": (4, 3), "embeddings": (5, 3), "bias": (3,)}
    gradients = [[random.normal(size=s) for s in shapes.values()] for _ in range(4)]

    def fresh() -> tuple[Any, list]:
        variables = [variable(np.ones(shape), name) for name, shape in shapes.items()]
        return build_optimizer(config, Warmup(0.1, 3), variables), variables

    optimizer, variables = fresh()
    halfway = update(optimizer, variables, *gradients[:2])
    store: dict[str, np.ndarray] = {}
    optimizer.save_own_variables(store)
    expected = update(optimizer, variables, *gradients[2:])

    optimizer, variables = fresh()
    optimizer.load_own_variables(store)
    for weight, value in zip(variables, halfway, strict=True):
        weight.assign(value)
    got = update(optimizer, variables, *gradients[2:])
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("config", EVERY, ids=by_kind)
def test_a_model_learns(config: Optimizer) -> None:
    """By the trainer's own step, on whichever backend."""
    model = small_model(OBJECTIVES["causal"])
    # Adafactor's rate is a share of the weights' own size.
    peak = 0.1 if isinstance(config, AdafactorConfig) else 0.01
    optimizer = build_optimizer(config, Warmup(peak, 0), model.trainable_variables)
    asked = TrainingConfig(steps=100, batch_size=8)
    state = TrainState(model, optimizer, asked)
    step = build_step(state, Loss(make_targets(OBJECTIVES["causal"])), asked)
    batch = random_batch(OBJECTIVES["causal"], 8, 0)

    losses = [float(step(batch)["loss"]) for _ in range(30)]
    assert losses[-1] < 0.8 * losses[0]
    assert int(optimizer.iterations.numpy()) == 30
