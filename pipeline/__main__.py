"""`transbeam data CONFIG` and `python -m pipeline CONFIG`: from a corpus to records."""

import argparse
from collections.abc import Sequence
from typing import Any

from configs.command import (
    Invocation,
    add_common_arguments,
    read_invocation,
    run_main,
)
from configs.run_folder import lock


def data(invocation: Invocation) -> dict[str, Any]:
    """Makes the records of a run; see `pipeline.stage.data`."""
    from pipeline import stage

    return stage.data(invocation)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the data stage of a run."""
    return run_main(_main, argv)


def _main(argv: Sequence[str]) -> int:
    invocation = read_invocation(_parser().parse_args(argv))
    with lock(invocation.run_folder):
        invocation.console.emit(data(invocation))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="transbeam data",
        description="Cleans and tokenizes the corpus of CONFIG into TFRecords with a "
        "manifest, by an Apache Beam job. A job that was stopped goes on where it was; "
        "one that is done is skipped.",
        epilog="example: transbeam data configs/demo.yaml --workers 2",
        allow_abbrev=False,
    )
    add_common_arguments(parser, workers=True)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
