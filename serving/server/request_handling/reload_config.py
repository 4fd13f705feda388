"""Reloads the model configuration, on a client's request or from a polled file."""

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
    """Replaces the models of a running server.

    Args:
        service: Service whose catalog is changed.
        wanted: All models.

    Raises:
        StatusError: `Catalog.configure` fails, or a logging configuration differs from
            that at the start of the server. The models remain unchanged if this error
            is raised.
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
    """Replaces the models on a client's request, if all folders are allowed.

    Args:
        service: Service whose catalog is changed.
        wanted: All models.
        roots: Resolved folders from which models may be loaded. Models that are already
            served may keep their folder.

    Raises:
        StatusError: A new folder is not inside one of the allowed folders, or
            `reload_models` fails.
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
        # Symbolic links are resolved, so they cannot lead out of the roots.
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
    """A `model.config` file that is polled.

    As in TF Serving, each poll applies the whole file, even if the file is unchanged; a
    poll undoes changes that clients requested, and assigns a label once its version is
    available.

    Args:
        file: A `ModelServerConfig` in text format.
        service: Service whose catalog is changed.
    """

    def __init__(self, file: Path, service: Service):
        self._file = file
        self._service = service
        self._logged = ""

    def poll(self) -> None:
        """Applies the file; logs an error that repeats in each poll only once."""
        problem = ""
        try:
            reload_models(self._service, read_models(self._file))
        except ConfigError as error:
            problem = str(error)
        except StatusError as failure:
            problem = f"{self._file}: {failure.message}"
        if problem and problem != self._logged:
            _log.error("%s. All models stay as they are", problem)
        self._logged = problem
