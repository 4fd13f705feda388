"""`transbeam check` and `cost`: what a run asks for and costs, before it is built."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from transbeam.configs.base.errors import ConfigError, UserError
from transbeam.configs.base.local_paths import local_path
from transbeam.configs.base.reflection import plain
from transbeam.configs.cli.arguments import add_config_arguments, at_least_one, run_main
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.export_support import check_export, check_tokenizer
from transbeam.configs.loader.objective_requirements import check_needs
from transbeam.configs.loader.resolved_file import (
    places_of,
    resolved_file,
    takes_from_elsewhere,
)
from transbeam.configs.loader.run_file import run_file
from transbeam.configs.loader.run_folder import differences
from transbeam.configs.loader.summary import summary
from transbeam.configs.loader.yaml_config import (
    ResolvedRun,
    flatten,
    load_resolved,
    load_run,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.system.memory import RUNTIME, find_memory
from transbeam.configs.system.quiet_imports import quiet_import
from transbeam.model.cost.memory_advice import advice, gigabytes, training_need
from transbeam.model.cost.report import count_cost, vocabulary_of
from transbeam.model.cost.report_text import describe

if TYPE_CHECKING:
    from transbeam.model.kernels.matmul_dtype import MatmulChoice


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `check CONFIG` or `cost CONFIG`."""
    return run_main(_main, argv)


def _main(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    return arguments.function(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="transbeam", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    check = commands.add_parser(
        "check",
        help="read a configuration and say what it asks for",
        description="Reads a configuration, checks every key, says what it asks for "
        "and how much memory it takes, and warns of what this version cannot do with "
        "it and of what will not fit. If it takes keys from elsewhere (`extends`, "
        "`preset`, `init_from`), all keys are shown, each with its file and line.",
        allow_abbrev=False,
    )
    add_config_arguments(check)
    check.add_argument(
        "--machine",
        action="store_true",
        help="also measure how this machine multiplies bfloat16 matrices, unless that "
        "was done before; loads TensorFlow, and takes some seconds",
    )
    check.add_argument(
        "--run",
        metavar="DIR",
        dest="run_folder",
        type=local_path,
        help="a run's folder: say what differs from the configuration it was made by",
    )
    check.set_defaults(function=_check)

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


def _check(arguments: argparse.Namespace) -> int:
    resolved = load_resolved(
        arguments.config, arguments.overrides, with_model=True, rules=[check_needs]
    )
    config = resolved.config
    console = Console(json=arguments.json)
    for told in _cannot(arguments):
        console.warn(told)
    if not config.data.validation_fraction and config.data.validation_source is None:
        console.warn(
            "data.validation_fraction=0 holds nothing out: the training will measure "
            "itself on training records, which says nothing about new text"
        )
    need = _need(config)
    found = find_memory()
    run_folder = arguments.run_folder
    other = _differences(config, run_folder) if run_folder else None
    choice = _matmul_choice() if arguments.machine else None
    if choice and choice.failed:
        console.warn(str(choice))
    if arguments.json:
        memory = {"training": need, "found": found and asdict(found)}
        machine = {"machine": {"matmul": asdict(choice)}} if choice else {}
        compared = {"differences": other} if run_folder else {}
        places = {"places": places_of(resolved)}
        told = {**plain(config), **places, "memory": memory, **machine, **compared}
        print(json.dumps(told, indent=2))
    else:
        print(_keys(resolved), end="")
        print(f"{arguments.config} is right: it describes the run {config.name!r}.")
        print(summary(config))
        if run_folder:
            print(_compared(other, run_folder))
        if choice and not choice.failed:
            print(f"  {'machine':<10} {choice}")
    if need is None:
        return 0  # the tokenizer does not exist yet; a warning has been printed
    if not arguments.json:
        print(
            f"  {'memory':<10} about {gigabytes(need)} in training; on a CPU "
            f"{gigabytes(RUNTIME)} more for TensorFlow itself"
        )
    if found and need > found.beside_runtime().size:
        console.warn(advice(config, found.beside_runtime()))
    return 0


def _keys(resolved: ResolvedRun) -> str:
    """The keys with their places, of a configuration that is not all in one file."""
    if not takes_from_elsewhere(resolved):
        return ""
    header = "# Each key that is given, and the line that it is from.\n"
    return f"{header}{resolved_file(resolved)}\n"


def _matmul_choice() -> "MatmulChoice":
    quiet_import("tensorflow", "keras")
    from transbeam.model.kernels.matmul_dtype import choose_matmul_dtype

    return choose_matmul_dtype()


def _differences(config: RunConfig, run_folder: Path) -> list[str] | None:
    """Lists keys that differ from those of the existing run; None if there is none."""
    if not run_folder.is_dir():
        return None
    try:
        file = run_file(run_folder)
    except ConfigError:
        return None
    return differences(flatten(load_run(file)), flatten(config))


def _compared(lines: Sequence[str] | None, run_folder: Path) -> str:
    if lines is None:
        return f"  {'run':<10} {run_folder} is not there yet"
    if not lines:
        return f"  {'run':<10} {run_folder} was made by the same keys"
    return "\n".join(
        [f"  {'run':<10} {run_folder} was made by other keys:"]
        + [f"  {'':<10} {line}" for line in lines]
    )


def _need(config: RunConfig) -> int | None:
    """Bytes that the training needs; None if the vocabulary size is unknown."""
    try:
        vocabulary_of(config)
    except UserError:
        return None
    return training_need(config)


def _cannot(arguments: argparse.Namespace) -> list[str]:
    """Lists the stages that a valid run cannot go through, with the reasons."""
    told: list[str] = []
    for rule in (check_tokenizer, check_export):
        try:
            load_run(arguments.config, arguments.overrides, rules=[rule])
        except ConfigError as error:
            told.append(str(error))
    return told


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
