"""Limits on requests and on their duration, and their command-line flags."""

import argparse
from dataclasses import dataclass

from transbeam.configs.cli.argument_parser import ArgumentGroup, argument, at_least_one

HOW = ArgumentGroup("how")


def _mebibytes(text: str) -> int:
    return at_least_one(text) * 2**20


def _model_seconds(text: str) -> tuple[str, float]:
    name, _, seconds = text.rpartition("=")
    if not name or not seconds.isdecimal() or not int(seconds):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time of a model; expected NAME=SECONDS, such as reader=5"
        )
    return name, float(seconds)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on requests and on their duration.

    Attributes:
        body_bytes: Maximum size of an uncompressed request body, in bytes.
        text_bytes: Maximum total size of a request's texts, in bytes.
        rows: Maximum number of rows of a request.
        answer_seconds: Time in which a request must be answered.
        body_seconds: Time in which a request body must arrive.
        stop_strings: Maximum number of stop strings per text. OpenAI's API allows 4.
            Each stop string is searched for after each generated token.
        stop_bytes: Maximum size of a stop string, in bytes of UTF-8.
        model_seconds: `answer_seconds` of individual models, with the model names.
    """

    body_bytes: int = argument(
        "--max-body-mb N",
        "larger requests are refused; 16 if left out",
        default=16 * 2**20,
        type=_mebibytes,
        group=HOW,
    )
    text_bytes: int = argument(
        "--max-text-bytes N",
        "of all texts of a request; 2,097,152 if left out: one text as long takes a "
        "small tagger seconds, and 300 MB of memory",
        default=2**21,
        group=HOW,
    )
    rows: int = argument(
        "--max-rows N", "of a request; 16,384 if left out", default=2**14, group=HOW
    )
    answer_seconds: float = argument(
        "--timeout SECONDS",
        "that an answer may take; 30 if left out",
        default=30.0,
        type=at_least_one,
        group=HOW,
    )
    body_seconds: float = argument(
        "--body-timeout SECONDS",
        "that a body may take to come; 30 if left out",
        default=30.0,
        type=at_least_one,
        group=HOW,
    )
    stop_strings: int = argument(
        "--max-stop-strings N",
        "strings that may end a text; requests with more are refused; 64 if left out",
        default=64,
        group=HOW,
    )
    stop_bytes: int = argument(
        "--max-stop-bytes N",
        "of each of these strings; 1024 if left out",
        default=1024,
        group=HOW,
    )
    model_seconds: tuple[tuple[str, float], ...] = argument(
        "--model-timeout NAME=SECONDS",
        "--timeout of one model alone; may be given several times",
        default=(),
        type=_model_seconds,
        group=HOW,
    )
