"""Two replicas do what one device does."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.batches import OBJECTIVES, random_batch, small_model
from tests.trainer.test_step import training, values
from trainer.asks import asks_of
from trainer.losses import Loss
from trainer.place import Place
from trainer.step import TrainState, build_evaluation, build_step
from trainer.workers import ALONE, Workers

if keras.backend.backend() != "jax":
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * 2
    )
ON_JAX = keras.backend.backend() == "jax"


@pytest.fixture(scope="module")
def replicas() -> Workers:
    """Two copies of a model in this process."""
    if ON_JAX:
        from trainer.workers_jax import MeshWorkers

        return MeshWorkers(Place())
    from trainer.workers_tensorflow import StrategyWorkers

    return StrategyWorkers(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), Place())


def trained(workers: Workers, kind: str, batches, **keys):
    """The state after updates with AdamW, and the numbers of each."""
    config = training(batch_size=8, **keys)
    keras.utils.set_random_seed(1)
    with workers.scope():
        model = small_model(OBJECTIVES[kind])
        optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.1)
        optimizer.build(model.trainable_variables)
        state = TrainState(model, optimizer, config)
    loss = Loss(asks_of(OBJECTIVES[kind]), label_smoothing=0.1)
    update = build_step(state, loss, config, workers)
    numbers = [update(batch) for batch in batches]
    forward = build_evaluation(model, loss, workers)
    answers = forward(random_batch(OBJECTIVES[kind], 5, seed=9))
    return state, numbers, answers


def same(a, b, **tolerance) -> None:
    for x, y in zip(keras.tree.flatten(a), keras.tree.flatten(b), strict=True):
        x, y = (keras.ops.convert_to_numpy(v) for v in (x, y))
        np.testing.assert_allclose(x, y, **tolerance)


KINDS = ["causal", "sentence_pairs"]


@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_as_one_device(replicas, kind, accumulation) -> None:
    batches = [random_batch(OBJECTIVES[kind], 8, seed) for seed in range(3)]
    if kind == "causal":
        # One that is not finite, on the rows of one replica alone.
        bad = {**batches[1], "target_weights": batches[1]["target_weights"].copy()}
        bad["target_weights"][-1, 0] = np.inf
        batches.insert(1, bad)
    keys = {"accumulation": accumulation, "clip_norm": 0.3, "ema_decay": 0.5}
    one, numbers, answers = trained(ALONE, kind, batches, **keys)
    two, same_numbers, same_answers = trained(replicas, kind, batches, **keys)
    print(
        max(
            abs(float(a["loss"]) - float(b["loss"]))
            for a, b in zip(numbers, same_numbers)
        )
    )
    print(
        max(
            float(np.abs(a - b).max())
            for part in ("model", "optimizer", "average", "counters")
            for a, b in zip(values(one.variables[part]), values(two.variables[part]))
            if a.size
        )
    )
    same(numbers, same_numbers, rtol=1e-5)
    for part in one.variables:
        same(values(one.variables[part]), values(two.variables[part]), atol=1e-5)
    same(answers, same_answers, atol=1e-5)
    assert int(values([two.skipped])[0]) == (1 if kind == "causal" else 0)
