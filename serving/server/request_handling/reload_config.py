"""Another configuration in the place of the one there is: a client's, or the file's."""

import logging
from collections.abc import Sequence
from pathlib import Path

from grpc import StatusCode

from transbeam.configs.base.errors import ConfigError
from transbeam.serving.server.base.status import StatusError, invalid
from transbeam.serving.server.configuration.tf_serving_files import read_models
from transbeam.serving.server.models.catalog import ModelSettings
from transbeam.serving.server.request_handling.service import Service

_log = logging.getLogger("transbeam.serve")


def reload_models(service: Service, wanted: Sequence[ModelSettings]) -> None:
    """Makes these the models of a server, which goes on answering.

    Args:
        service: Has the models.
        wanted: All of them.

    Raises:
        Failure: See `Catalog.configure`; or requests would be written down otherwise
            than who started the server said. Then everything stays as it was.
    """
    for model in wanted:
        known = None if service.log is None else service.log.settings(model.name)
        if model.log not in (None, known):
            raise invalid(
                f"{model.name}: logging_config: what is written down is said when the "
                "server is started, in its model.config or by --log-requests"
            )
    service.catalog.configure(wanted)


def reload_for_client(
    service: Service, wanted: Sequence[ModelSettings], roots: Sequence[Path]
) -> None:
    """Does what a client asks for, if it may.

    Args:
        service: Has the models.
        wanted: All of them.
        roots: Folders, resolved, that models may be loaded from. What is served
            already may stay where it is.

    Raises:
        Failure: A model lies elsewhere, or as `reload_models`.
    """
    if not roots:
        raise StatusError(
            StatusCode.PERMISSION_DENIED,
            "this server lets nobody change which models it has; it does when it is "
            "started with --allow-reload-from DIR",
        )
    for model in wanted:
        known = service.catalog.model(model.name)
        if known is not None and known.folder == model.folder:
            continue
        # A link in the path leads where it leads.
        folder = model.folder.resolve()
        if not any(folder.is_relative_to(root) for root in roots):
            raise StatusError(
                StatusCode.PERMISSION_DENIED,
                f"{model.name}: base_path is {model.folder}, which is below none of "
                "the folders that this server may load models from "
                "(--allow-reload-from)",
            )
    reload_models(service, wanted)


class WatchedConfigFile:
    """A `model.config` that is read again and again.

    As in TF Serving it is the whole truth each time, changed or not: what a client
    asked for meanwhile is undone, and a label gets its version when that one answers.

    Args:
        file: A `ModelServerConfig` as text.
        service: Has the models.
    """

    def __init__(self, file: Path, service: Service):
        self._file = file
        self._service = service
        self._said = ""

    def look(self) -> None:
        """Makes its models those of the server; what it cannot, it says once."""
        said = ""
        try:
            reload_models(self._service, read_models(self._file))
        except ConfigError as error:
            said = str(error)
        except StatusError as failure:
            said = f"{self._file}: {failure.message}"
        if said and said != self._said:
            _log.error("%s. All models stay as they are", said)
        self._said = said
