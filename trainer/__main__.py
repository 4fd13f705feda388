"""`transbeam train`, `evaluate`, `sweep`, `import`, `trim`, `prune`.

Or `python -m transbeam.trainer` and the same.
"""

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transbeam.configs.base.local_paths import local_path
from transbeam.configs.cli.arguments import (
    Invocation,
    add_common_arguments,
    add_run_arguments,
    at_least_one,
    read_invocation,
    run_main,
)
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.run_folder import lock
from transbeam.configs.system.quiet_imports import quiet_import
from transbeam.trainer.distribution.process_info import find_place, one_process_only
from transbeam.trainer.distribution.rendezvous import SECONDS
from transbeam.trainer.distribution.rendezvous_setup import met


def train(invocation: Invocation, *, seconds: int = SECONDS) -> dict[str, Any]:
    """Trains and evaluates the model of a run; see `transbeam.trainer.run.train`.

    Args:
        invocation: The command.
        seconds: Seconds that several workers wait for each other.
    """
    with met(invocation.config, invocation.console.warn, seconds) as rendezvous:
        quiet_import("tensorflow", "keras")
        from transbeam.trainer import run

        return run.train(invocation, rendezvous)


def evaluate(
    invocation: Invocation, *, on_test: bool = False, model: Path | None = None
) -> dict[str, Any]:
    """Evaluates a run or an export; see `trainer.evaluation.evaluate_command`."""
    quiet_import("tensorflow", "tensorflow_text", "keras")
    from transbeam.trainer.evaluation import evaluate_command

    return evaluate_command.evaluate_run(invocation, on_test=on_test, model=model)


def import_checkpoint(arguments: argparse.Namespace) -> int:
    """Converts a checkpoint to a run; see `trainer.importing.import_command`."""
    quiet_import("tensorflow", "keras")
    from transbeam.trainer.importing.import_command import import_run

    console = Console(quiet=arguments.quiet, json=arguments.json)
    overrides = tuple(arguments.overrides)
    result = import_run(arguments.checkpoint, arguments.run_folder, overrides, console)
    console.emit(result)
    return 0


def trim_vocabulary(arguments: argparse.Namespace) -> int:
    """Trims the vocabulary of a run; see `trainer.derived_runs.trim_command`."""
    quiet_import("tensorflow", "tensorflow_text", "keras")
    from transbeam.trainer.derived_runs.trim_command import trim_run

    console = Console(quiet=arguments.quiet, json=arguments.json)
    result = trim_run(
        arguments.old_folder,
        arguments.run_folder,
        tuple(arguments.overrides),
        console,
        min_count=arguments.min_count,
        max_size=arguments.max_size,
    )
    console.emit(result)
    return 0


def prune_model(arguments: argparse.Namespace) -> int:
    """Prunes the model of a run; see `trainer.derived_runs.prune_command`."""
    quiet_import("tensorflow", "tensorflow_text", "keras")
    from transbeam.trainer.derived_runs.prune_command import prune_run

    console = Console(quiet=arguments.quiet, json=arguments.json)
    result = prune_run(
        arguments.old_folder,
        arguments.run_folder,
        tuple(arguments.overrides),
        console,
        heads=arguments.heads,
        intermediate=arguments.intermediate,
        batches=arguments.batches,
    )
    console.emit(result)
    return 0


def sweep_grid(arguments: argparse.Namespace) -> int:
    """Runs a grid of configurations; see `transbeam.trainer.sweep`."""
    one_process_only(
        os.environ,
        "transbeam sweep",
        "For each of its runs make the records once, by `transbeam data`, then call "
        "`transbeam train` at all workers",
    )
    quiet_import("tensorflow", "keras")
    from transbeam.trainer.sweep import sweep

    console = Console(quiet=arguments.quiet, json=arguments.json)
    console.emit(sweep(arguments.sweep, arguments.run_folder, console))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `train CONFIG`, `evaluate CONFIG`, `sweep FILE`, `import DIR` and so on."""
    return run_main(_main, argv)


def _main(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    others = (import_checkpoint, sweep_grid, trim_vocabulary, prune_model)
    if arguments.function in others:
        return arguments.function(arguments)
    invocation = read_invocation(arguments, with_model=True)
    if arguments.function is train and not find_place(os.environ).is_chief:
        # Of several workers only the chief locks the folder and reports progress.
        alike = replace(invocation, console=Console(quiet=True))
        train(alike, seconds=arguments.worker_timeout)
        return 0
    options = {}
    if arguments.function is train:
        options = {"seconds": arguments.worker_timeout}
    if arguments.function is evaluate:
        options = {"on_test": arguments.test, "model": arguments.model}
    with lock(invocation.run_folder):
        invocation.console.emit(arguments.function(invocation, **options))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="transbeam", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(
        name: str, function: Callable, summary: str, description: str
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(
            name,
            help=summary,
            description=description,
            epilog=f"example: transbeam {name} configs/demo.yaml",
            allow_abbrev=False,
        )
        add_common_arguments(command)
        command.set_defaults(function=function)
        return command

    training = add(
        "train",
        train,
        "fit the model to the records",
        "Trains the model of CONFIG on the records that `transbeam data` made, and "
        "evaluates it. Ctrl-C saves a checkpoint; the same command goes on from it.",
    )
    training.add_argument(
        "--worker-timeout",
        metavar="SECONDS",
        type=at_least_one,
        default=SECONDS,
        help=f"how long several workers wait for each other; {SECONDS} if left out",
    )
    evaluating = add(
        "evaluate",
        evaluate,
        "say how good the trained model is",
        "Evaluates the model of CONFIG, trained or imported, on the whole validation "
        "split, with the scores of its objective, and writes them to the run's folder.",
    )
    evaluating.add_argument(
        "--test",
        action="store_true",
        help="on the documents of evaluation.test in place of the validation split",
    )
    evaluating.add_argument(
        "--model",
        metavar="PATH",
        type=local_path,
        help="an exported model in place of the run's own: a SavedModel (its version "
        "folder or the one above) or a TFLite file",
    )
    command = commands.add_parser(
        "sweep",
        help="train each combination of some keys' values",
        description="Makes records and trains for each combination of the values that "
        "FILE gives some keys, and compares the runs in one table and picture. What is "
        "done already is not done again.",
        epilog="example: transbeam sweep docs/sweep.yaml",
        allow_abbrev=False,
    )
    command.add_argument(
        "sweep", metavar="FILE", type=local_path, help="the sweep's YAML"
    )
    command.add_argument(
        "--run",
        metavar="DIR",
        dest="run_folder",
        type=local_path,
        help="the folder of its runs; runs/NAME if left out, by the sweep's name",
    )
    for flag, told in {
        "quiet": "print only warnings, errors and what was asked for",
        "json": "print one JSON object on stdout, and everything else on stderr",
    }.items():
        command.add_argument(f"--{flag}", action="store_true", help=told)
    command.set_defaults(function=sweep_grid)
    command = commands.add_parser(
        "import",
        help="make a run's folder of a checkpoint that others trained",
        description="Reads a folder with config.json and model.safetensors "
        "(transformers), a TensorFlow 1 BERT or a KerasHub preset, with the "
        "tokenizer's files beside, and makes a run's folder of it: run.yaml, the "
        "tokenizer and the weights. Nothing is downloaded.",
        epilog="example: transbeam import path/to/bert-base-uncased --run runs/bert",
        allow_abbrev=False,
    )
    command.add_argument(
        "checkpoint",
        metavar="DIR",
        type=local_path,
        help="the checkpoint's folder on this machine",
    )
    add_run_arguments(command)
    command.set_defaults(function=import_checkpoint)
    command = commands.add_parser(
        "trim",
        help="leave out of a model the pieces of words that a corpus does not need",
        description="Makes a run's folder of another one, RUN, with the part of its "
        "vocabulary that the texts of data.source need, and the weights of that part. "
        "These texts are read and answered as before. Only WordPiece and byte-level "
        "BPE can be trimmed.",
        epilog="example: transbeam trim runs/bert --run runs/small "
        "--set data.source.path=my.txt",
        allow_abbrev=False,
    )
    command.add_argument(
        "old_folder", metavar="RUN", type=local_path, help="a run, trained or imported"
    )
    command.add_argument(
        "--min-count",
        metavar="N",
        type=at_least_one,
        default=1,
        help="leave out what fewer words of the corpus need, too; then some are "
        "spelled by shorter pieces",
    )
    command.add_argument(
        "--max-size",
        metavar="N",
        type=at_least_one,
        help="leave out the rarest pieces until so many are left",
    )
    add_run_arguments(command)
    command.set_defaults(function=trim_vocabulary)
    command = commands.add_parser(
        "prune",
        help="leave out of a model the heads and units that its loss misses least",
        description="Makes a run's folder of another one, RUN, with fewer attention "
        "heads and fewer units in between the dense layers, the same number in every "
        "block. Which ones go is measured by the loss's gradients on RUN's own "
        "training records. The model that is left is to be trained on.",
        epilog="example: transbeam prune runs/bert --run runs/small --heads 6 "
        "--intermediate 768",
        allow_abbrev=False,
    )
    command.add_argument(
        "old_folder",
        metavar="RUN",
        type=local_path,
        help="a run that was trained, or imported and has records",
    )
    counts = {
        "heads": "how many heads of each attention are left; all if left out",
        "intermediate": "how many units in between are left; all if left out",
        "batches": "on how many batches of 8 records it is measured; 16 if left out",
    }
    for flag, told in counts.items():
        command.add_argument(f"--{flag}", metavar="N", type=at_least_one, help=told)
    add_run_arguments(command)
    command.set_defaults(function=prune_model, batches=16)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
