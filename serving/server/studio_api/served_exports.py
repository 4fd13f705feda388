"""The exports of the studio's runs as models of the server."""

import re
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from grpc import StatusCode

from transbeam.configs.loader.run_folder import Stage
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.models.catalog import Catalog, ModelSettings
from transbeam.serving.studio.run_facts import RunFacts

# Exports that the studio loaded and keeps, besides the models of the command line.
_MOST_LOADED = 4
_SAVED_MODEL = "export/saved_model"
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class ServedExports:
    """Finds the model that serves a run's export, and loads exports on demand.

    A run and a model belong together if the model's folder is that of the run's export.
    All exports at once might need more memory than there is, so one is loaded when a
    page first needs it, and the one that was needed longest ago makes room.

    Args:
        runs: The runs.
        catalog: The models of the server.
        loads: Whether exports may be loaded, by a server without other models;
            otherwise only those are served that the server loads anyway.
    """

    def __init__(self, runs: Sequence[RunFacts], catalog: Catalog, *, loads: bool):
        self._runs = {facts.name: facts for facts in runs}
        self._names = dict(zip(self._runs, model_names(self._runs), strict=True))
        self._catalog = catalog
        self._loads = loads
        self._loading = threading.Lock()
        # The loaded exports, the one that was needed last at the end.
        self._loaded: list[ModelSettings] = []

    def facts(self, run: str) -> dict[str, Any]:
        """Returns how a run is served, as a JSON object.

        Returns:
            `served_as`, the model's name in requests, or None; and `why_not_served`,
            the reason then.
        """
        facts = self._runs[run]
        name = self._served_name(facts)
        if name is None and self._loads and _export_folder(facts) is not None:
            name = self._names[run]
        why = None if name is not None else _why_not(facts)
        return {"served_as": name, "why_not_served": why}

    def serve(self, run: str) -> str | None:
        """Loads a run's export, unless it is loaded.

        Args:
            run: The run's name.

        Returns:
            The model's name in requests; None while the server's start loads it.

        Raises:
            StatusError: There is no such run, it has no export, or the export cannot be
                loaded.
        """
        facts = self._found(run)
        with self._loading:
            name = self._served_name(facts)
            folder = _export_folder(facts)
            if name is not None:
                if self._is_starting(name):
                    return None
            elif folder is not None and self._loads:
                name = self._names[run]
                self._load(ModelSettings(name, folder))
            else:
                raise StatusError(StatusCode.FAILED_PRECONDITION, _why_not(facts))
            self._keep(name)
            return name

    def served_name(self, run: str) -> str:
        """Returns the name of the model that serves a run.

        Raises:
            StatusError: There is no such run, or its export is not loaded.
        """
        name = self._served_name(self._found(run))
        if name is None:
            raise StatusError(
                StatusCode.FAILED_PRECONDITION, f"the export of {run} is not loaded"
            )
        return name

    def _found(self, run: str) -> RunFacts:
        facts = self._runs.get(run)
        if facts is None:
            raise StatusError(
                StatusCode.NOT_FOUND,
                f"there is no run {run!r}; the runs of this page are "
                f"{', '.join(self._runs)}",
            )
        return facts

    def _served_name(self, facts: RunFacts) -> str | None:
        folder = _saved_model(facts).resolve()
        for model in self._catalog.models():
            if model.folder.resolve() == folder:
                return model.name
        return None

    def _is_starting(self, name: str) -> bool:
        model = self._catalog.model(name)
        return self._catalog.starting and model is not None and not model.available()

    def _load(self, settings: ModelSettings) -> None:
        self._catalog.configure([*self._loaded, settings])
        self._loaded.append(settings)
        while len(self._loaded) > _MOST_LOADED:
            self._catalog.configure(self._loaded[1:])
            del self._loaded[0]

    def _keep(self, name: str) -> None:
        self._loaded.sort(key=lambda settings: settings.name == name)


def model_names(runs: Iterable[str]) -> list[str]:
    """Makes the names of models from those of runs.

    Args:
        runs: Names of runs, which may have any characters.

    Returns:
        For each run a name with letters, digits, `.`, `_` and `-`, each only once.

    Example:
    >>> model_names(["demo", "my run", "my-run", "été", "../a/demo"])
    ['demo', 'my-run', 'my-run-2', 't', 'a-demo']
    """
    found: list[str] = []
    for run in runs:
        name = first = _NO_NAME.sub("-", run).strip("-._") or "run"
        number = 1
        while name in found:
            number += 1
            name = f"{first}-{number}"
        found.append(name)
    return found


def _saved_model(facts: RunFacts) -> Path:
    return facts.folder / _SAVED_MODEL


def _export_folder(facts: RunFacts) -> Path | None:
    """Returns the folder of a finished export's versions; None if there is none."""
    stage = Stage(facts.folder, "export", "transbeam export")
    folder = _saved_model(facts)
    return folder if stage.is_finished and folder.is_dir() else None


def _why_not(facts: RunFacts) -> str:
    if _export_folder(facts) is None:
        return (
            "it has no finished export. Make one, then reload this page: "
            f"transbeam export {facts.folder}"
        )
    return (
        "this server does not serve its export. Start it with: "
        f"transbeam studio {facts.folder}"
    )
