"""`transbeam export`, `predict`, `serve`; also `python -m transbeam.serving`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transbeam.configs.cli.arguments import (
    Invocation,
    add_common_arguments,
    read_invocation,
    run_main,
)
from transbeam.configs.loader.export_support import check_export
from transbeam.configs.loader.run_folder import lock
from transbeam.configs.system.quiet_imports import quiet_import
from transbeam.serving.deploy.command import DESCRIPTION as ABOUT_DEPLOY
from transbeam.serving.deploy.command import add_deploy_arguments, deploy
from transbeam.serving.loadtest.command import DESCRIPTION as ABOUT_LOADTEST
from transbeam.serving.loadtest.command import add_loadtest_arguments, loadtest
from transbeam.serving.predict.command import DESCRIPTION as ABOUT_PREDICT
from transbeam.serving.predict.command import (
    add_predict_arguments,
    answer,
    exported_model,
    local_client,
    predict_command,
    texts_of,
)
from transbeam.serving.server.arguments import DESCRIPTION as ABOUT_SERVE
from transbeam.serving.server.arguments import add_serve_arguments
from transbeam.serving.server.command import serve

ABOUT_EXPORT = """\
Makes forms of the trained model that others run, and publishes them if they give the
answers of the Keras model.

  transbeam export CONFIG                  RUN/export: a SavedModel for TF Serving, and
                                           the TFLite files that export.tflite names
  transbeam export CONFIG --target phone   RUN/phone: a folder for an app's developer,
                                           with the TFLite files, the tokenizer in
                                           Kotlin, Swift and Python, labels, a README
                                           and a report of size, time and loss
"""


def export(invocation: Invocation, target: str = "all") -> dict[str, Any]:
    """Exports the trained model of a run.

    Args:
        invocation: The run.
        target: `all`, see `transbeam.serving.export_stage.export`; or `phone`, see
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
        model: Another SavedModel than the run's.
        second_texts: The second texts of pairs.

    Returns:
        `predictions`, one for each text; see
        `transbeam.serving.predict.prediction.predict`.

    Raises:
        UserError: Nothing is exported, or the model does not accept a text.
    """
    model = model or exported_model(invocation)
    asked = texts_of(invocation, texts, second_texts)
    with local_client(model) as client:
        predictions = answer(client, *asked, invocation.console)
    return {"model": str(model), "predictions": predictions}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one of the commands, such as `export CONFIG`."""
    return run_main(_main, argv)


def _main(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    if arguments.command == "serve":
        serve(arguments)
        return 0
    if arguments.command == "loadtest":
        loadtest(arguments)
        return 0
    if arguments.command == "deploy":
        deploy(arguments)
        return 0
    if arguments.command == "predict":
        return predict_command(arguments)
    # The other commands load an exported model and need no model configuration.
    invocation = read_invocation(arguments, with_model=True, rules=(check_export,))
    with lock(invocation.run_folder):
        result = export(invocation, arguments.target)
    invocation.console.emit(result)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="transbeam", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    exporting = commands.add_parser(
        "export",
        help="make a SavedModel and TFLite files of the trained model",
        description=ABOUT_EXPORT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_common_arguments(exporting)
    exporting.add_argument(
        "--target",
        choices=("all", "phone"),
        default="all",
        help="what to make; `all` if left out",
    )

    predicting = commands.add_parser(
        "predict",
        help="ask an exported model about texts",
        description=ABOUT_PREDICT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_predict_arguments(predicting)
    serving = commands.add_parser(
        "serve",
        help="answer questions over REST and gRPC",
        description=ABOUT_SERVE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_serve_arguments(serving)
    testing = commands.add_parser(
        "loadtest",
        help="find out how much a server bears",
        description=ABOUT_LOADTEST,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_loadtest_arguments(testing)
    deploying = commands.add_parser(
        "deploy",
        help="write what runs the exported model with TF Serving",
        description=ABOUT_DEPLOY,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_deploy_arguments(deploying)
    return parser


if __name__ == "__main__":
    sys.exit(main())
