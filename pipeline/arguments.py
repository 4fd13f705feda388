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
        "Beam's name of the engine: FlinkRunner, SparkRunner, DataflowRunner; this "
        "machine if left out",
        default="FnApiRunner",
    )
    beam_options: tuple[str, ...] = argument("--", "what goes to Beam as it is")


@dataclass(frozen=True, kw_only=True)
class DataArguments(BeamArguments):
    """Arguments of `transbeam data`."""

    inspect: int | None = argument(
        "--inspect N",
        "print the first N records for people, 3 if N is left out",
        nargs="?",
        const=3,
    )
    split: Split = argument(
        "--split {train,validation}", "which records --inspect prints", default="train"
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
        "FILE", "where the lines are; stdin if left out", default=()
    )
    decode: bool = argument(
        "--decode",
        "the lines are ids, or JSON with `ids` in it: print their text",
        group=_ONE_OF_THESE,
    )
    report: bool = argument(
        "--report",
        "print how well the vocabulary fits all lines together",
        group=_ONE_OF_THESE,
    )
    offsets: bool = argument(
        "--offsets",
        "print below each piece the characters of the line that it covers",
        group=_ONE_OF_THESE,
    )
    json_lines: bool = argument(
        "--json-lines",
        "the lines are JSON, strings or objects with `text`, so that a text may have "
        "line ends in it; in a file called .jsonl they are",
    )
    json: bool = argument(
        "--json", "print a JSON object for each line: text, pieces, ids and offsets"
    )
    beam_options: tuple[str, ...] = argument("--", "refused, for no job is run")
