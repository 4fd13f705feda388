"""Command-line arguments of `transbeam serve` and their help texts."""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

from transbeam.configs.cli.argument_parser import ArgumentGroup, argument
from transbeam.configs.cli.arguments import CONFIG_HELP, OptionalRunArguments
from transbeam.serving.server.configuration.limits import HOW, Limits
from transbeam.serving.server.connections.connection_limits import ConnectionLimits

# Rights of a token, repeated here: importing `base.auth` would delay --help by 0.5 s.
RIGHTS = ("predict", "metrics", "reload")


def _port(text: str) -> int:
    number = int(text) if text.isdecimal() else -1
    if not 0 <= number < 2**16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 0 to 65535")
    return number


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


_SERVED = ArgumentGroup("what is served, one of these")
_WHERE = ArgumentGroup("where")
_WRITTEN = ArgumentGroup(
    "what is written down",
    "Nothing by default: what clients send is private.",
)


@dataclass(frozen=True, kw_only=True)
class ServedModelArguments(OptionalRunArguments):
    """Arguments of `transbeam serve` on the models."""

    config: Path | None = argument("CONFIG", CONFIG_HELP, default=None, group=_SERVED)
    model: Path | None = argument(
        "--model DIR",
        "the folder above a SavedModel's version folders; or one of these, which is "
        "served alone",
        group=_SERVED,
    )
    model_config_file: Path | None = argument(
        "--model-config-file FILE",
        "TF Serving's model.config, with several models",
        group=_SERVED,
    )
    name: str | None = argument(
        "--name NAME", "the name of --model in requests; the folder's name if left out"
    )


@dataclass(frozen=True, kw_only=True)
class AddressArguments:
    """Arguments of `transbeam serve` on its addresses and access."""

    host: str = argument(
        "--host HOST",
        "the address to listen on; this machine alone by default, and 0.0.0.0 for all",
        default="127.0.0.1",
        group=_WHERE,
    )
    rest_port: int = argument(
        "--rest-port N", "8501 if left out", default=8501, type=_port, group=_WHERE
    )
    port: int = argument(
        "--port N", "gRPC: 8500 if left out", default=8500, type=_port, group=_WHERE
    )
    grpc_socket_path: Path | None = argument(
        "--grpc-socket-path FILE",
        "a Unix socket for gRPC, beside the port: clients of this machine connect to "
        "unix:FILE. Who may write to it may ask: the user alone, with an ordinary "
        "umask",
        group=_WHERE,
    )
    token_file: Path | None = argument(
        "--token-file FILE",
        "has secrets, one of which clients must show as `Authorization: Bearer "
        "SECRET`; a line each, and behind it what it is for, if not for all: "
        f"{', '.join(RIGHTS)}",
        group=_WHERE,
    )
    allow_reload_from: tuple[Path, ...] = argument(
        "--allow-reload-from DIR",
        "let clients change by HandleReloadConfigRequest which models there are; new "
        "ones may lie below DIR alone. May be given several times. A SavedModel is a "
        "program: whoever may write there may run one here",
        default=(),
        group=_WHERE,
    )
    certificate: Path | None = argument(
        "--certificate FILE", "PEM, for TLS; with --key", group=_WHERE
    )
    key: Path | None = argument("--key FILE", "PEM, for TLS", group=_WHERE)
    cors: bool = argument("--cors", "let pages of other origins ask", group=_WHERE)


@dataclass(frozen=True, kw_only=True)
class BatchingArguments:
    """Arguments of `transbeam serve` on batching."""

    batching_parameters_file: Path | None = argument(
        "--batching-parameters-file FILE",
        "TF Serving's: max_batch_size { value: 32 } and so on",
        group=HOW,
    )
    enable_per_model_batching_parameters: bool = argument(
        "--enable-per-model-batching-parameters",
        "read them from the batching_params.pbtxt in each version's folder; versions "
        "without one are not batched",
        group=HOW,
    )
    no_batching: bool = argument(
        "--no-batching",
        "run each request as it came, and not with others of about its length",
        group=HOW,
    )


@dataclass(frozen=True, kw_only=True)
class LoadingArguments:
    """Arguments of `transbeam serve` on how it loads models."""

    dry_run: bool = argument(
        "--dry-run",
        "load the models, run their warm-up requests, hold their answers to the golden "
        "questions against the export's, and stop: with 0 if all is well. Nothing is "
        "listened on",
        group=HOW,
    )
    poll: int = argument(
        "--poll SECONDS",
        "between two looks for new versions; 1 if left out",
        default=1,
        group=HOW,
    )
    model_config_file_poll_wait_seconds: int = argument(
        "--model-config-file-poll-wait-seconds SECONDS",
        "until --model-config-file is read again, and again; never for 0, or if left "
        "out",
        default=0,
        type=_seconds,
        group=HOW,
    )
    allow_version_labels_for_unavailable_models: bool = argument(
        "--allow-version-labels-for-unavailable-models",
        "let new labels be for versions that do not answer yet",
        group=HOW,
    )


@dataclass(frozen=True, kw_only=True)
class LogArguments:
    """Arguments of `transbeam serve` on its logs."""

    access_log: Path | None = argument(
        "--access-log FILE",
        "append a line of JSON for each request: model, rows, time and status, "
        "but no texts",
        group=_WRITTEN,
    )
    log_requests: Path | None = argument(
        "--log-requests FOLDER",
        "write requests and their answers, texts included, into TFRecord files of TF "
        "Serving's PredictionLogs; streams are left out",
        group=_WRITTEN,
    )
    log_sample: float | None = argument(
        "--log-sample SHARE",
        "of the requests to write, drawn by chance: 0 to 1, all if left out",
        type=_share,
        group=_WRITTEN,
    )


@dataclass(frozen=True, kw_only=True)
class ServeArguments(
    LogArguments,
    ConnectionLimits,
    LoadingArguments,
    Limits,
    BatchingArguments,
    AddressArguments,
    ServedModelArguments,
):
    """Arguments of `transbeam serve`; the help lists the last base class first."""
