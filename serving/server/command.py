"""The `transbeam serve` command."""

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.cli.arguments import read_invocation
from transbeam.configs.cli.commands import Command
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.run_folder import Stage
from transbeam.configs.system.quiet_imports import quiet_import
from transbeam.serving.server.arguments import ServeArguments
from transbeam.serving.server.command_steps import (
    access_tokens,
    check_certificate,
    log_to,
)
from transbeam.serving.server.connections.addresses import Addresses, listen

if TYPE_CHECKING:  # it imports TensorFlow, which takes seconds
    from transbeam.serving.server.configuration.settings import ServerSettings


def serve(arguments: ServeArguments) -> None:
    """Serves the models that the arguments name, until SIGTERM or SIGINT.

    Raises:
        UserError: No model is given, or an argument, a model or an address is invalid.
    """
    console = arguments.console
    given = [arguments.config, arguments.model, arguments.model_config_file]
    if sum(value is not None for value in given) != 1:
        raise ConfigError(
            "give one of CONFIG, --model DIR and --model-config-file FILE, such as "
            "`transbeam serve configs/demo.yaml`"
        )
    exported, studio_runs = None, ()
    if arguments.config is not None:
        invocation = read_invocation(arguments)
        studio_runs = (invocation.run_folder,) if arguments.studio else ()
        stage = Stage(invocation.run_folder, "export", invocation.command("export"))
        stage.load()
        exported = invocation.config.name, stage.path / "saved_model"
    _check_together(arguments)
    if arguments.dry_run:
        _try_out(_settings(arguments, exported, studio_runs), console)
        return
    # Before TensorFlow is imported: a taken port is reported at once, and clients that
    # connect early wait in the backlog. gRPC binds its port itself, later.
    listen(arguments.host, arguments.port, "--port").close()
    with listen(arguments.host, arguments.rest_port) as listening:
        _serve(_settings(arguments, exported, studio_runs), console, listening)


def _try_out(settings: "ServerSettings", console: Console) -> None:
    from transbeam.serving.server.startup import try_out

    log_to(console)
    found = try_out(settings)
    for name, versions in found.items():
        console.say(
            f"{name}: version {', '.join(map(str, versions))} is ready to serve"
        )
    console.emit({"models": found})


def _serve(
    settings: "ServerSettings", console: Console, listening: socket.socket
) -> None:
    from transbeam.serving.server.run import run

    log_to(console)
    names = [model.name for model in settings.models]
    where: list[Addresses] = []

    def opened(addresses: Addresses) -> None:
        where.append(addresses)
        console.say(f"REST  {addresses.rest}/v1/models/{names[0]}")
        console.say(f"OpenAI clients  {addresses.rest}/openai/v1")
        console.say(f"gRPC  {addresses.grpc}")
        if settings.has_studio:
            console.say(f"Page  {addresses.rest}/studio/")
        if settings.grpc_socket_path is not None:
            console.say(f"gRPC  unix:{settings.grpc_socket_path}")
        if settings.log is not None:
            console.say(f"Requests are written to {settings.log.prefix}")
        what = f"{len(names)} models" if len(names) > 1 else names[0]
        console.say(f"Loading {what}; see /readyz for the progress. Stop with Ctrl-C.")

    def ready() -> None:
        console.say("Ready.")
        console.emit({"rest": where[0].rest, "grpc": where[0].grpc})

    if run(settings, listening, opened, ready):
        console.say("Stopped after all requests were answered.")
    else:
        console.say("Stopped during the loading of models.")


def _settings(
    arguments: ServeArguments,
    exported: tuple[str, Path] | None,
    studio_runs: tuple[Path, ...] = (),
) -> "ServerSettings":
    """Converts the arguments to settings; imports TensorFlow for the settings' types.

    Args:
        arguments: See `serve`.
        exported: The run's name and the folder that contains its version folders, if a
            configuration was given.
        studio_runs: Folders of the studio's runs; empty for no studio.
    """
    # Errors in TensorFlow's C++ code are returned to the client and need no log line.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    quiet_import("tensorflow", "tensorflow_text")
    from transbeam.serving.server.configuration.settings import ServerSettings
    from transbeam.serving.server.configuration.tf_serving_files import (
        read_batching,
        read_models,
    )
    from transbeam.serving.server.models.batching.batch_queue import BatchingParameters
    from transbeam.serving.server.models.catalog import LogSettings, ModelSettings
    from transbeam.serving.server.models.versions import Policy

    if arguments.model_config_file:
        models = tuple(read_models(arguments.model_config_file))
    elif exported is not None:
        models = (ModelSettings(*exported),)
    else:
        assert arguments.model is not None
        folder, policy = arguments.model.resolve(), Policy()
        # A version folder is served alone.
        if (folder / "saved_model.pb").exists() and folder.name.isdecimal():
            policy = Policy(specific=frozenset({int(folder.name)}))
            folder = folder.parent
        models = (ModelSettings(arguments.name or folder.name, folder, policy),)
    batching = BatchingParameters(enabled=not arguments.no_batching)
    if arguments.batching_parameters_file:
        batching = read_batching(arguments.batching_parameters_file)
    log = None
    if arguments.log_requests is not None:
        share = 1.0 if arguments.log_sample is None else arguments.log_sample
        log = LogSettings(f"{arguments.log_requests}{os.sep}", share)
    return ServerSettings(
        models=models,
        host=arguments.host,
        port=arguments.port,
        rest_port=arguments.rest_port,
        grpc_socket_path=arguments.grpc_socket_path,
        batching=batching,
        limits=arguments,
        connections=arguments,
        poll_seconds=float(arguments.poll),
        model_config_file=arguments.model_config_file,
        model_config_file_poll_wait_seconds=float(
            arguments.model_config_file_poll_wait_seconds
        ),
        allow_version_labels_for_unavailable_models=(
            arguments.allow_version_labels_for_unavailable_models
        ),
        enable_per_model_batching_parameters=(
            arguments.enable_per_model_batching_parameters
        ),
        tokens=access_tokens(arguments.token_file),
        reload_roots=tuple(folder.resolve() for folder in arguments.allow_reload_from),
        certificate=arguments.certificate,
        key=arguments.key,
        cors=arguments.cors,
        access_log=arguments.access_log,
        log=log,
        has_studio=bool(studio_runs),
        studio_runs=studio_runs,
    )


def _check_together(arguments: ServeArguments) -> None:
    check_certificate(arguments)
    if arguments.studio and arguments.config is None:
        raise ConfigError(
            "--studio shows the run of CONFIG, and none is given. Give CONFIG instead "
            "of --model or --model-config-file, or run `transbeam studio RUN`"
        )
    if arguments.log_sample is not None and arguments.log_requests is None:
        raise ConfigError("--log-sample SHARE needs --log-requests FOLDER")
    if arguments.model_config_file_poll_wait_seconds and not (
        arguments.model_config_file
    ):
        raise ConfigError(
            "--model-config-file-poll-wait-seconds SECONDS needs --model-config-file "
            "FILE"
        )
    for folder in arguments.allow_reload_from:
        if not folder.is_dir():
            raise ConfigError(f"--allow-reload-from {folder}: expected a folder")
    if arguments.no_batching:
        given = {
            "--batching-parameters-file": arguments.batching_parameters_file,
            "--enable-per-model-batching-parameters": (
                arguments.enable_per_model_batching_parameters
            ),
        }
        for flag in filter(given.get, given):
            raise ConfigError(
                f"{flag} does nothing with --no-batching; give one of them"
            )


SERVE = Command(
    name="serve",
    run=serve,
    summary="serve models over REST and gRPC",
    description="""\
Serves the exported model of a run, or any SavedModels, over REST and gRPC with the API
of TF Serving: a client of one server works with the other.

New versions in a model's folder are found and warmed up, and replace the old ones
without a lost request. In production, the stock image tensorflow/serving can be used;
docs/serving.md lists the differences.
""",
)
