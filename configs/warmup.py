"""The warm-up of a training that leaves its steps out, as a number.

It is a share of all steps, unless the training goes on from one with fewer: then it is
what it was, for a warm-up is over once.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from configs.run import RunConfig
from configs.run_folder import different_keys
from configs.schedules import ENDLESS

STEPS = "training.steps"
WARMUP_STEPS = "training.schedule.warmup_steps"
_KIND = "training.schedule.kind"


def settle_warmup(config: RunConfig) -> RunConfig:
    """The same run, with the steps of its warm-up as a number."""
    return replace(config, training=config.training.with_warmup())


def inherited_warmup(
    config: RunConfig, there: Mapping[str, Any], inputs: Mapping[str, Any]
) -> dict[str, Any]:
    """The warm-up that a training has from one with fewer steps, if it goes on from it.

    Args:
        config: What is asked for.
        there: What the training that is there was decided by.
        inputs: The same of what is asked for, its warm-up settled.

    Returns:
        What to replace in `inputs`: nothing, if the warm-up is given, or the other is
        not its beginning.

    Example:
    >>> from configs.data import DataConfig
    >>> from configs.sources import TextSource
    >>> from configs.schedules import ConstantSchedule
    >>> from configs.training import TrainingConfig
    >>> source = DataConfig(source=TextSource(path="corpus.txt"))
    >>> training = TrainingConfig(steps=30, schedule=ConstantSchedule())
    >>> run = RunConfig(name="tiny", data=source, training=training)
    >>> there = {STEPS: 20, WARMUP_STEPS: 2, _KIND: "constant", "seed": 1}
    >>> inherited_warmup(run, there, {**there, STEPS: 30, WARMUP_STEPS: 3})
    {'training.schedule.warmup_steps': 2}
    >>> inherited_warmup(run, there, {**there, STEPS: 30, WARMUP_STEPS: 3, "seed": 2})
    {}
    """
    schedule = config.training.schedule
    if schedule.warmup_steps is not None or not isinstance(schedule, ENDLESS):
        return {}
    differing = {*different_keys(there, inputs)} - {STEPS, WARMUP_STEPS}
    if differing or inputs[STEPS] < there[STEPS]:
        return {}
    return {WARMUP_STEPS: there.get(WARMUP_STEPS, inputs[WARMUP_STEPS])}
