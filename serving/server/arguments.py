"""Command-line arguments of `transbeam serve` and their help texts."""

import argparse
import math
from typing import Any

from transbeam.configs.base.local_paths import local_path
from transbeam.configs.cli.arguments import CONFIG_HELP, add_run_arguments, at_least_one
from transbeam.serving.server.connections.connection_limits import (
    add_connection_arguments,
)

# Rights of a token, repeated here: importing `base.auth` would delay --help by 0.5 s.
RIGHTS = ("predict", "metrics", "reload")

DESCRIPTION = """\
Answers questions about the exported model of a run, or about any SavedModels, over REST
and gRPC, with the contract of TF Serving: what asks this server can ask that one.

New versions in a model's folder are found, warmed up and put in the place of the old
ones without a request being lost. For production there is the stock image,
tensorflow/serving; docs/serving.md tells what is different here.
"""


def add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `transbeam serve` to a parser."""
    what = parser.add_argument_group("what is served, one of these")
    what.add_argument(
        "config", metavar="CONFIG", type=local_path, nargs="?", help=CONFIG_HELP
    )
    what.add_argument(
        "--model",
        metavar="DIR",
        type=local_path,
        help="the folder above a SavedModel's version folders; or one of these, which "
        "is served alone",
    )
    what.add_argument(
        "--model-config-file",
        metavar="FILE",
        type=local_path,
        help="TF Serving's model.config, with several models",
    )
    parser.add_argument(
        "--name", help="by which --model is asked; the folder's name if left out"
    )
    add_run_arguments(parser)
    _add_doors(parser.add_argument_group("where"))
    _add_ways(parser.add_argument_group("how"))
    add_connection_arguments(
        parser.add_argument_group(
            "how clients may ask", "Connections beyond these limits are ended."
        )
    )
    _add_log(
        parser.add_argument_group(
            "what is written down",
            "Nothing, unless it is asked for: what people send is private.",
        )
    )


def _add_doors(where: Any) -> None:
    where.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to listen on; this machine alone unless told otherwise, and "
        "0.0.0.0 for all",
    )
    where.add_argument(
        "--rest-port", metavar="N", type=_port, default=8501, help="8501 if left out"
    )
    where.add_argument(
        "--port", metavar="N", type=_port, default=8500, help="gRPC: 8500 if left out"
    )
    where.add_argument(
        "--grpc-socket-path",
        metavar="FILE",
        type=local_path,
        help="a Unix socket for gRPC, beside the port: clients of this machine connect "
        "to unix:FILE. Who may write to it may ask: the user alone, with an ordinary "
        "umask",
    )
    where.add_argument(
        "--token-file",
        metavar="FILE",
        type=local_path,
        help="has secrets, one of which clients must show as `Authorization: Bearer "
        "SECRET`; a line each, and behind it what it is for, if not for all: "
        f"{', '.join(RIGHTS)}",
    )
    where.add_argument(
        "--allow-reload-from",
        metavar="DIR",
        type=local_path,
        action="append",
        default=[],
        help="let clients change by HandleReloadConfigRequest which models there are; "
        "new ones may lie below DIR alone. May be given several times. A SavedModel is "
        "a program: whoever may write there may run one here",
    )
    where.add_argument(
        "--certificate",
        metavar="FILE",
        type=local_path,
        help="PEM, for TLS; with --key",
    )
    where.add_argument("--key", metavar="FILE", type=local_path, help="PEM, for TLS")
    where.add_argument(
        "--cors", action="store_true", help="let pages of other origins ask"
    )


def _add_ways(how: Any) -> None:
    how.add_argument(
        "--batching-parameters-file",
        metavar="FILE",
        type=local_path,
        help="TF Serving's: max_batch_size { value: 32 } and so on",
    )
    how.add_argument(
        "--enable-per-model-batching-parameters",
        action="store_true",
        help="read them from the batching_params.pbtxt in each version's folder; "
        "versions without one are not batched",
    )
    how.add_argument(
        "--no-batching",
        action="store_true",
        help="run each request as it came, and not with others of about its length",
    )
    how.add_argument(
        "--max-body-mb",
        metavar="N",
        type=at_least_one,
        default=16,
        help="larger requests are refused; 16 if left out",
    )
    how.add_argument(
        "--max-text-bytes",
        metavar="N",
        type=at_least_one,
        default=2**21,
        help="of all texts of a request; 2,097,152 if left out: one text as long takes "
        "a small tagger seconds, and 300 MB of memory",
    )
    how.add_argument(
        "--max-rows",
        metavar="N",
        type=at_least_one,
        default=2**14,
        help="of a request; 16,384 if left out",
    )
    how.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=at_least_one,
        default=30,
        help="that an answer may take; 30 if left out",
    )
    how.add_argument(
        "--body-timeout",
        metavar="SECONDS",
        type=at_least_one,
        default=30,
        help="that a body may take to come; 30 if left out",
    )
    how.add_argument(
        "--max-stop-strings",
        metavar="N",
        type=at_least_one,
        default=64,
        help="strings that may end a text; requests with more are refused; 64 if left "
        "out",
    )
    how.add_argument(
        "--max-stop-bytes",
        metavar="N",
        type=at_least_one,
        default=1024,
        help="of each of these strings; 1024 if left out",
    )
    how.add_argument(
        "--model-timeout",
        metavar="NAME=SECONDS",
        type=_model_seconds,
        action="append",
        default=[],
        help="the same for one model alone; may be given several times",
    )
    how.add_argument(
        "--dry-run",
        action="store_true",
        help="load the models, run their warm-up requests, hold their answers to the "
        "golden questions against the export's, and stop: with 0 if all is well. "
        "Nothing is listened on",
    )
    how.add_argument(
        "--poll",
        metavar="SECONDS",
        type=at_least_one,
        default=1,
        help="between two looks for new versions; 1 if left out",
    )
    how.add_argument(
        "--model-config-file-poll-wait-seconds",
        metavar="SECONDS",
        type=_seconds,
        default=0,
        help="until --model-config-file is read again, and again; never for 0, or if "
        "left out",
    )
    how.add_argument(
        "--allow-version-labels-for-unavailable-models",
        action="store_true",
        help="let new labels be for versions that do not answer yet",
    )


def _add_log(written: Any) -> None:
    written.add_argument(
        "--access-log",
        metavar="FILE",
        type=local_path,
        help="append a line of JSON for each request: which model was asked for how "
        "much, how long it took and how it ended, but no texts",
    )
    written.add_argument(
        "--log-requests",
        metavar="FOLDER",
        type=local_path,
        help="write requests and their answers, texts included, into TFRecord files of "
        "TF Serving's PredictionLogs; streams are left out",
    )
    written.add_argument(
        "--log-sample",
        metavar="SHARE",
        type=_share,
        help="of the requests to write, drawn by chance: 0 to 1, all if left out",
    )


def _port(text: str) -> int:
    number = int(text) if text.isdecimal() else -1
    if not 0 <= number < 2**16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 0 to 65535")
    return number


def _model_seconds(text: str) -> tuple[str, float]:
    name, _, seconds = text.rpartition("=")
    if not name or not seconds.isdecimal() or not int(seconds):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time of a model; expected NAME=SECONDS, such as reader=5"
        )
    return name, float(seconds)


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is no time: 0 s or more")
    return int(text)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share: 0 to 1")
    return share
