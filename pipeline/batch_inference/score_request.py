"""The arguments of `transbeam score` that concern the model and the output."""

from dataclasses import dataclass
from pathlib import Path

from transbeam.configs.cli.argument_parser import argument


@dataclass(frozen=True, kw_only=True)
class ScoreRequest:
    """Arguments of `transbeam score` that select the model and the output."""

    output: Path = argument(
        "--output FILE",
        "where the rows go: a name in .jsonl or .parquet",
        required=True,
    )
    model: Path | None = argument(
        "--model DIR",
        "another SavedModel than the run's: its version folder or the one above",
    )
    signature: str = argument(
        "--signature NAME",
        "which of the model's signatures to run; serving_default if left out",
        default="serving_default",
    )
    batch_size: int = argument(
        "--batch-size N",
        "documents it is given at a time; 32 if left out",
        default=32,
        type=int,
    )
    keep_text: bool = argument("--keep-text", "write the texts beside the answers")
