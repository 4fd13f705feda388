"""The `transbeam` command, which passes each sub-command to a package.

`transbeam train ...` is `python -m transbeam.trainer train ...`; only `run` is
implemented here. No large library is imported before the package's own command runs.
"""

import os
import shlex
import time
from collections.abc import Sequence
from typing import Any

from transbeam import stage_process
from transbeam.configs.base.errors import UserError
from transbeam.configs.base.reflection import did_you_mean
from transbeam.configs.base.version import VERSION
from transbeam.configs.cli.arguments import (
    Invocation,
    JobArguments,
    read_invocation,
    run_main,
)
from transbeam.configs.cli.commands import Command, run_command
from transbeam.configs.cli.progress import duration
from transbeam.configs.loader.calibration_file import is_calibrated
from transbeam.configs.loader.export_support import check_export
from transbeam.configs.loader.objective_requirements import check_needs
from transbeam.configs.loader.run_folder import lock
from transbeam.configs.schema.export import ExportConfig
from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.configs.schema.objectives.supervised import DialogueConfig
from transbeam.configs.schema.objectives.traits import input_names, traits
from transbeam.configs.schema.schedules import ENDLESS
from transbeam.configs.system.keras_backend import backend_for, chosen_backend
from transbeam.trainer.distribution.process_info import require_one_process

HELP = f"""\
Transbeam {VERSION}: from your own corpus to a served Transformer, in one YAML file.

usage: transbeam COMMAND CONFIG [--run DIR] [--set KEY=VALUE]...

Run all stages, on a corpus that every machine has:

  transbeam run configs/demo.yaml

or one stage at a time, in this order. An interrupted stage resumes, and a finished one
is skipped:

  transbeam data configs/demo.yaml          text to records; --workers N
  transbeam train configs/demo.yaml         records to a trained model
  transbeam evaluate configs/demo.yaml      metrics of the trained model; --test
  transbeam export configs/demo.yaml        SavedModel and TFLite, compared with Keras
  transbeam predict configs/demo.yaml       fill a [MASK]; --text 'It is a [MASK].'
  transbeam serve configs/demo.yaml         serve over REST and gRPC, like TF Serving
  transbeam studio runs/demo                look inside the model, in the browser
  transbeam loadtest http://localhost:8501 --name demo --text 'It is a [MASK].'
  transbeam deploy configs/demo.yaml        files for TF Serving in production

Run the exported model on every document of a corpus:

  transbeam score configs/demo.yaml --output answers.jsonl

See what the layers and heads of a trained or imported model do:

  transbeam analyze runs/demo               tables, pictures and a page

Write your own configuration. It can inherit from another file (`extends: other.yaml`),
from a preset (`model: {{preset: bert_base}}`) or from a run, with its weights
(`model: {{init_from: runs/demo}}`):

  transbeam explain                         every key with its default and meaning
  transbeam explain model.position          one part of it
  transbeam explain my.yaml --page my.html  pictures of positions, masks, rates
  transbeam check my.yaml                   check it, and summarize what it needs
  transbeam cost my.yaml                    weights, FLOPs and memory of its model
  transbeam cost my.yaml --measure          and its time here, against its sizes
  transbeam train my.yaml --set training.schedule.peak=5e-4

Train with each combination of some keys' values, and compare the runs:

  transbeam sweep docs/sweep.yaml

or on each task of a suite, and compare with a teacher:

  transbeam suite configs/suites/glue.yaml --init runs/bert

Start from a published checkpoint (transformers, TensorFlow 1's BERT, KerasHub), then
write `model: {{init_from: runs/bert}}` in your own file:

  transbeam import path/to/bert-base-uncased --run runs/bert

Remove tokens that a corpus does not need:

  transbeam trim runs/bert --run runs/small --set data.source.path=my.txt

or the least important heads and units, and train further:

  transbeam prune runs/bert --run runs/narrow --heads 6 --intermediate 768

or set its smallest weights to zero, for a smaller download:

  transbeam prune runs/bert --run runs/sparse --weights 0.5

Try a tokenizer, of a run or in a file:

  transbeam tokenize runs/demo              lines to tokens and ids; --decode, --report

All files of a run are in its folder: runs/NAME, or the DIR given with --run. The folder
can be given as CONFIG, for its configuration. If a command is repeated with other keys,
earlier results are kept in runs/NAME/superseded.

  transbeam COMMAND --help                  all arguments of a command
  transbeam --version
"""

ROOMS = {
    "explain": "trainer",
    "check": "model",
    "cost": "trainer",
    "data": "pipeline",
    "tokenize": "pipeline",
    "score": "pipeline",
    "train": "trainer",
    "evaluate": "trainer",
    "analyze": "trainer",
    "sweep": "trainer",
    "suite": "trainer",
    "import": "trainer",
    "trim": "trainer",
    "prune": "trainer",
    "export": "serving",
    "predict": "serving",
    "serve": "serving",
    "studio": "serving",
    "loadtest": "serving",
    "deploy": "serving",
}


def main(argv: Sequence[str] | None = None) -> int:
    """The console script."""
    return run_main(_dispatch, argv)


def _dispatch(argv: Sequence[str]) -> int:
    command = argv[0] if argv else "--help"
    if command in ("--help", "-h", "help"):
        print(HELP, end="")
        return 0
    if command == "--version":
        print(f"transbeam {VERSION}")
        return 0
    if command == "run":
        return run_command(None, (RUN,), argv)
    if command in ROOMS:
        return _room(command).main(argv)
    known = [*ROOMS, "run"]
    raise UserError(
        f"{command!r} is not a command.{did_you_mean(command, known)} "
        "`transbeam --help` shows them all."
    )


def _room(command: str) -> Any:
    return stage_process.load_room(_module(command))


def _module(command: str) -> str:
    return f"transbeam.{ROOMS[command]}.__main__"


def _run(arguments: JobArguments) -> dict[str, Any]:
    # What a later stage refuses, hours of an earlier one must not go before.
    rules = (check_needs, check_export)
    invocation = read_invocation(arguments, with_model=True, rules=rules)
    _refuse_workers(invocation)
    console = invocation.console
    stages = _stages(invocation.config.export)
    results: dict[str, dict[str, Any]] = {}
    seconds: dict[str, float] = {}
    with lock(invocation.run_folder):
        for number, stage in enumerate(stages, start=1):
            console.heading(f"{number} of {len(stages)}: {stage}")
            began = time.monotonic()
            results[stage] = _do(stage, invocation)
            seconds[stage] = time.monotonic() - began
    console.heading(f"The run {invocation.config.name!r} is done.")
    console.say(_closing_screen(invocation, results, seconds))
    return results


RUN = Command(
    name="run",
    run=_run,
    summary="run all stages",
    description="Runs the data job, the training with its evaluation, the export, and "
    "predictions for export.examples. Finished stages are skipped.",
)


def _stages(export: ExportConfig) -> list[str]:
    """Returns the stages of `transbeam run`."""
    # An export with fitted numbers needs the evaluation that fits them.
    is_fitted = export.fitted_temperature or export.fitted_thresholds
    fitting = ["evaluate"] if is_fitted else []
    # Without examples there is nothing to predict.
    predicting = ["predict"] if export.examples else []
    return ["data", "train", *fitting, "export", *predicting]


def _do(stage: str, invocation: Invocation) -> dict[str, Any]:
    """Runs a stage, in a separate process if it needs another Keras backend."""
    if stage == "evaluate" and is_calibrated(invocation.run_folder):
        invocation.console.result("skipped: a calibration of this model is there")
        return {"skipped": True}
    here, wanted = chosen_backend(os.environ), backend_for(stage, os.environ)
    # `data` has processes of its own, and computes nothing with Keras.
    if stage == "data" or wanted in (None, here):
        return getattr(_room(stage), stage)(invocation)
    return stage_process.run_in_process(_module(stage), stage, wanted, invocation)


def _refuse_workers(invocation: Invocation) -> None:
    """Rejects `transbeam run` with several workers: each would make all records."""
    require_one_process(
        os.environ,
        "transbeam run",
        "Take one stage after another: the records at one of them,\n"
        f"  {invocation.command('data')}\nthen, at all workers,\n"
        f"  {invocation.command('train')}",
    )


def _closing_screen(
    invocation: Invocation,
    results: dict[str, dict[str, Any]],
    seconds: dict[str, float],
) -> str:
    """Returns the summary of a finished run, with suggestions of next commands.

    A stage's result may contain `summary` (one line), `path`, `peak_memory_mb` and, if
    it was done before, `skipped`.
    """
    lines = []
    for stage, result in results.items():
        spent = duration(seconds[stage])
        if result.get("skipped"):
            spent += ", skipped"
        elif "peak_memory_mb" in result:
            spent += f", {result['peak_memory_mb']:,} MB"
        lines.append(f"  {stage:<8} {spent:<16} {result.get('summary', '')}".rstrip())
        if "path" in result:
            lines.append(f"  {'':<25} {result['path']}")
    total = duration(sum(seconds.values()))
    return "\n".join(
        [
            *lines,
            f"  {'total':<8} {total:<16} {invocation.run_folder}",
            "",
            "Try next:",
            *_question(invocation),
            f"  {invocation.command('evaluate')}",
            *_more_steps(invocation),
        ]
    )


def _more_steps(invocation: Invocation) -> list[str]:
    """Returns the command to train further; empty if the schedule has a fixed end."""
    training = invocation.config.training
    if not isinstance(training.schedule, ENDLESS):
        return []
    more = f"training.epochs={2 * training.epochs:g}" if training.epochs else ""
    more = more or f"training.steps={2 * training.total_steps}"
    return [f"  {invocation.command('run')} --set {more}"]


def _question(invocation: Invocation) -> list[str]:
    """Returns a command that requests a prediction from the model."""
    objective = invocation.config.objective
    first = "--text"
    if isinstance(objective, ImageObjective):
        first = "--image"
    elif isinstance(objective, DialogueConfig):
        first = "--message"
    names, texts = input_names(objective), traits(objective).example
    flags = zip((first, "--second-text"), texts[: len(names)], strict=False)
    words = [word for flag in flags for word in flag]
    return [f"  {invocation.command('predict')} {shlex.join(words)}"]


if __name__ == "__main__":
    raise SystemExit(main())
