"""The `transbeam studio` command."""

import os
import socket
from typing import TYPE_CHECKING

from transbeam.configs.cli.commands import Command
from transbeam.configs.system.quiet_imports import quiet_import
from transbeam.serving.server.arguments import StudioArguments
from transbeam.serving.server.command_steps import (
    access_tokens,
    check_certificate,
    log_to,
)
from transbeam.serving.server.connections.addresses import Addresses, listen

if TYPE_CHECKING:  # it imports gRPC, which takes half a second
    from transbeam.serving.server.base.auth import AccessTokens


def studio(arguments: StudioArguments) -> None:
    """Serves the studio's page until SIGTERM or SIGINT.

    Raises:
        UserError: A run is missing or not trained, or an argument or the address is
            invalid.
    """
    check_certificate(arguments)
    tokens = access_tokens(arguments.token_file)
    with listen(arguments.host, arguments.port, "--port") as listening:
        _serve(arguments, tokens, listening)


def _serve(
    arguments: StudioArguments, tokens: "AccessTokens", listening: socket.socket
) -> None:
    console = arguments.console
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    quiet_import("tensorflow", "tensorflow_text", "keras")
    from transbeam.serving.server.configuration.settings import ServerSettings
    from transbeam.serving.server.run import run

    log_to(console)
    settings = ServerSettings(
        models=(),
        host=arguments.host,
        port=None,
        rest_port=arguments.port,
        tokens=tokens,
        certificate=arguments.certificate,
        key=arguments.key,
        access_log=arguments.access_log,
        has_studio=True,
        studio_runs=arguments.runs,
        studio_loads=True,
    )

    def opened(addresses: Addresses) -> None:
        page = f"{addresses.rest}/studio/"
        console.say(f"Open {page} in a browser. Stop with Ctrl-C.")
        console.emit({"page": page})

    run(settings, listening, opened, lambda: None)
    console.say("Stopped.")


STUDIO = Command(
    name="studio",
    run=studio,
    summary="look inside trained models on a page in the browser",
    description="""\
Serves a page that shows a trained model at work: its answers, the tokens of a text,
and the attention of all layers and heads. It reads the runs' folders, and makes no
request to other machines. Answers need an export, which is loaded when it is first
used, and then answers at /v1/models/RUN as well.
""",
    epilog="""\
examples:
  transbeam studio                          all trained runs in runs/
  transbeam studio runs/demo runs/small     two runs
""",
)
