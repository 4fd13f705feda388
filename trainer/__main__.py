"""`transbeam train`, `transbeam evaluate`; also `python -m trainer`."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from configs.command import (
    Invocation,
    add_common_arguments,
    read_invocation,
    run_main,
)
from configs.quiet import quiet_import
from configs.run_folder import lock


def train(invocation: Invocation) -> dict[str, Any]:
    """Trains and evaluates the model of a run; see `trainer.run.train`."""
    quiet_import("tensorflow", "keras")
    from trainer import run

    return run.train(invocation)


def evaluate(invocation: Invocation) -> dict[str, Any]:
    """Evaluates the trained model of a run; see `trainer.run.evaluate_run`."""
    quiet_import("tensorflow", "keras")
    from trainer import run

    return run.evaluate_run(invocation)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `train CONFIG` or `evaluate CONFIG`."""
    return run_main(_main, argv)


def _main(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    invocation = read_invocation(arguments)
    with lock(invocation.run_folder):
        invocation.console.emit(arguments.function(invocation))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="transbeam", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, function: Callable, summary: str, description: str) -> None:
        command = commands.add_parser(
            name,
            help=summary,
            description=description,
            epilog=f"example: transbeam {name} configs/demo.yaml",
            allow_abbrev=False,
        )
        add_common_arguments(command)
        command.set_defaults(function=function)

    add(
        "train",
        train,
        "fit the model to the records",
        "Trains the model of CONFIG on the records that `transbeam data` made, and "
        "evaluates it. Ctrl-C saves a checkpoint; the same command goes on from it.",
    )
    add(
        "evaluate",
        evaluate,
        "evaluate the trained model again",
        "Evaluates the trained model of CONFIG on the whole validation split.",
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
