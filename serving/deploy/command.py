"""`transbeam deploy`: command-line arguments and output."""

import argparse
import re

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.local_paths import local_path
from transbeam.configs.cli.arguments import add_common_arguments, read_invocation
from transbeam.configs.schema.run import FOLDER_NAME
from transbeam.configs.system.quiet_imports import quiet_import
from transbeam.serving.predict.command import exported_model

# TF Serving's image; no newer one was out when this was written.
IMAGE = "tensorflow/serving:2.20.0"

DESCRIPTION = """\
Writes what is needed to run the exported model of a run in production, with the stock
TF Serving image: the server's own files, Docker Compose with Prometheus, Kubernetes
objects, a Helm chart, a KServe service, an upload to Vertex AI, and a README.md with
the commands for each and the first question to ask.

  transbeam deploy configs/demo.yaml
  transbeam deploy configs/demo.yaml --to deploy/demo --name demo-v2

Nothing is started or sent anywhere. The files are yours: what you have edited is not
written over.
"""


def add_deploy_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `transbeam deploy`."""
    add_common_arguments(parser)
    parser.add_argument(
        "--to",
        metavar="FOLDER",
        type=local_path,
        help="where the files go; `deploy` in the run's folder if left out",
    )
    parser.add_argument(
        "--name", help="by what clients ask for the model; CONFIG's name if left out"
    )
    parser.add_argument(
        "--image",
        default=IMAGE,
        help=f"of TF Serving, with its tag or digest; {IMAGE} if left out",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace files that are there and different",
    )


def deploy(arguments: argparse.Namespace) -> None:
    """Runs `transbeam deploy`.

    Args:
        arguments: The parsed arguments; see `add_deploy_arguments`.

    Raises:
        UserError: Nothing is exported, a name is invalid, or a file that the user
            edited would be overwritten.
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
            f"--image {arguments.image!r} is no image; expected such as {IMAGE}"
        )
    folder = exported_model(invocation)
    quiet_import("tensorflow")
    from transbeam.serving.deploy.exported_model import first_request, read_exported
    from transbeam.serving.deploy.output_files import write_files
    from transbeam.serving.deploy.template_rendering import deployment_files

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
    console.say(f"Begin with {to / 'README.md'}")
    console.emit({"path": str(to), "files": sorted(files), "written": written})
