"""Reference outputs: those of the Keras model, at the temperature of the export."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from transbeam.serving.base.trained_run import TrainedRun


def keras_outputs(
    trained: TrainedRun, batch: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Runs the Keras model on a batch.

    The exported graph divides logits with code of its own, in float32.

    Args:
        trained: The Keras model, and the temperature that its export applies.
        batch: The model's inputs by name.

    Returns:
        The outputs by name; `logits` are divided by the temperature, in float64.
    """
    outputs: Any = trained.model(dict(batch), training=False)
    found = {name: np.asarray(value) for name, value in outputs.items()}
    if trained.calibration.temperature != 1:
        logits = found["logits"].astype(np.float64)
        found["logits"] = logits / trained.calibration.temperature
    return found
