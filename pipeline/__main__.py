"""`transbeam data`, `tokenize` and `score`; also `python -m transbeam.pipeline`."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from transbeam.configs.base.errors import UserError
from transbeam.configs.base.local_paths import local_path
from transbeam.configs.cli.arguments import (
    Invocation,
    add_common_arguments,
    at_least_one,
    read_invocation,
    run_main,
)
from transbeam.configs.loader.objective_requirements import check_needs
from transbeam.configs.loader.run_folder import lock
from transbeam.configs.system.quiet_imports import quiet_import
from transbeam.pipeline.documents.document import SPLITS
from transbeam.pipeline.tokenize_arguments import add_tokenize_arguments


def data(invocation: Invocation) -> dict[str, Any]:
    """Makes the records of a run; see `transbeam.pipeline.stage.data`."""
    from transbeam.pipeline import stage

    return stage.data(invocation)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `data CONFIG`, `tokenize ARTIFACT` or `score CONFIG`."""
    return run_main(_main, argv)


def _main(argv: Sequence[str]) -> int:
    ours, for_beam = _at_two_dashes(argv)
    arguments = _arguments(ours)
    if for_beam and arguments.function is _tokenize:
        raise UserError(
            f"{' '.join(for_beam)}: only `transbeam data` and `transbeam score` hand "
            "these on"
        )
    arguments.beam_options = for_beam
    return arguments.function(arguments)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    if argv[:1] == ["tokenize"]:  # accepts files and options in any order
        parser = argparse.ArgumentParser(prog="transbeam tokenize", allow_abbrev=False)
        parser.set_defaults(function=_tokenize)
        return add_tokenize_arguments(parser).parse_intermixed_args(argv[1:])
    return _parser().parse_args(argv)


def _at_two_dashes(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Splits arguments at `--` into our own and those for Beam."""
    if "--" not in argv:
        return list(argv), ()
    place = list(argv).index("--")
    return list(argv[:place]), tuple(argv[place + 1 :])


def _invocation(arguments: argparse.Namespace) -> Invocation:
    return replace(
        read_invocation(arguments, rules=(check_needs,)),
        runner=arguments.runner,
        beam_options=arguments.beam_options,
    )


def _data(arguments: argparse.Namespace) -> int:
    invocation = _invocation(arguments)
    with lock(invocation.run_folder):
        result = data(invocation)
        if arguments.inspect:
            _inspect(invocation, arguments.inspect, arguments.split)
    invocation.console.emit(result)
    return 0


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


def _tokenize(arguments: argparse.Namespace) -> int:
    quiet_import("tensorflow", "tensorflow_text")
    from transbeam.pipeline.tokenize_command import TokenizeRequest, tokenize

    request = TokenizeRequest(
        decode=arguments.decode,
        report=arguments.report,
        offsets=arguments.offsets,
        as_json=arguments.json,
        json_lines=arguments.json_lines,
    )
    tokenize(arguments.artifact, arguments.files, request)
    return 0


def _score(arguments: argparse.Namespace) -> int:
    invocation = _invocation(arguments)
    quiet_import("tensorflow", "tensorflow_text", "apache_beam")
    from transbeam.pipeline.batch_inference.score_command import ScoreRequest, score

    request = ScoreRequest(
        output=arguments.output,
        model=arguments.model,
        signature=arguments.signature,
        batch_size=arguments.batch_size,
        keep_text=arguments.keep_text,
    )
    invocation.console.emit(score(invocation, request))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="transbeam", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    making = commands.add_parser(
        "data",
        help="make records of a corpus",
        description="Cleans and tokenizes the corpus of CONFIG into TFRecords with a "
        "manifest, by an Apache Beam job. A job that was stopped goes on where it was; "
        "one that is done is skipped.",
        epilog="examples: transbeam data configs/demo.yaml --workers 2; "
        "transbeam data configs/demo.yaml --runner FlinkRunner -- "
        "--flink_master=host:8081. What stands behind `--` goes to Beam as it is.",
        allow_abbrev=False,
    )
    add_common_arguments(making, workers=True)
    _add_runner(making)
    making.add_argument(
        "--inspect",
        metavar="N",
        nargs="?",
        type=at_least_one,
        const=3,
        help="print the first N records for people, 3 if N is left out",
    )
    making.add_argument(
        "--split",
        choices=SPLITS,
        default="train",
        help="which records --inspect prints",
    )
    making.set_defaults(function=_data)

    tokenizing = commands.add_parser(
        "tokenize", help="show the pieces and ids of lines of text", allow_abbrev=False
    )
    add_tokenize_arguments(tokenizing).set_defaults(function=_tokenize)
    _add_score(commands)
    return parser


def _add_runner(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runner",
        metavar="NAME",
        default="FnApiRunner",
        help="Beam's name of the engine: FlinkRunner, SparkRunner, DataflowRunner; "
        "this machine if left out",
    )


def _add_score(commands: Any) -> None:
    scoring = commands.add_parser(
        "score",
        help="ask an exported model about every document of a corpus",
        description="Gives each document of data.source to an exported SavedModel, by "
        "an Apache Beam job, and writes a row of answers for each. A job that was "
        "stopped goes on where it was; one that is done is skipped.",
        epilog="example: transbeam score configs/demo.yaml --signature embed "
        "--output vectors.parquet --set data.source='{kind: text, path: more/*.txt}'. "
        "What stands behind `--` goes to Beam as it is.",
        allow_abbrev=False,
    )
    add_common_arguments(scoring, workers=True)
    _add_runner(scoring)
    scoring.add_argument(
        "--output",
        metavar="FILE",
        type=local_path,
        required=True,
        help="where the rows go: a name in .jsonl or .parquet",
    )
    scoring.add_argument(
        "--model",
        metavar="DIR",
        type=local_path,
        help="another SavedModel than the run's: its version folder or the one above",
    )
    scoring.add_argument(
        "--signature",
        metavar="NAME",
        default="serving_default",
        help="which of the model's signatures to ask; serving_default if left out",
    )
    scoring.add_argument(
        "--batch-size",
        metavar="N",
        type=int,
        default=32,
        help="documents it is given at a time; 32 if left out",
    )
    scoring.add_argument(
        "--keep-text", action="store_true", help="write the texts beside the answers"
    )
    scoring.set_defaults(function=_score)


if __name__ == "__main__":
    sys.exit(main())
