"""An update of each objective learns, on whichever backend.

On TensorFlow `tests/trainer` asks more of the same, and this is thorough.
"""

import keras
import numpy as np
import pytest
from keras import ops

from tests.model.compiling import ON_JAX
from tests.trainer.batches import OBJECTIVES, random_batch, small_model
from transbeam.configs.schema.training import TrainingConfig
from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.objectives.targets import make_targets
from transbeam.trainer.step.build import build_step
from transbeam.trainer.step.state import TrainState

TIER = () if ON_JAX else pytest.mark.thorough(instead="test_learns_one_batch_by_heart")


@pytest.mark.parametrize("kind", [pytest.param(k, marks=TIER) for k in OBJECTIVES])
def test_an_update_lowers_the_loss_and_moves_what_learns(kind):
    objective, config = OBJECTIVES[kind], TrainingConfig(steps=100)
    model = small_model(objective)
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    state = TrainState(model, optimizer, config)
    update = build_step(state, Loss(make_targets(objective)), config)
    batch = random_batch(objective, 4)

    before = {w.path: ops.convert_to_numpy(w) for w in model.trainable_variables}
    first = float(update(batch)["loss"])
    moved = {
        weight.path
        for weight in model.trainable_variables
        if (ops.convert_to_numpy(weight) != before[weight.path]).any()
    }
    # Softmax takes out again what a key's bias adds to all scores of a query.
    assert {path for path in before if not path.endswith("bias")} <= moved
    for _ in range(5):
        last = float(update(batch)["loss"])
    assert np.isfinite(first)
    assert last < first
