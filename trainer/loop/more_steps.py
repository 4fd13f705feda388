"""More steps for a training that was planned with fewer."""

from collections.abc import Mapping
from typing import Any

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.loader.run_folder import Stage, different_keys
from transbeam.configs.loader.warmup import STEPS
from transbeam.configs.schema.schedules import ENDLESS, Schedule, common_steps
from transbeam.trainer.loop.checkpoint import list_checkpoints, step_of


def can_go_on(stage: Stage, inputs: Mapping[str, Any], schedule: Schedule) -> bool:
    """Tells whether what is there is the beginning of a training of other steps.

    It is where the number of steps alone differs, and each step until the last
    checkpoint had the learning rate that it has in the other as well.

    Args:
        stage: The training's, finished or not.
        inputs: What is asked for.
        schedule: Of it, with the steps of its warm-up as a number.

    Raises:
        ArtifactError: It is finished, more steps are asked for, and its learning rates
            were those of a training that ends.
    """
    there = stage.inputs()
    checkpoints = list_checkpoints(stage.path / "checkpoints")
    if not checkpoints or different_keys(there, inputs) != [STEPS]:
        return False
    if not stage.is_of_this_version:
        return False
    before, steps = there[STEPS], inputs[STEPS]
    if step_of(checkpoints[-1]) <= common_steps(schedule, before, steps):
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
