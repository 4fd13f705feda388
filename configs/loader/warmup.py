"""The number of warm-up steps, if a configuration leaves it out.

The default is a share of all steps. If the training continues or repeats an earlier
training in the run's folder, the earlier number is used instead.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from transbeam.configs.loader.run_folder import different_keys
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.schedules import ENDLESS, most_warmup

STEPS = "training.steps"
WARMUP_STEPS = "training.schedule.warmup_steps"
_KIND = "training.schedule.kind"


def settle_warmup(config: RunConfig) -> RunConfig:
    """Replaces an omitted number of warm-up steps by its default.

    While the number of steps is unknown, because the configuration has epochs, the
    warm-up stays omitted.
    """
    return replace(config, training=config.training.with_warmup())


def inherited_warmup(
    config: RunConfig, there: Mapping[str, Any], inputs: Mapping[str, Any]
) -> dict[str, Any]:
    """The warm-up of an earlier training in the run's folder, if it is continued.

    Args:
        config: The run.
        there: The inputs of the earlier training.
        inputs: The inputs of the current training, including the number of warm-up
            steps.

    Returns:
        The keys to replace in `inputs`; empty if the configuration sets the number of
        warm-up steps, or if this training does not continue the earlier one.

    Example:
    >>> from transbeam.configs.schema.data import DataConfig
    >>> from transbeam.configs.schema.sources import TextSourceConfig
    >>> from transbeam.configs.schema.schedules import ConstantScheduleConfig
    >>> from transbeam.configs.schema.training import TrainingConfig
    >>> source = DataConfig(source=TextSourceConfig(path="corpus.txt"))
    >>> training = TrainingConfig(steps=30, schedule=ConstantScheduleConfig())
    >>> run = RunConfig(name="tiny", data=source, training=training)
    >>> there = {STEPS: 20, WARMUP_STEPS: 2, _KIND: "constant", "seed": 1}
    >>> inherited_warmup(run, there, {**there, STEPS: 30, WARMUP_STEPS: 3})
    {'training.schedule.warmup_steps': 2}
    >>> inherited_warmup(run, there, {**there, STEPS: 30, WARMUP_STEPS: 3, "seed": 2})
    {}
    """
    schedule = config.training.schedule
    differing = {*different_keys(there, inputs)} - {STEPS, WARMUP_STEPS}
    if schedule.warmup_steps is not None or differing or WARMUP_STEPS not in there:
        return {}
    if inputs[STEPS] is None or there[STEPS] is None:  # epochs, before the records
        return {}
    before = {WARMUP_STEPS: there[WARMUP_STEPS]}
    if isinstance(schedule, ENDLESS) and inputs[STEPS] >= there[STEPS]:
        return before
    # In version 0.1.0 the default was a number, not a share of the steps.
    is_same = inputs[STEPS] == there[STEPS]
    return before if is_same and there[WARMUP_STEPS] == most_warmup(schedule) else {}
