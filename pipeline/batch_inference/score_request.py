"""The arguments of `transbeam score` that concern the model and the output."""

from dataclasses import dataclass
from pathlib import Path

from transbeam.configs.cli.argument_parser import argument


@dataclass(frozen=True, kw_only=True)
class ScoreRequest:
    """Arguments of `transbeam score` that select the model and the output."""

    output: Path = argument(
        "--output FILE",
        "the output file, .jsonl or .parquet",
        required=True,
    )
    model: Path | None = argument(
        "--model DIR",
        "a SavedModel other than the run's: its version folder or the folder above",
    )
    signature: str = argument(
        "--signature NAME",
        "the signature to run; serving_default by default",
        default="serving_default",
    )
    batch_size: int = argument(
        "--batch-size N",
        "documents per batch; 32 by default",
        default=32,
        type=int,
    )
    keep_text: bool = argument("--keep-text", "write the texts as well")
