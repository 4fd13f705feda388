"""All models of a server, and which of them a request means."""

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

from transbeam.configs.system.daemon_threads import begin_aside
from transbeam.serving.server.base.periodic import Repeated
from transbeam.serving.server.base.status import StatusError, invalid
from transbeam.serving.server.models.loaded_version import Loaded
from transbeam.serving.server.models.logging_config import LogSettings
from transbeam.serving.server.models.versions import Model, Policy, not_found
from transbeam.serving.server.protocol.rest_paths import ModelTarget

# What ends up in paths, metrics and logs.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# A version is loaded when the one before it is there, or after so long: it may be on
# storage that never answers.
_TURN_SECONDS = 10.0
# Until who changes the models is told that somebody else is changing them.
_CHANGE_SECONDS = 10.0

_log = logging.getLogger("transbeam.serve")


@dataclass(frozen=True)
class ModelSettings:
    """One model, as a configuration names it.

    Attributes:
        name: By which it is asked.
        folder: Has its version folders.
        policy: Which versions should answer.
        labels: Other names of versions.
        log: Where its requests are written down, if it says so.
    """

    name: str
    folder: Path
    policy: Policy = field(default_factory=Policy)
    labels: Mapping[str, int] = field(default_factory=dict)
    log: LogSettings | None = None


class Catalog:
    """The models of a server, kept up to date by threads.

    Each model has a thread of its own while it is looked after: storage that hangs
    keeps nobody else waiting.

    Args:
        load: Loads a version folder of a model, by the model's name.
        poll_seconds: Between two looks at the folders.
        early_labels: Whether a label that is new may be for a version that does not
            answer yet.
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
        # Those that are loaded for the first time: they tell how far they are.
        self._coming: dict[str, Model] = {}
        self._labels: dict[str, Mapping[str, int]] = {}
        self._began = time.monotonic()
        # Whether the first models are loaded still.
        self.starting = False
        self._changing = threading.Lock()
        self._turn = threading.Lock()
        self._looks = Repeated(self._look, poll_seconds, "versions")

    @contextmanager
    def begun(self, wanted: Sequence[ModelSettings]) -> Iterator[dict[str, Future]]:
        """Begins to load the first models; each answers as soon as it can.

        Meanwhile nobody else can change which models there are.

        Args:
            wanted: All models; their labels are not looked at.

        Yields:
            By name, the end of the first look after each.

        Raises:
            Failure: A name is there twice or is none.
        """
        _check(wanted)
        with self._change():
            self.starting = True
            self._models = {settings.name: self._new(settings) for settings in wanted}
            yield {
                name: begin_aside(model.poll, f"look after {name}")
                for name, model in self._models.items()
            }

    def configure(self, wanted: Sequence[ModelSettings]) -> None:
        """Makes these the models of the server: new ones are loaded, others let go.

        Args:
            wanted: All models. Each that is new, or lies elsewhere now, must answer.

        Raises:
            Failure: A name is there twice or is none, a label is for a version that
                does not answer, or nothing can be loaded for a model. Then everything
                stays as it was.
        """
        _check(wanted)
        with self._change():
            self._check_labels(wanted)
            self._coming = {
                settings.name: self._new(settings)
                for settings in wanted
                if not self._has(settings)
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

    def _has(self, settings: ModelSettings) -> bool:
        model = self._models.get(settings.name)
        return model is not None and model.folder == settings.folder

    def _take_over(self, wanted: Sequence[ModelSettings]) -> None:
        """Puts what is coming in the place of what is not wanted anymore."""
        # First: who asks by a label must not meet a version that is let go.
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
        """Begins to look for new versions."""
        self._looks.start()

    def close(self) -> None:
        """Lets all models go, each version after its last request."""
        self._looks.close()
        for model in list(self._models.values()):
            model.close()

    def ready(self) -> bool:
        """Whether each model has a version that answers."""
        models = list(self._models.values())
        loaded = bool(models) and all(model.available() for model in models)
        return loaded and not self.starting

    def progress(self) -> str:
        """How far the first models are, for who waits for them."""
        models = list(self._models.items())
        missing = [name for name, model in models if not model.available()]
        seconds = time.monotonic() - self._began
        there = f"{len(models) - len(missing)} of {len(models)} models answer"
        waits = f"; not yet: {', '.join(missing)}" if missing else ""
        return f"loading: {there} after {seconds:.0f} s{waits}"

    def check_begun(self, name: str) -> None:
        """Asks to come again, of who wants a model that is still loaded at the start.

        Raises:
            Failure: It is.
        """
        model = self._models.get(name)
        if self.starting and model is not None and not model.available():
            raise StatusError(
                StatusCode.UNAVAILABLE,
                f"{name} is being loaded; /readyz tells how far the server is",
            )

    def model(self, name: str) -> Model | None:
        """A model by its name; one that is loaded for the first time, too."""
        return self._models.get(name) or self._coming.get(name)

    def labels(self, name: str) -> Mapping[str, int]:
        """Other names of a model's versions."""
        return self._labels.get(name, {})

    def names(self) -> list[str]:
        """Of all models."""
        return sorted(self._models)

    @contextmanager
    def use(self, target: ModelTarget) -> Iterator[tuple[int, Loaded]]:
        """The version that a request means; see `Model.use`.

        Raises:
            Failure: There is none that answers, no such label, or no name at all.
        """
        if not target.name:
            raise invalid("ModelSpec has no name specified.")
        self.check_begun(target.name)
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
        """One after the other: what a model takes of the memory is measured."""
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
        """Changes which models there are, which nobody else may do meanwhile."""
        if not self._changing.acquire(timeout=_CHANGE_SECONDS):
            raise StatusError(
                StatusCode.UNAVAILABLE,
                "the models are being changed already; ask again when that has ended",
            )
        try:
            yield
        finally:
            self._changing.release()

    def _check_labels(self, wanted: Sequence[ModelSettings]) -> None:
        """As TF Serving: by what answers now, and not by what will be loaded."""
        for settings in wanted:
            model = self._models.get(settings.name)
            answering = model.available() if model else []
            known = self.labels(settings.name)
            for label, version in settings.labels.items():
                # Who asks by a label that is known is not left without an answer.
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
                begin_aside(partial(_poll, model), f"look after {model.name}")


def _poll(model: Model) -> None:
    try:
        model.poll()
    except Exception:  # the next time may go better
        _log.exception("%s: could not be looked after", model.name)


def _look_after(models: Iterable[Model], *, must_answer: bool) -> None:
    """Looks after models, each in a thread of its own.

    Args:
        models: After which.
        must_answer: Whether each must have a version that answers then.

    Raises:
        Failure: One of them has none.
    """
    looks = {begin_aside(m.poll, f"look after {m.name}"): m for m in models}
    for look in as_completed(looks):
        look.result()
        model = looks[look]
        if must_answer and not model.available():
            found = "; ".join(model.failures()) or "there is no version folder"
            raise StatusError(
                StatusCode.FAILED_PRECONDITION,
                f"{model.name}: nothing can be loaded from {model.folder}: {found}",
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
