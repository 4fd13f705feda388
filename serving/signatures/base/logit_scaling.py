"""Logits of classes, divided by the temperature that an export applies."""

from collections.abc import Mapping
from typing import Any

from transbeam.serving.base.trained_run import TrainedRun


def scale_logits(trained: TrainedRun, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Divides the output `logits` by the temperature of the export.

    Args:
        trained: Has the temperature.
        outputs: Outputs of the model; returned as they are if the temperature is 1.
    """
    temperature = trained.calibration.temperature
    if temperature == 1:
        return outputs
    return {**outputs, "logits": outputs["logits"] / temperature}
