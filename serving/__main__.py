"""`transbeam export` and `transbeam predict`; also `python -m serving`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from configs.abilities import check_export
from configs.command import (
    Invocation,
    add_common_arguments,
    read_invocation,
    run_main,
)
from configs.quiet import quiet_import
from configs.run_folder import Stage, lock


def export(invocation: Invocation) -> dict[str, Any]:
    """Exports the model of a run; see `serving.export.export`."""
    quiet_import("tensorflow", "tensorflow_text", "keras")
    from serving import export

    return export.export(invocation)


def predict(
    invocation: Invocation, texts: Sequence[str] = (), model: Path | None = None
) -> dict[str, Any]:
    """Fills the masks of texts with the exported SavedModel, and prints the answers.

    Args:
        invocation: The run.
        texts: `export.examples` if left out.
        model: Another SavedModel than the run's.

    Returns:
        `predictions`, one for each text; see `serving.predict.predict`.

    Raises:
        UserError: Nothing is exported, or a text has no mask.
    """
    if model is None:
        stage = Stage(invocation.run_folder, "export", invocation.command("export"))
        stage.load()
        model = stage.path / "saved_model"
    quiet_import("tensorflow", "tensorflow_text")
    from serving import predict

    predictions = predict.predict(model, texts or invocation.config.export.examples)
    for prediction in predictions:
        invocation.console.say(predict.describe(prediction))
    return {"model": str(model), "predictions": predictions}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `export CONFIG` or `predict CONFIG`."""
    return run_main(_main, argv)


def _main(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    # What is exported brings its model along.
    exports = arguments.command == "export"
    rules = (check_export,) if exports else ()
    invocation = read_invocation(arguments, with_model=exports, rules=rules)
    if exports:
        with lock(invocation.run_folder):
            result = export(invocation)
    else:
        result = predict(invocation, arguments.texts, arguments.model)
    invocation.console.emit(result)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="transbeam", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    exporting = commands.add_parser(
        "export",
        help="make a SavedModel and TFLite files of the trained model",
        description="Makes a SavedModel for TF Serving and TFLite files for phones, "
        "and publishes them if they give the answers of the Keras model.",
        allow_abbrev=False,
    )
    add_common_arguments(exporting)

    predicting = commands.add_parser(
        "predict",
        help="fill the [MASK]s of texts with the exported model",
        description="Asks the exported SavedModel, on raw text, which words it would "
        "put in the place of each [MASK].",
        allow_abbrev=False,
    )
    add_common_arguments(predicting)
    predicting.add_argument(
        "--text",
        metavar="TEXT",
        dest="texts",
        action="append",
        default=[],
        help="a text with a [MASK] in it; may be given again; export.examples of "
        "CONFIG if left out",
    )
    predicting.add_argument(
        "--model",
        metavar="DIR",
        type=Path,
        help="another SavedModel: its version folder or the one above",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
