"""`transbeam export`, `predict`, `serve`; also `python -m transbeam.serving`."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from transbeam.configs.cli.argument_parser import argument
from transbeam.configs.cli.arguments import (
    Invocation,
    RunArguments,
    read_invocation,
    run_main,
)
from transbeam.configs.cli.commands import Command, run_command
from transbeam.configs.loader.export_support import check_export
from transbeam.configs.loader.run_folder import lock
from transbeam.configs.system.quiet_imports import quiet_import
from transbeam.serving.deploy.command import DEPLOY
from transbeam.serving.loadtest.command import LOADTEST
from transbeam.serving.predict.command import (
    PREDICT,
    answer,
    exported_model,
    local_client,
    read_texts,
)
from transbeam.serving.server.command import SERVE
from transbeam.serving.server.studio_command import STUDIO


@dataclass(frozen=True, kw_only=True)
class ExportArguments(RunArguments):
    """Arguments of `transbeam export`."""

    target: Literal["all", "phone"] = argument(
        "--target {all,phone}", "what to export; `all` by default", default="all"
    )


def export(invocation: Invocation, target: str = "all") -> dict[str, Any]:
    """Exports the trained model of a run.

    Args:
        invocation: The run.
        target: The formats to export: `all`, with
            `transbeam.serving.export_stage.export`, or `phone`, with
            `transbeam.serving.phone.export_stage.export_for_phones`.
    """
    quiet_import("tensorflow", "tensorflow_text", "keras")
    if target == "phone":
        from transbeam.serving.phone.export_stage import export_for_phones

        return export_for_phones(invocation)
    from transbeam.serving import export_stage

    return export_stage.export(invocation)


def predict(
    invocation: Invocation,
    texts: Sequence[str] = (),
    model: Path | None = None,
    *,
    second_texts: Sequence[str] = (),
) -> dict[str, Any]:
    """Runs inference on texts with the exported SavedModel and prints the predictions.

    Args:
        invocation: The run.
        texts: The input texts; `export.examples` if left out.
        model: The SavedModel to run; by default the run's exported SavedModel.
        second_texts: The second text of each pair, for text-pair objectives.

    Returns:
        `predictions`, a list with one prediction per text; see
        `transbeam.serving.predict.prediction.predict`.

    Raises:
        UserError: The run has no exported model, or the model does not accept a text.
    """
    model = model or exported_model(invocation)
    inputs = read_texts(invocation, texts, second_texts)
    with local_client(model) as client:
        predictions = answer(client, *inputs, invocation.console)
    return {"model": str(model), "predictions": predictions}


def _export(arguments: ExportArguments) -> dict[str, Any]:
    # What is exported brings its model along.
    invocation = read_invocation(arguments, with_model=True, rules=(check_export,))
    with lock(invocation.run_folder):
        return export(invocation, arguments.target)


COMMANDS = (
    Command(
        name="export",
        run=_export,
        summary="export the trained model as a SavedModel and TFLite files",
        description="""\
Exports the trained model, compares the outputs of each file with those of the Keras
model, and publishes the files if they agree.

  transbeam export CONFIG                  RUN/export: a SavedModel for TF Serving, and
                                           the TFLite files that export.tflite names
  transbeam export CONFIG --target phone   RUN/phone: a folder for app developers, with
                                           the TFLite files, the tokenizer in Kotlin,
                                           Swift and Python, labels, a README and a
                                           report of size, latency and loss
""",
    ),
    PREDICT,
    SERVE,
    STUDIO,
    LOADTEST,
    DEPLOY,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one of the commands, such as `export CONFIG`."""
    return run_main(partial(run_command, __doc__, COMMANDS), argv)


if __name__ == "__main__":
    sys.exit(main())
