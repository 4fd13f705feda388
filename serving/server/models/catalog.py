"""The catalog of all models of a server; resolves requests to loaded versions."""

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from grpc import StatusCode

from transbeam.configs.system.daemon_threads import run_in_background
from transbeam.serving.server.base.periodic import Repeated
from transbeam.serving.server.base.status import StatusError, invalid
from transbeam.serving.server.models.loaded_version import Loaded
from transbeam.serving.server.models.versions import Model, Policy, not_found
from transbeam.serving.server.protocol.rest_paths import ModelTarget

# Model names appear in paths, metrics and logs.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Versions are loaded one after another, but a load waits no longer than this for the
# one before it, which may be on storage that hangs.
_TURN_SECONDS = 10.0
# Time after which a configuration change gives up because another one is in progress.
_CHANGE_SECONDS = 10.0

_log = logging.getLogger("transbeam.serve")


@dataclass(frozen=True)
class LogSettings:
    """Request log settings of a model.

    Attributes:
        prefix: Prefix of the log files' paths, folder included.
        share: Fraction of the successful requests to log, 0 to 1.
    """

    prefix: str
    share: float = 1.0


@dataclass(frozen=True)
class ModelSettings:
    """Configuration of one model.

    Attributes:
        name: Name of the model in requests.
        folder: Folder that contains the version folders.
        policy: Policy that selects the versions to serve.
        labels: Version numbers by label.
        log: Request log of the model; None for the server's default.
    """

    name: str
    folder: Path
    policy: Policy = field(default_factory=Policy)
    labels: Mapping[str, int] = field(default_factory=dict)
    log: LogSettings | None = None


class Catalog:
    """The models of a server, kept up to date by background threads.

    Each model is polled in a thread of its own, so that storage that hangs does not
    block the other models.

    Args:
        load: Loads a version; takes the model's name and the version folder.
        poll_seconds: Polling interval of the model folders.
        early_labels: True if a new label may be assigned to a version that is not
            available yet.
    """

    def __init__(
        self,
        load: Callable[[str, Path], Loaded],
        poll_seconds: float = 1.0,
        *,
        early_labels: bool = False,
    ):
        self._load = load
        self._early_labels = early_labels
        self._models: dict[str, Model] = {}
        # Models being added by a configuration change; their status can be requested.
        self._coming: dict[str, Model] = {}
        self._labels: dict[str, Mapping[str, int]] = {}
        self._began = time.monotonic()
        # True until the models of the initial configuration are loaded.
        self.starting = False
        self._changing = threading.Lock()
        self._turn = threading.Lock()
        self._looks = Repeated(self._look, poll_seconds, "versions")

    @contextmanager
    def start_loading(
        self, wanted: Sequence[ModelSettings]
    ) -> Iterator[dict[str, Future]]:
        """Starts loading the initial models; each is available as soon as it is loaded.

        Until the context exits, no other configuration change is possible.

        Args:
            wanted: Settings of all models; the version labels are ignored.

        Yields:
            Futures of the first poll of each model, by name.

        Raises:
            StatusError: A name is invalid or repeated.
        """
        _check(wanted)
        with self._change():
            self.starting = True
            self._models = {settings.name: self._new(settings) for settings in wanted}
            yield {
                name: run_in_background(model.poll, f"look after {name}")
                for name, model in self._models.items()
            }

    def configure(self, wanted: Sequence[ModelSettings]) -> None:
        """Replaces the set of models: loads new models and unloads removed models.

        Args:
            wanted: All models. A model that is new, or whose folder changed, must have
                a version that can be loaded.

        Raises:
            StatusError: A name is invalid or repeated, a label's version is not
                available, or no version of a model can be loaded. The models remain
                unchanged if this error is raised.
        """
        _check(wanted)
        with self._change():
            self._check_labels(wanted)
            folders = {name: model.folder for name, model in self._models.items()}
            self._coming = {
                settings.name: self._new(settings)
                for settings in wanted
                if folders.get(settings.name) != settings.folder
            }
            try:
                _look_after(self._coming.values(), must_answer=True)
            except StatusError:
                coming, self._coming = self._coming, {}
                for model in coming.values():
                    model.close()
                raise
            self._take_over(wanted)
            self.starting = False

    def _take_over(self, wanted: Sequence[ModelSettings]) -> None:
        """Adds the new models and removes those that are no longer configured."""
        # Labels first: a label must never refer to a version that is being unloaded.
        for settings in wanted:
            self._labels[settings.name] = dict(settings.labels)
        before = dict(self._models)
        self._models.update(self._coming)
        self._coming = {}
        kept = []
        for settings in wanted:
            model = self._models[settings.name]
            if before.get(settings.name) is model:
                model.policy = settings.policy
                kept.append(model)
        _look_after(kept, must_answer=False)
        names = {settings.name for settings in wanted}
        for name, model in before.items():
            if name not in names:
                del self._models[name], self._labels[name]
            if self._models.get(name) is not model:
                model.close()

    def start(self) -> None:
        """Starts polling for new versions."""
        self._looks.start()

    def close(self) -> None:
        """Unloads all models, each version after its last request."""
        self._looks.close()
        for model in list(self._models.values()):
            model.close()

    def ready(self) -> bool:
        """Returns True if each model has an available version."""
        models = list(self._models.values())
        return (
            not self.starting
            and bool(models)
            and all(model.available() for model in models)
        )

    def progress(self) -> str:
        """Describes the progress of loading the initial models."""
        models = list(self._models.items())
        missing = [name for name, model in models if not model.available()]
        seconds = time.monotonic() - self._began
        there = f"{len(models) - len(missing)} of {len(models)} models answer"
        waits = f"; not yet: {', '.join(missing)}" if missing else ""
        return f"loading: {there} after {seconds:.0f} s{waits}"

    def check_loaded(self, name: str) -> None:
        """Checks that a model is not still being loaded at startup.

        Raises:
            StatusError: UNAVAILABLE: the model is still being loaded.
        """
        model = self._models.get(name)
        if self.starting and model is not None and not model.available():
            raise StatusError(
                StatusCode.UNAVAILABLE,
                f"{name} is being loaded; /readyz shows the progress",
            )

    def model(self, name: str) -> Model | None:
        """Returns a model by name, including one that is being added."""
        return self._models.get(name) or self._coming.get(name)

    def labels(self, name: str) -> Mapping[str, int]:
        """Returns the version numbers of a model by label."""
        return self._labels.get(name, {})

    def models(self) -> list[Model]:
        """Returns all models, sorted by name."""
        models = dict(self._models)  # other threads add and remove models
        return [models[name] for name in sorted(models)]

    def names(self) -> list[str]:
        """Returns the sorted names of all models."""
        return sorted(self._models)

    @contextmanager
    def use(self, target: ModelTarget) -> Iterator[tuple[int, Loaded]]:
        """Yields the version that a request addresses; see `Model.use`.

        Raises:
            StatusError: The model name is missing, or the label or an available version
                does not exist.
        """
        if not target.name:
            raise invalid("ModelSpec has no name specified.")
        self.check_loaded(target.name)
        model = self._models.get(target.name)
        version = target.version
        if target.label is not None:
            labels = self.labels(target.name)
            if target.label not in labels and self.starting:
                raise StatusError(StatusCode.UNAVAILABLE, "labels wait for all models")
            if target.label not in labels:
                raise invalid(f"Unrecognized servable version label: {target.label}")
            version = labels[target.label]
        if model is None:
            raise not_found(target.name, version)
        with model.use(version) as found:
            yield found

    def _new(self, settings: ModelSettings) -> Model:
        return Model(
            settings.name,
            settings.folder,
            settings.policy,
            lambda folder: self._load_in_turn(settings.name, folder),
        )

    def _load_in_turn(self, name: str, folder: Path) -> Loaded:
        """Loads one version at a time, so that its memory growth can be measured."""
        is_alone = self._turn.acquire(timeout=_TURN_SECONDS)
        if not is_alone:
            _log.warning("%s: does not wait for a model that is loading still", name)
        try:
            return self._load(name, folder)
        finally:
            if is_alone:
                self._turn.release()

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Holds the lock for configuration changes."""
        if not self._changing.acquire(timeout=_CHANGE_SECONDS):
            raise StatusError(
                StatusCode.UNAVAILABLE,
                "the models are being changed already; try again when that has ended",
            )
        try:
            yield
        finally:
            self._changing.release()

    def _check_labels(self, wanted: Sequence[ModelSettings]) -> None:
        """Checks labels as TF Serving does, against currently available versions."""
        for settings in wanted:
            model = self._models.get(settings.name)
            answering = model.available() if model else []
            known = self.labels(settings.name)
            for label, version in settings.labels.items():
                # A label in use must not move to a version that is not available.
                early = self._early_labels and known.get(label, version) == version
                if version not in answering and not early:
                    raise StatusError(
                        StatusCode.FAILED_PRECONDITION,
                        f"Request to assign label to version {version} of model "
                        f"{settings.name}, which is not currently available for "
                        "inference",
                    )

    def _look(self) -> None:
        for model in list(self._models.values()):
            if not model.is_polling():
                run_in_background(partial(_poll, model), f"look after {model.name}")


def _poll(model: Model) -> None:
    try:
        model.poll()
    except Exception:  # the next poll may succeed
        _log.exception("%s: could not be looked after", model.name)


def _look_after(models: Iterable[Model], *, must_answer: bool) -> None:
    """Polls models, each in a thread of its own, and waits for all of them.

    Args:
        models: The models.
        must_answer: True if each model must have an available version afterwards.

    Raises:
        StatusError: A model has no available version.
    """
    looks = {run_in_background(m.poll, f"look after {m.name}"): m for m in models}
    for look in as_completed(looks):
        look.result()
        model = looks[look]
        if must_answer and not model.available():
            raise StatusError(
                StatusCode.FAILED_PRECONDITION,
                f"{model.name}: nothing can be loaded from {model.folder}: "
                f"{'; '.join(model.failures()) or 'there is no version folder'}",
            )


def _check(wanted: Sequence[ModelSettings]) -> None:
    names = [settings.name for settings in wanted]
    for name in names:
        if not _NAME.fullmatch(name):
            raise invalid(
                f"{name!r} is not a name for a model; expected letters, digits, '.', "
                "'_' and '-', the first a letter or a digit"
            )
        if names.count(name) > 1:
            raise invalid(f"There are two models with the name {name!r}")
