"""`transbeam export`, `predict` and `serve`; also `python -m serving`."""

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
from configs.export import example_texts
from configs.quiet import quiet_import
from configs.run_folder import Stage, lock
from serving.server.command import DESCRIPTION, add_serve_arguments, serve


def export(invocation: Invocation) -> dict[str, Any]:
    """Exports the model of a run; see `serving.export.export`."""
    quiet_import("tensorflow", "tensorflow_text", "keras")
    from serving import export

    return export.export(invocation)


def predict(
    invocation: Invocation,
    texts: Sequence[str] = (),
    model: Path | None = None,
    *,
    second_texts: Sequence[str] = (),
) -> dict[str, Any]:
    """Asks the exported SavedModel about texts, and prints the answers.

    Args:
        invocation: The run.
        texts: `export.examples` if left out.
        model: Another SavedModel than the run's.
        second_texts: The other halves of pairs.

    Returns:
        `predictions`, one for each text; see `serving.predict.predict`.

    Raises:
        UserError: Nothing is exported, or the model cannot be asked about a text.
    """
    if model is None:
        stage = Stage(invocation.run_folder, "export", invocation.command("export"))
        stage.load()
        model = stage.path / "saved_model"
    quiet_import("tensorflow", "tensorflow_text")
    from serving import predict

    if not texts and not second_texts:
        config = invocation.config
        examples = [
            example_texts(config.objective, example)
            for example in config.export.examples
        ]
        texts, second_texts = (*zip(*examples, strict=True), (), ())[:2]
    predictions = predict.predict(model, texts, second_texts)
    for prediction in predictions:
        invocation.console.say(predict.describe(prediction))
    return {"model": str(model), "predictions": predictions}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `export CONFIG`, `predict CONFIG` or `serve CONFIG`."""
    return run_main(_main, argv)


def _main(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    if arguments.command == "serve":
        serve(arguments)
        return 0
    # What is exported brings its model along.
    exports = arguments.command == "export"
    rules = (check_export,) if exports else ()
    invocation = read_invocation(arguments, with_model=exports, rules=rules)
    if exports:
        with lock(invocation.run_folder):
            result = export(invocation)
    else:
        result = predict(
            invocation,
            arguments.texts,
            arguments.model,
            second_texts=arguments.second_texts,
        )
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
        help="ask the exported model about texts",
        description="Asks the exported SavedModel, on raw text, as TF Serving would be "
        "asked: which words it would put in the place of each [MASK], of which class a "
        "text or a pair is, or which number it has.",
        allow_abbrev=False,
    )
    add_common_arguments(predicting)
    predicting.add_argument(
        "--text",
        metavar="TEXT",
        dest="texts",
        action="append",
        default=[],
        help="a text (with a [MASK] in it for a masked language model); may be given "
        "again; export.examples of CONFIG if left out",
    )
    predicting.add_argument(
        "--second-text",
        metavar="TEXT",
        dest="second_texts",
        action="append",
        default=[],
        help="the other half of a pair; once for each --text",
    )
    predicting.add_argument(
        "--model",
        metavar="DIR",
        type=Path,
        help="another SavedModel: its version folder or the one above",
    )
    serving = commands.add_parser(
        "serve",
        help="answer questions over REST and gRPC",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_serve_arguments(serving)
    return parser


if __name__ == "__main__":
    sys.exit(main())
