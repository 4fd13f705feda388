"""Two replicas beside one device, in a process of their own.

Virtual devices are set up before anything has run, and all tests of one process would
have them: so this is a program,
`python -m tests.trainer.distribution.replicas CASE...`.
"""

import functools
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.batches import OBJECTIVES, PAIRS, random_batch, small_model
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.adaptation import LoraWeightsConfig
from transbeam.configs.schema.distillation import DistillationConfig
from transbeam.configs.schema.optimizers import (
    AdafactorConfig,
    AdamWConfig,
    LionConfig,
    MuonConfig,
    Optimizer,
)
from transbeam.configs.schema.pruning import PruningConfig
from transbeam.configs.schema.training import (
    DataParallelConfig,
    Distribution,
    ModelParallelConfig,
    TrainingConfig,
)
from transbeam.trainer.base.adaptation import adapt, finish_adaptation
from transbeam.trainer.distillation.distillation_loss import (
    DistillationLoss,
    with_vectors,
)
from transbeam.trainer.distillation.teacher import begin_as
from transbeam.trainer.distribution.process_info import ProcessInfo
from transbeam.trainer.distribution.workers import ALONE, Workers
from transbeam.trainer.loop.weight_pruner import WeightPruner, prunable_weights
from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.objectives.targets import make_targets
from transbeam.trainer.optimizers.build import build_optimizer
from transbeam.trainer.optimizers.schedules import Warmup
from transbeam.trainer.step.build import build_evaluation, build_step
from transbeam.trainer.step.state import TrainState, averaged

ON_JAX = keras.backend.backend() == "jax"


@functools.cache
def two_replicas() -> Workers:
    if ON_JAX:
        import jax

        from transbeam.trainer.distribution.on_jax import MeshWorkers

        return MeshWorkers(ProcessInfo(), jax.devices()[:2])
    from transbeam.trainer.distribution.on_tensorflow import StrategyWorkers

    return StrategyWorkers(
        tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), ProcessInfo()
    )


class Training:
    """A model of an objective, and what makes it better."""

    def __init__(
        self,
        workers: Workers,
        kind: str,
        optimizer: Optimizer | None = None,
        *,
        dropout: float = 0.0,
        **keys,
    ):
        config = TrainingConfig(steps=100, batch_size=8, **keys)
        objective = {**OBJECTIVES, PAIRS.kind: PAIRS}[kind]
        keras.utils.set_random_seed(1)
        with workers.scope():
            self.model = small_model(objective, dropout=dropout, dtype=config.precision)
            weights = self.model.trainable_variables
            built = keras.optimizers.SGD(0.1)
            if optimizer is not None:
                built = build_optimizer(optimizer, Warmup(0.01, 0), weights)
            built.build(weights)
            pruned = prunable_weights(self.model, config.pruning)
            self.state = TrainState(self.model, built, config, pruned)
        self.pruner = config.pruning and WeightPruner(self.state, config.pruning)
        loss = Loss(make_targets(objective), label_smoothing=0.1)
        self.update = build_step(self.state, loss, config, workers)
        self.forward = build_evaluation(self.model, loss, workers)

    def values(self) -> list[np.ndarray]:
        # The gradient of a key's bias is 0 but for roundings, which adaptive optimizers
        # make large; it has no effect.
        return [
            keras.ops.convert_to_numpy(variable.value)
            for variables in self.state.variables.values()
            for variable in variables
            if "key/bias" not in variable.path and "key_bias" not in variable.path
        ]


class Student(Training):
    """Adapters beside blocks of a teacher, which learn from it."""

    def __init__(self, workers: Workers, kind: str, **keys):
        config = TrainingConfig(steps=100, batch_size=8, **keys)
        objective = OBJECTIVES[kind]
        recipe = DistillationConfig(teacher="runs/teacher")
        keras.utils.set_random_seed(1)
        with workers.scope():
            self.model = small_model(objective)
            teacher = small_model(objective, num_layers=2, seed=5)
            begin_as(self.model, teacher, recipe)
            student, teacher = with_vectors(self.model), with_vectors(teacher)
            adapt(self.model, LoraWeightsConfig(rank=2), seed=1)
            built = build_optimizer(
                AdamWConfig(), Warmup(0.01, 0), student.trainable_variables
            )
            self.state = TrainState(student, built, config)
        loss = DistillationLoss(
            make_targets(objective), student=student, teacher=teacher, config=recipe
        )
        self.update = build_step(self.state, loss, config, workers)


def compare(workers: Workers, kind: str, batches, *arguments, **keys) -> None:
    """Asserts that numbers, state and answers are those of one device."""
    one = Training(ALONE, kind, *arguments, **keys)
    several = Training(workers, kind, *arguments, **keys)
    for step, batch in enumerate(batches):
        for training in (one, several):
            if training.pruner:
                training.pruner.prune(step)
        same(one.update(batch), several.update(batch), rtol=2e-5, atol=1e-6)
    same(one.values(), several.values(), atol=2e-5)
    odd = random_batch(OBJECTIVES[kind], 5, seed=9)
    same(one.forward(odd), several.forward(odd), atol=2e-5)
    if kind == "causal":
        assert several.state.skipped.numpy() == 1


def same(a, b, **tolerance) -> None:
    for x, y in zip(keras.tree.flatten(a), keras.tree.flatten(b), strict=True):
        x, y = (keras.ops.convert_to_numpy(value) for value in (x, y))
        np.testing.assert_allclose(x, y, **tolerance)


def three_batches(kind: str) -> list:
    """Ragged ones; of `causal` a fourth, not finite in a row of one replica."""
    batches = [random_batch(OBJECTIVES[kind], 8, seed) for seed in range(3)]
    if kind == "causal":
        bad = random_batch(OBJECTIVES[kind], 8, seed=7)
        bad["target_weights"][-1, 0] = np.inf
        batches.insert(1, bad)
    return batches


# Before the first update, which is compiled then, and after the second.
PRUNED = PruningConfig(sparsity=0.6, initial_sparsity=0.3, end_step=2, interval=2)


def quick() -> None:
    keys = {"accumulation": 2, "clip_norm": 0.3, "ema_decay": 0.5, "pruning": PRUNED}
    compare(two_replicas(), "causal", three_batches("causal"), AdamWConfig(), **keys)


def objectives() -> None:
    for kind in OBJECTIVES:
        compare(two_replicas(), kind, three_batches(kind), clip_norm=None)


def pairs() -> None:
    """Pairs are compared on their replica in training, and all in an evaluation."""
    one = Training(ALONE, PAIRS.kind, accumulation=4, clip_norm=None)
    several = Training(two_replicas(), PAIRS.kind, accumulation=2, clip_norm=None)
    before = several.values()
    for seed in range(3):
        batch = random_batch(PAIRS, 8, seed)
        same(one.update(batch), several.update(batch), rtol=2e-5, atol=1e-6)
    same(one.values(), several.values(), atol=2e-5)
    after = several.values()
    assert any(np.abs(a - b).max() > 1e-3 for a, b in zip(before, after, strict=True))
    odd = random_batch(PAIRS, 5, seed=9)
    same(one.forward(odd), several.forward(odd), atol=2e-5)


def optimizers() -> None:
    for config in (AdafactorConfig(), LionConfig(), MuonConfig()):
        batches = three_batches("sentence_pairs")
        compare(two_replicas(), "sentence_pairs", batches, config, accumulation=2)


def loss_scale() -> None:
    """A scale that is too large for float16 is found by all replicas."""
    training = Training(two_replicas(), "causal", precision="mixed_float16")
    training.state.loss_scale.assign(2.0**40)
    batch = random_batch(OBJECTIVES["causal"], 8)
    skipped = [int(training.update(batch)["skipped"]) for _ in range(40)]
    assert 20 < sum(skipped) < 35
    assert training.state.loss_scale.numpy() == 2.0 ** (40 - sum(skipped))


def students() -> None:
    """Also once their adapters are merged, with the averages in place."""
    workers = two_replicas()
    for kind in ("classification", "seq2seq"):
        keys = {"accumulation": 2, "ema_decay": 0.5}
        one, several = (Student(who, kind, **keys) for who in (ALONE, workers))
        for batch in three_batches(kind):
            same(one.update(batch), several.update(batch), rtol=2e-5, atol=1e-6)
        same(one.values(), several.values(), atol=2e-5)
        for training in (one, several):
            with averaged(training.state):
                assert finish_adaptation(training.model, None)
        merged = [[w.value for w in x.model.weights] for x in (one, several)]
        same(*merged, atol=2e-5)


def dropout() -> None:
    """Replicas drop other elements: the same rows give them other gradients."""
    rows = random_batch(OBJECTIVES["causal"], 4)
    twice = {name: np.concatenate([x, x]) for name, x in rows.items()}
    one = Training(ALONE, "causal", dropout=0.5)
    several = Training(two_replicas(), "causal", dropout=0.5)
    half, whole = one.update(rows), several.update(twice)
    assert abs(float(half["loss"]) - float(whole["loss"])) > 1e-3
    # What a checkpoint has of the random states is the same as on one device.
    states = [
        [v.numpy() for v in training.model.non_trainable_variables]
        for training in (one, several)
    ]
    same(*states, rtol=0)


def model_parallel() -> None:
    """Weights on two devices each, rows on two such pairs: as one device."""
    from transbeam.trainer.distribution.on_jax import MeshWorkers

    workers = MeshWorkers(ProcessInfo(), model_devices=2)
    assert workers.replicas == 2
    keys = {"accumulation": 2, "clip_norm": 0.3, "ema_decay": 0.5, "pruning": PRUNED}
    for kind in ("causal", "seq2seq"):
        compare(workers, kind, three_batches(kind), AdamWConfig(), **keys)
    training = Training(workers, "causal", AdamWConfig(), ema_decay=0.5)
    training.update(random_batch(OBJECTIVES["causal"], 8))
    weights = {v.path: v.value for v in training.model.trainable_variables}
    query = weights["decoder_layer_0/self_attention/query/kernel"]
    assert query.sharding.shard_shape(query.shape) == (16, 8)
    table = weights["token_embedding/embeddings"]
    assert table.sharding.shard_shape(table.shape) == (15, 16)
    places = [v.path for v in training.model.trainable_variables].index(
        "decoder_layer_0/self_attention/query/kernel"
    )
    average = training.state.averages[places].value
    assert average.sharding.shard_shape(average.shape) == (16, 8)


def devices() -> None:
    """All devices of this worker are taken; what cannot be shared out is refused."""
    if ON_JAX:
        from transbeam.trainer.distribution.on_jax import connect

        def connected(config: Distribution) -> Workers:
            return connect(ProcessInfo(), config, "")

        assert connected(DataParallelConfig()).replicas == 4
        assert connected(ModelParallelConfig(model_devices=2)).replicas == 2
        with pytest.raises(ConfigError, match="has 4 devices, which cannot be divided"):
            connected(ModelParallelConfig(model_devices=3))
        return
    from transbeam.trainer.distribution import on_tensorflow

    assert on_tensorflow.connect(ProcessInfo(), DataParallelConfig()).replicas == 2
    with pytest.raises(ConfigError, match="on JAX alone"):
        on_tensorflow.connect(ProcessInfo(), ModelParallelConfig(model_devices=2))


if __name__ == "__main__":
    if not ON_JAX:
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )
    for name in sys.argv[1:]:
        globals()[name]()
