"""Command-line arguments of `transbeam serve` and `studio`, with help texts."""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

from transbeam.configs.cli.argument_parser import ArgumentGroup, argument
from transbeam.configs.cli.arguments import CONFIG_HELP, OptionalRunArguments
from transbeam.configs.cli.console import Console
from transbeam.serving.server.configuration.limits import REQUESTS, Limits
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


_SERVED = ArgumentGroup("models (exactly one of these)")
_WHERE = ArgumentGroup("addresses and access")
_WRITTEN = ArgumentGroup(
    "logs",
    "Nothing by default: what clients send is private.",
)


@dataclass(frozen=True, kw_only=True)
class ServedModelArguments(OptionalRunArguments):
    """Arguments of `transbeam serve` that select the models."""

    config: Path | None = argument("CONFIG", CONFIG_HELP, default=None, group=_SERVED)
    model: Path | None = argument(
        "--model DIR",
        "a SavedModel: the folder above its version folders, or one version folder, "
        "which is then the only version served",
        group=_SERVED,
    )
    model_config_file: Path | None = argument(
        "--model-config-file FILE",
        "TF Serving's model.config, with several models",
        group=_SERVED,
    )
    name: str | None = argument(
        "--name NAME", "the name of --model in requests; the folder's name by default"
    )
    studio: bool = argument(
        "--studio",
        "also serve the page of `transbeam studio` for the run that CONFIG names",
    )


@dataclass(frozen=True, kw_only=True)
class AccessArguments:
    """Arguments of servers for their address, tokens and TLS."""

    host: str = argument(
        "--host HOST",
        "the address to listen on; only this machine by default, 0.0.0.0 for all "
        "interfaces",
        default="127.0.0.1",
        group=_WHERE,
    )
    token_file: Path | None = argument(
        "--token-file FILE",
        "file of access tokens, one per line; clients must send one as "
        "`Authorization: Bearer TOKEN`. A token alone has all rights, one with words "
        f"after it only the rights listed there: {', '.join(RIGHTS)}",
        group=_WHERE,
    )
    certificate: Path | None = argument(
        "--certificate FILE", "PEM file for TLS; with --key", group=_WHERE
    )
    key: Path | None = argument("--key FILE", "PEM file for TLS", group=_WHERE)


@dataclass(frozen=True, kw_only=True)
class AddressArguments(AccessArguments):
    """Arguments of `transbeam serve` for addresses and access."""

    rest_port: int = argument(
        "--rest-port N",
        "port for REST; 8501 by default",
        default=8501,
        type=_port,
        group=_WHERE,
    )
    port: int = argument(
        "--port N",
        "port for gRPC; 8500 by default",
        default=8500,
        type=_port,
        group=_WHERE,
    )
    grpc_socket_path: Path | None = argument(
        "--grpc-socket-path FILE",
        "a Unix socket for gRPC in addition to the port: local clients connect to "
        "unix:FILE. Users with write permission for it can send requests; with the "
        "usual umask, only your own user",
        group=_WHERE,
    )
    allow_reload_from: tuple[Path, ...] = argument(
        "--allow-reload-from DIR",
        "let clients change the served models with HandleReloadConfigRequest; new "
        "models must be below DIR. Repeatable. A SavedModel is a program: users with "
        "write permission there can run code here",
        default=(),
        group=_WHERE,
    )
    cors: bool = argument(
        "--cors", "allow requests from pages of other origins", group=_WHERE
    )


@dataclass(frozen=True, kw_only=True)
class BatchingArguments:
    """Arguments of `transbeam serve` for batching."""

    batching_parameters_file: Path | None = argument(
        "--batching-parameters-file FILE",
        "batching parameters in TF Serving's format: max_batch_size { value: 32 } and "
        "so on",
        group=REQUESTS,
    )
    enable_per_model_batching_parameters: bool = argument(
        "--enable-per-model-batching-parameters",
        "read batching parameters from batching_params.pbtxt in each version's "
        "folder; versions without this file are not batched",
        group=REQUESTS,
    )
    no_batching: bool = argument(
        "--no-batching",
        "run each request alone instead of together with others of about its length",
        group=REQUESTS,
    )


@dataclass(frozen=True, kw_only=True)
class LoadingArguments:
    """Arguments of `transbeam serve` for loading models."""

    dry_run: bool = argument(
        "--dry-run",
        "load the models, run their warm-up requests, compare their answers to the "
        "golden requests with those at export, and exit; 0 if all agree. No port is "
        "opened",
        group=REQUESTS,
    )
    poll: int = argument(
        "--poll SECONDS",
        "interval of the search for new versions; 1 by default",
        default=1,
        group=REQUESTS,
    )
    model_config_file_poll_wait_seconds: int = argument(
        "--model-config-file-poll-wait-seconds SECONDS",
        "interval of rereading --model-config-file; 0, the default: never",
        default=0,
        type=_seconds,
        group=REQUESTS,
    )
    allow_version_labels_for_unavailable_models: bool = argument(
        "--allow-version-labels-for-unavailable-models",
        "allow labels for versions that are not available yet",
        group=REQUESTS,
    )


@dataclass(frozen=True, kw_only=True)
class AccessLogArguments:
    """Arguments of servers for their access log."""

    access_log: Path | None = argument(
        "--access-log FILE",
        "append a line of JSON for each request: model, rows, time and status, "
        "but no texts",
        group=_WRITTEN,
    )


@dataclass(frozen=True, kw_only=True)
class LogArguments(AccessLogArguments):
    """Arguments of `transbeam serve` for logs."""

    log_requests: Path | None = argument(
        "--log-requests FOLDER",
        "write requests and their answers, texts included, into TFRecord files of TF "
        "Serving's PredictionLogs; streams are left out",
        group=_WRITTEN,
    )
    log_sample: float | None = argument(
        "--log-sample SHARE",
        "share of the requests to write, chosen at random: 0 to 1, the default",
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


@dataclass(frozen=True, kw_only=True)
class StudioArguments(AccessLogArguments, AccessArguments):
    """Arguments of `transbeam studio`."""

    runs: tuple[Path, ...] = argument(
        "RUN",
        "folders of trained runs; all trained runs in runs/ by default",
        default=(),
    )
    port: int = argument(
        "--port N",
        "port of the page; 8502 by default, 0 for any that is free",
        default=8502,
        type=_port,
        group=_WHERE,
    )
    quiet: bool = argument(
        "--quiet", "print only warnings, errors and requested output"
    )
    json: bool = argument(
        "--json", "print one JSON object on stdout, and everything else on stderr"
    )

    @property
    def console(self) -> Console:
        return Console(quiet=self.quiet, json=self.json)
