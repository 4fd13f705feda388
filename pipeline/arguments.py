"""The arguments of the commands that read texts."""

from dataclasses import dataclass
from pathlib import Path

from transbeam.configs.cli.argument_parser import ArgumentGroup, argument
from transbeam.configs.cli.arguments import JobArguments
from transbeam.pipeline.batch_inference.score_request import ScoreRequest
from transbeam.pipeline.documents.document import Split

_ONE_OF_THESE = ArgumentGroup()


@dataclass(frozen=True, kw_only=True)
class BeamArguments(JobArguments):
    """Arguments of commands that are jobs of Apache Beam."""

    runner: str = argument(
        "--runner NAME",
        "Beam's name of the runner: FlinkRunner, SparkRunner, DataflowRunner; this "
        "machine by default",
        default="FnApiRunner",
    )
    beam_options: tuple[str, ...] = argument("--", "arguments for Beam")


@dataclass(frozen=True, kw_only=True)
class DataArguments(BeamArguments):
    """Arguments of `transbeam data`."""

    inspect: int | None = argument(
        "--inspect N",
        "print the first N records in readable form; 3 without N",
        nargs="?",
        const=3,
    )
    split: Split = argument(
        "--split {train,validation}", "the split that --inspect prints", default="train"
    )


@dataclass(frozen=True, kw_only=True)
class ScoreArguments(ScoreRequest, BeamArguments):
    """Arguments of `transbeam score`."""


@dataclass(frozen=True, kw_only=True)
class TokenizeArguments:
    """Arguments of `transbeam tokenize`."""

    artifact: Path = argument(
        "ARTIFACT",
        "a run's folder, a tokenizer's folder, or a file: vocab.txt, vocab.json with "
        "merges.txt beside it, tokenizer.json, a SentencePiece .model",
    )
    files: tuple[Path, ...] = argument(
        "FILE", "file with the lines; stdin by default", default=()
    )
    decode: bool = argument(
        "--decode",
        "the lines are ids, or JSON with `ids`: print their text",
        group=_ONE_OF_THESE,
    )
    report: bool = argument(
        "--report",
        "print statistics of how well the vocabulary fits all lines",
        group=_ONE_OF_THESE,
    )
    offsets: bool = argument(
        "--offsets",
        "print below each token the characters that it covers",
        group=_ONE_OF_THESE,
    )
    json_lines: bool = argument(
        "--json-lines",
        "the lines are JSON, strings or objects with `text`, so that a text may "
        "contain line breaks; the default for .jsonl files",
    )
    json: bool = argument(
        "--json", "print a JSON object for each line: text, pieces, ids and offsets"
    )
    beam_options: tuple[str, ...] = argument("--", "refused, for no job is run")
