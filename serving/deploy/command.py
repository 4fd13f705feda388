"""`transbeam deploy`: command-line arguments and output."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.cli.argument_parser import argument
from transbeam.configs.cli.arguments import RunArguments, read_invocation
from transbeam.configs.cli.commands import Command
from transbeam.configs.schema.run import FOLDER_NAME
from transbeam.configs.system.quiet_imports import quiet_import
from transbeam.serving.predict.command import exported_model

# TF Serving's image; no newer one was out when this was written.
IMAGE = "tensorflow/serving:2.20.0"


@dataclass(frozen=True, kw_only=True)
class DeployArguments(RunArguments):
    """Arguments of `transbeam deploy`."""

    to: Path | None = argument(
        "--to FOLDER", "the output folder; by default `deploy` in the run's folder"
    )
    name: str | None = argument(
        "--name NAME", "the model's name for clients; CONFIG's name by default"
    )
    image: str = argument(
        "--image IMAGE",
        f"image of TF Serving, with its tag or digest; {IMAGE} by default",
        default=IMAGE,
    )
    overwrite: bool = argument("--overwrite", "replace existing files that differ")


def deploy(arguments: DeployArguments) -> dict[str, Any]:
    """Runs `transbeam deploy`.

    Raises:
        UserError: The run has no exported model, a name is invalid, or a file that the
            user edited would be overwritten.
    """
    invocation = read_invocation(arguments)
    config, console = invocation.config, invocation.console
    model = arguments.name or config.name
    if not FOLDER_NAME.fullmatch(model):
        raise ConfigError(
            f"--name {model!r}: begin with a letter or a digit; letters, digits, '.', "
            "'_' and '-' may follow"
        )
    if not re.fullmatch(r"[\w./:@-]+", arguments.image, re.ASCII):
        raise ConfigError(
            f"--image {arguments.image!r}: not the name of an image; expected one such "
            f"as {IMAGE}"
        )
    folder = exported_model(invocation)
    quiet_import("tensorflow")
    from transbeam.serving.deploy.exported_model import first_request, read_exported
    from transbeam.serving.deploy.template_rendering import (
        deployment_files,
        write_files,
    )

    to = arguments.to or invocation.run_folder / "deploy"
    files = deployment_files(
        read_exported(folder),
        model=model,
        image=arguments.image,
        request=first_request(config),
        to=to,
    )
    written = write_files(files, to, overwrite=arguments.overwrite)
    unchanged = len(files) - len(written)
    console.result(
        f"{len(written)} files written to {to}"
        + (f", {unchanged} are there already" if unchanged else "")
    )
    console.say(f"Start with {to / 'README.md'}")
    return {"path": str(to), "files": sorted(files), "written": written}


DEPLOY = Command(
    name="deploy",
    run=deploy,
    summary="write files to run the exported model with TF Serving",
    description="""\
Writes files to run the exported model of a run in production with the stock TF Serving
image: the server's configuration, Docker Compose with Prometheus, Kubernetes objects, a
Helm chart, a KServe service, an upload to Vertex AI, and a README.md with the commands
for each and a first request.

  transbeam deploy configs/demo.yaml
  transbeam deploy configs/demo.yaml --to deploy/demo --name demo-v2

Nothing is started or uploaded. Files that you have edited are not overwritten.
""",
)
