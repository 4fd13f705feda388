"""Arguments of the commands that train, evaluate, import, trim and prune models."""

from dataclasses import dataclass
from pathlib import Path

from transbeam.configs.cli.argument_parser import argument
from transbeam.configs.cli.arguments import FolderArguments, RunArguments
from transbeam.trainer.distribution.rendezvous import SECONDS


@dataclass(frozen=True, kw_only=True)
class TrainArguments(RunArguments):
    """Arguments of `transbeam train`."""

    worker_timeout: int = argument(
        "--worker-timeout SECONDS",
        f"how long several workers wait for each other; {SECONDS} if left out",
        default=SECONDS,
    )


@dataclass(frozen=True, kw_only=True)
class EvaluateArguments(RunArguments):
    """Arguments of `transbeam evaluate`."""

    test: bool = argument(
        "--test", "on the documents of evaluation.test in place of the validation split"
    )
    model: Path | None = argument(
        "--model PATH",
        "an exported model in place of the run's own: a SavedModel (its version folder "
        "or the one above) or a TFLite file",
    )


@dataclass(frozen=True, kw_only=True)
class SweepArguments:
    """Arguments of `transbeam sweep`."""

    sweep: Path = argument("FILE", "the sweep's YAML")
    run_folder: Path | None = argument(
        "--run DIR",
        "the folder of its runs; runs/NAME if left out, by the sweep's name",
    )
    quiet: bool = argument(
        "--quiet", "print only warnings, errors and requested output"
    )
    json: bool = argument(
        "--json", "print one JSON object on stdout, and everything else on stderr"
    )


@dataclass(frozen=True, kw_only=True)
class ImportArguments(FolderArguments):
    """Arguments of `transbeam import`."""

    checkpoint: Path = argument("DIR", "the checkpoint's folder on this machine")


@dataclass(frozen=True, kw_only=True)
class TrimArguments(FolderArguments):
    """Arguments of `transbeam trim`."""

    old_folder: Path = argument("RUN", "a run, trained or imported")
    min_count: int = argument(
        "--min-count N",
        "leave out what fewer words of the corpus need, too; then some are spelled by "
        "shorter pieces",
        default=1,
    )
    max_size: int | None = argument(
        "--max-size N", "leave out the rarest pieces until so many are left"
    )


@dataclass(frozen=True, kw_only=True)
class PruneArguments(FolderArguments):
    """Arguments of `transbeam prune`."""

    old_folder: Path = argument(
        "RUN", "a run that was trained, or imported and has records"
    )
    heads: int | None = argument(
        "--heads N", "how many heads of each attention are left; all if left out"
    )
    intermediate: int | None = argument(
        "--intermediate N", "how many units in between are left; all if left out"
    )
    batches: int = argument(
        "--batches N",
        "on how many batches of 8 records it is measured; 16 if left out",
        default=16,
    )
