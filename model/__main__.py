"""`transbeam cost`: what a model costs, before it is built."""

import argparse
import json
from collections.abc import Sequence

from configs.command import add_config_arguments, at_least_one, run_main
from configs.load import load_run
from model.cost.report import count_cost
from model.cost.text import describe


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `cost CONFIG`."""
    return run_main(_main, argv)


def _main(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    return arguments.function(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="transbeam", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    cost = commands.add_parser(
        "cost",
        help="count a model's weights, work and memory",
        description="Counts what a run's model costs, without building it: weights by "
        "part, FLOPs forward and backward, memory in training and generation, and the "
        "work of attention against the length.",
        allow_abbrev=False,
    )
    add_config_arguments(cost)
    for name, told in {
        "length": "tokens of a sequence; data.sequence_length if left out",
        "batch": "sequences of a batch; training.batch_size if left out",
        "vocabulary-size": "pieces of the tokenizer; if left out, as the configuration "
        "or the tokenizer's files say",
    }.items():
        cost.add_argument(f"--{name}", metavar="N", type=at_least_one, help=told)
    cost.set_defaults(function=_cost)
    return parser


def _cost(arguments: argparse.Namespace) -> int:
    cost = count_cost(
        load_run(arguments.config, arguments.overrides, with_model=True),
        length=arguments.length,
        batch_size=arguments.batch,
        vocabulary_size=arguments.vocabulary_size,
    )
    print(json.dumps(cost, indent=2) if arguments.json else describe(cost))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
