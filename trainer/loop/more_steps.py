"""Extends a training to more steps than it was planned with."""

from collections.abc import Mapping
from typing import Any

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.loader.run_folder import Stage, different_keys
from transbeam.configs.loader.warmup import STEPS
from transbeam.configs.schema.schedules import ENDLESS, Schedule, common_steps
from transbeam.trainer.loop.checkpoint import checkpoint_step, list_checkpoints


def can_go_on(stage: Stage, inputs: Mapping[str, Any], schedule: Schedule) -> bool:
    """Tells if an earlier training can be continued to another number of steps.

    It can if only the number of steps differs, and every step up to the last checkpoint
    has the same learning rate in both plans.

    Args:
        stage: The training's stage, finished or not.
        inputs: The inputs of the new plan.
        schedule: The schedule of the new plan, with its warm-up as a number of steps.

    Raises:
        ArtifactError: The training is finished, the new plan has more steps, and the
            learning rate has already decayed toward the earlier plan's end.
    """
    there = stage.inputs()
    checkpoints = list_checkpoints(stage.path / "checkpoints")
    if not checkpoints or different_keys(there, inputs) != [STEPS]:
        return False
    if not stage.is_resumable:
        return False
    before, steps = there[STEPS], inputs[STEPS]
    if checkpoint_step(checkpoints[-1]) <= common_steps(schedule, before, steps):
        return True
    if stage.is_finished and steps > before:
        raise ArtifactError(_refusal(stage, before, steps, schedule))
    return False


def _refusal(stage: Stage, before: int, steps: int, schedule: Schedule) -> str:
    run = stage.run_folder
    endless = ", ".join(kind.kind for kind in ENDLESS)
    return (
        f"{stage.path}: its {before:,} steps are done, and the learning rate went down "
        f"to their end (training.schedule.kind={schedule.kind}): going on to {steps:,} "
        "would not give what so many steps in one go give. Instead, either\n"
        f"  train all {steps:,} anew: rename {stage.path} first, and it is kept;\n"
        f"  or begin another run with its weights, for {steps - before:,} steps: --run "
        f"OTHER --set model.init_from={run} --set {STEPS}={steps - before};\n"
        f"  or leave {STEPS}={before}. With a schedule of the kinds {endless}, more "
        "steps go on where a training ended"
    )
