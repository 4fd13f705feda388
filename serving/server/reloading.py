"""Another configuration in the place of the one there is: a client's, or the file's."""

import logging
from collections.abc import Sequence
from pathlib import Path

from configs.errors import ConfigError
from serving.server.failures import Failure, invalid
from serving.server.models.catalog import ModelSettings
from serving.server.models.config_files import read_models
from serving.server.service import Service

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


class FollowedFile:
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
        except Failure as failure:
            said = f"{self._file}: {failure.message}"
        if said and said != self._said:
            _log.error("%s. All models stay as they are", said)
        self._said = said
