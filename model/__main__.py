"""`transbeam check`: validates a configuration."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transbeam.configs.base.errors import ConfigError, UserError
from transbeam.configs.base.reflection import plain
from transbeam.configs.cli.argument_parser import argument
from transbeam.configs.cli.arguments import ConfigArguments, run_main
from transbeam.configs.cli.commands import Command, run_command
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.export_support import check_export, check_tokenizer
from transbeam.configs.loader.model_files import training_stage, was_trained
from transbeam.configs.loader.objective_requirements import check_needs
from transbeam.configs.loader.resolved_file import (
    key_origins,
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
from transbeam.model.cost.report import find_vocabulary_size

if TYPE_CHECKING:
    from transbeam.model.kernels.matmul_dtype import MatmulChoice


@dataclass(frozen=True, kw_only=True)
class CheckArguments(ConfigArguments):
    """Arguments of `transbeam check`."""

    machine: bool = argument(
        "--machine",
        "also measure this machine's speed of bfloat16 matrix products, unless it is "
        "known; loads TensorFlow and takes a few seconds",
    )
    run_folder: Path | None = argument(
        "--run DIR",
        "a run's folder: print how its configuration differs",
    )


def _check(arguments: CheckArguments) -> dict[str, Any]:
    resolved = load_resolved(
        arguments.config, arguments.overrides, with_model=True, rules=[check_needs]
    )
    config = resolved.config
    console = Console(json=arguments.json)
    for warning in _warnings(arguments):
        console.warn(warning)
    if not config.data.validation_fraction and config.data.validation_source is None:
        console.warn(
            "data.validation_fraction=0: there is no validation split, so the training "
            "is evaluated on training records, which says nothing about new text"
        )
    need = _need(config)
    found = find_memory()
    run_folder = arguments.run_folder
    other = _differences(config, run_folder) if run_folder else None
    choice = _matmul_choice() if arguments.machine else None
    if choice and choice.failed:
        console.warn(str(choice))
    if not arguments.json:
        print(_keys(resolved), end="")
        print(f"{arguments.config} is right: it describes the run {config.name!r}.")
        print(summary(config))
        if run_folder:
            print(_compared(other, run_folder))
        if choice and not choice.failed:
            print(f"  {'machine':<10} {choice}")
        if need is not None:
            print(
                f"  {'memory':<10} about {gigabytes(need)} in training; on a CPU "
                f"{gigabytes(RUNTIME)} more for TensorFlow itself"
            )
    # Without a tokenizer, which is a warning of its own, the need is not known.
    if need is not None and found and need > found.beside_runtime().size:
        console.warn(advice(config, found.beside_runtime()))
    memory = {"training": need, "found": found and asdict(found)}
    machine = {"machine": {"matmul": asdict(choice)}} if choice else {}
    compared = {"differences": other} if run_folder else {}
    places = {"places": key_origins(resolved)}
    return {**plain(config), **places, "memory": memory, **machine, **compared}


def _keys(resolved: ResolvedRun) -> str:
    """Lists each key with its file and line, for configurations of several files."""
    if not takes_from_elsewhere(resolved):
        return ""
    header = "# Each key that is given, and the line that it is from.\n"
    return f"{header}{resolved_file(resolved)}\n"


def _matmul_choice() -> "MatmulChoice":
    quiet_import("tensorflow", "keras")
    from transbeam.model.kernels.matmul_dtype import choose_matmul_dtype

    return choose_matmul_dtype()


def _differences(config: RunConfig, run_folder: Path) -> list[str] | None:
    """Lists config keys that differ from an existing run's; None if there is no run."""
    if not run_folder.is_dir():
        return None
    try:
        file = run_file(run_folder)
    except ConfigError:
        return None
    there = load_run(file)
    if _was_trained_for(config.training.epochs, there.training.steps, run_folder):
        training = replace(there.training, steps=None, epochs=config.training.epochs)
        there = replace(there, training=training)
    return differences(flatten(there), flatten(config))


def _was_trained_for(epochs: float | None, steps: int | None, run_folder: Path) -> bool:
    """Returns whether a run's number of steps is what some epochs amounted to."""
    if epochs is None or steps is None or not was_trained(run_folder):
        return False
    # Of a run that an older version trained, the number of epochs is not known.
    done = training_stage(run_folder).load()["result"].get("epochs", 0.0)
    # The least number of steps with as many epochs, but for rounding of the last digit.
    return done * (steps - 1) / steps < epochs <= done * (1 + 1e-12)


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
        find_vocabulary_size(config)
    except UserError:
        return None
    return training_need(config)


def _warnings(arguments: CheckArguments) -> list[str]:
    """Lists the stages that this valid configuration does not support yet, and why."""
    warnings: list[str] = []
    for rule in (check_tokenizer, check_export):
        try:
            load_run(arguments.config, arguments.overrides, rules=[rule])
        except ConfigError as error:
            warnings.append(str(error))
    return warnings


COMMANDS = (
    Command(
        name="check",
        run=_check,
        summary="check a configuration and summarize it",
        description="Checks every key of a configuration and prints a summary with the "
        "memory that training needs. Warns if a stage does not support the "
        "configuration or memory is short. If keys come from elsewhere (`extends`, "
        "`preset`, `init_from`), prints each given key with its file and line.",
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `check CONFIG`."""
    return run_main(partial(run_command, __doc__, COMMANDS), argv)


if __name__ == "__main__":
    raise SystemExit(main())
