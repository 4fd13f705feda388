"""`transbeam data`, `tokenize` and `score`; also `python -m transbeam.pipeline`."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from transbeam.configs.base.errors import UserError
from transbeam.configs.cli.arguments import Invocation, read_invocation, run_main
from transbeam.configs.cli.commands import Command, run_command
from transbeam.configs.loader.objective_requirements import check_needs
from transbeam.configs.loader.run_folder import lock
from transbeam.configs.system.quiet_imports import quiet_import
from transbeam.pipeline.arguments import (
    BeamArguments,
    DataArguments,
    ScoreArguments,
    TokenizeArguments,
)


def data(invocation: Invocation) -> dict[str, Any]:
    """Makes the records of a run; see `transbeam.pipeline.stage.data`."""
    from transbeam.pipeline import stage

    return stage.data(invocation)


def _invocation(arguments: BeamArguments) -> Invocation:
    return replace(
        read_invocation(arguments, rules=(check_needs,)),
        runner=arguments.runner,
        beam_options=arguments.beam_options,
    )


def _data(arguments: DataArguments) -> dict[str, Any]:
    invocation = _invocation(arguments)
    with lock(invocation.run_folder):
        result = data(invocation)
        if arguments.inspect:
            _inspect(invocation, arguments.inspect, arguments.split)
    return result


def _inspect(invocation: Invocation, count: int, split: str) -> None:
    quiet_import("tensorflow")
    from transbeam.pipeline.records.manifest import read_manifest
    from transbeam.pipeline.records.record_inspection import inspect_records
    from transbeam.pipeline.tokenizers.files.tokenizer_folder import read_tokenizer

    folder = invocation.run_folder / "data"
    pieces = read_tokenizer(folder / "tokenizer").vocabulary
    labels = getattr(invocation.config.objective, "labels", ())
    manifest = read_manifest(folder)
    for text in inspect_records(manifest, pieces, split, count, labels):
        invocation.console.show("\n" + text)


def _tokenize(arguments: TokenizeArguments) -> None:
    if arguments.beam_options:
        raise UserError(
            f"{' '.join(arguments.beam_options)}: only `transbeam data` and `transbeam "
            "score` hand these on"
        )
    quiet_import("tensorflow", "tensorflow_text")
    from transbeam.pipeline.tokenize_command import tokenize

    tokenize(arguments)


def _score(arguments: ScoreArguments) -> dict[str, Any]:
    invocation = _invocation(arguments)
    quiet_import("tensorflow", "tensorflow_text", "apache_beam")
    from transbeam.pipeline.batch_inference.score_command import score

    return score(invocation, arguments)


COMMANDS = (
    Command(
        name="data",
        run=_data,
        summary="convert a corpus to training records",
        description="Cleans and tokenizes the corpus of CONFIG with an Apache Beam job "
        "and writes TFRecord files with a manifest. An interrupted job resumes; a "
        "finished one is skipped.",
        epilog="examples: transbeam data configs/demo.yaml --workers 2; "
        "transbeam data configs/demo.yaml --runner FlinkRunner -- "
        "--flink_master=host:8081. Arguments after `--` are passed to Beam.",
    ),
    Command(
        name="tokenize",
        run=_tokenize,
        summary="show the tokens of lines of text",
        description="Reads lines of text and prints their tokens and ids.",
        epilog="example: echo 'It returns a value.' | transbeam tokenize runs/demo "
        "--offsets",
    ),
    Command(
        name="score",
        run=_score,
        summary="run an exported model on every document of a corpus",
        description="Runs an exported SavedModel on each document of data.source with "
        "an Apache Beam job and writes a row of outputs for each. An interrupted job "
        "resumes; a finished one is skipped.",
        epilog="example: transbeam score configs/demo.yaml --signature embed "
        "--output vectors.parquet --set data.source='{kind: text, path: more/*.txt}'. "
        "Arguments after `--` are passed to Beam.",
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `data CONFIG`, `tokenize ARTIFACT` or `score CONFIG`."""
    return run_main(partial(run_command, __doc__, COMMANDS), argv)


if __name__ == "__main__":
    sys.exit(main())
