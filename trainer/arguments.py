"""Arguments of the commands that train, evaluate, import, trim and prune models."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.cli.argument_parser import argument
from transbeam.configs.cli.arguments import (
    FolderArguments,
    RunArguments,
    SettingsArguments,
)
from transbeam.configs.schema.pruning import check_sparsity
from transbeam.trainer.distribution.rendezvous import SECONDS

_NEW_RUN = "the new run's folder; by default"


@dataclass(frozen=True, kw_only=True)
class TrainArguments(RunArguments):
    """Arguments of `transbeam train`."""

    worker_timeout: int = argument(
        "--worker-timeout SECONDS",
        f"time limit for workers to reach one another; {SECONDS} by default",
        default=SECONDS,
    )


@dataclass(frozen=True, kw_only=True)
class EvaluateArguments(RunArguments):
    """Arguments of `transbeam evaluate`."""

    test: bool = argument(
        "--test", "use the documents of evaluation.test instead of the validation split"
    )
    model: Path | None = argument(
        "--model PATH",
        "an exported model instead of the run's own: a SavedModel (its version folder "
        "or the folder above) or a TFLite file",
    )
    tasks: Path | None = argument(
        "--tasks FILE",
        "tasks that a model does without training, in YAML: choices by likelihood, "
        "written answers, perplexity of texts; with as many examples as FILE says",
    )


@dataclass(frozen=True, kw_only=True)
class SweepArguments:
    """Arguments of `transbeam sweep`."""

    sweep: Path = argument("FILE", "the sweep's YAML")
    run_folder: Path | None = argument(
        "--run DIR",
        "the folder for the sweep's runs; by default runs/NAME with the sweep's name",
    )
    quiet: bool = argument(
        "--quiet", "print only warnings, errors and requested output"
    )
    json: bool = argument(
        "--json", "print one JSON object on stdout, and everything else on stderr"
    )


@dataclass(frozen=True, kw_only=True)
class SuiteArguments(SettingsArguments):
    """Arguments of `transbeam suite`."""

    suite: Path = argument("FILE", "the suite's YAML")
    init: Path | None = argument(
        "--init RUN", "a run whose model every row begins with, in place of the file's"
    )
    teacher: Path | None = argument(
        "--teacher DIR",
        "the folder of a suite that is finished, of whose scores the shares are shown",
    )
    run_folder: Path | None = argument(
        "--run DIR",
        "the folder for the suite's runs; by default runs/NAME with the suite's name, "
        "or runs/NAME-RUN with --init",
    )
    quiet: bool = argument(
        "--quiet", "print only warnings, errors and requested output"
    )


@dataclass(frozen=True, kw_only=True)
class ImportArguments(FolderArguments):
    """Arguments of `transbeam import`."""

    checkpoint: Path = argument("DIR", "the checkpoint's local folder")
    run_folder: Path | None = argument(
        "--run DIR", f"{_NEW_RUN} runs/NAME with the name of DIR"
    )


@dataclass(frozen=True, kw_only=True)
class TrimArguments(FolderArguments):
    """Arguments of `transbeam trim`."""

    old_folder: Path = argument("RUN", "a run, trained or imported")
    run_folder: Path | None = argument(
        "--run DIR", f"{_NEW_RUN} runs/NAME_trimmed with the name of RUN"
    )
    min_count: int = argument(
        "--min-count N",
        "also remove pieces that occur in fewer than N words of the corpus; some "
        "words are then split into shorter pieces",
        default=1,
    )
    max_size: int | None = argument(
        "--max-size N", "remove the rarest pieces until N are left"
    )


@dataclass(frozen=True, kw_only=True)
class PruneArguments(FolderArguments):
    """Arguments of `transbeam prune`."""

    old_folder: Path = argument(
        "RUN", "a run that was trained, or imported and has records"
    )
    run_folder: Path | None = argument(
        "--run DIR", f"{_NEW_RUN} runs/NAME_pruned with the name of RUN"
    )
    heads: int | None = argument(
        "--heads N", "number of heads per attention layer to keep; all by default"
    )
    intermediate: int | None = argument(
        "--intermediate N", "number of intermediate units to keep; all by default"
    )
    by: str | None = argument(
        "--by SCORE",
        "keep the heads with the highest score: gradient, estimated on RUN's records, "
        "by default; or, of RUN's analysis, ablation or a metric such as confidence",
    )
    batches: int | None = argument(
        "--batches N",
        "number of batches of 8 records for the estimate; 16 by default",
    )
    weights: float | None = argument(
        "--weights SHARE",
        "set the smallest weights to zero instead, such as 0.5 for half of those of "
        "the kernels; needs no records",
        type=float,
    )
    scope: Literal["matrix", "global"] | None = argument(
        "--scope SCOPE",
        "with --weights: matrix, the same share of every matrix, by default; or "
        "global, the smallest weights of all matrices",
    )
    targets: tuple[str, ...] = argument(
        "--targets PATTERN",
        "with --weights: paths of the matrices, such as token_embedding/embeddings; "
        "repeatable; */kernel by default",
        default=(),
    )

    def __post_init__(self) -> None:
        structured = {
            "--heads": self.heads,
            "--intermediate": self.intermediate,
            "--by": self.by,
            "--batches": self.batches,
        }
        single = {"--scope": self.scope, "--targets": self.targets or None}
        given = [
            name
            for name, value in (single if self.weights is None else structured).items()
            if value is not None
        ]
        if given and self.weights is None:
            raise ConfigError(
                f"{given[0]}: chooses among single weights, and none are pruned. Say "
                "what share of them becomes zero: --weights 0.5"
            )
        if given:
            raise ConfigError(
                f"--weights and {given[0]}: heads and units are removed from the "
                "model, single weights become zero in it. Do one after the other: "
                "first --heads and --intermediate, then --weights on the new run"
            )
        if self.weights is not None:
            check_sparsity("--weights", self.weights)
