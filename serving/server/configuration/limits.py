"""Limits on requests and on their duration, and their command-line flags."""

import argparse
from dataclasses import dataclass

from transbeam.configs.cli.argument_parser import ArgumentGroup, argument, at_least_one

REQUESTS = ArgumentGroup("batching, limits and reloading")


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
        model_seconds: Values of `answer_seconds` for individual models, with the names
            of the models.
    """

    body_bytes: int = argument(
        "--max-body-mb N",
        "maximum size of a request body in MB; 16 by default",
        default=16 * 2**20,
        type=_mebibytes,
        group=REQUESTS,
    )
    text_bytes: int = argument(
        "--max-text-bytes N",
        "maximum size of all texts of a request; 2,097,152 by default: a text of this "
        "length takes a small tagger seconds and 300 MB of memory",
        default=2**21,
        group=REQUESTS,
    )
    rows: int = argument(
        "--max-rows N",
        "maximum number of rows of a request; 16,384 by default",
        default=2**14,
        group=REQUESTS,
    )
    answer_seconds: float = argument(
        "--timeout SECONDS",
        "time limit of a request; 30 by default",
        default=30.0,
        type=at_least_one,
        group=REQUESTS,
    )
    body_seconds: float = argument(
        "--body-timeout SECONDS",
        "time limit for receiving a request body; 30 by default",
        default=30.0,
        type=at_least_one,
        group=REQUESTS,
    )
    stop_strings: int = argument(
        "--max-stop-strings N",
        "maximum number of stop strings per text; 64 by default",
        default=64,
        group=REQUESTS,
    )
    stop_bytes: int = argument(
        "--max-stop-bytes N",
        "maximum size of a stop string; 1024 by default",
        default=1024,
        group=REQUESTS,
    )
    model_seconds: tuple[tuple[str, float], ...] = argument(
        "--model-timeout NAME=SECONDS",
        "--timeout of one model; repeatable",
        default=(),
        type=_model_seconds,
        group=REQUESTS,
    )
