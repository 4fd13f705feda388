"""All models of a server, and which of them a request means."""

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from grpc import StatusCode

from serving.server.contract.paths import Target
from serving.server.failures import Failure, invalid
from serving.server.models.loaded import Loaded
from serving.server.models.versions import Model, Policy, not_found
from serving.server.recording.settings import LogSettings
from serving.server.repeating import Repeated

# What ends up in paths, metrics and logs.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

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
    """The models of a server, kept up to date by a thread.

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
        self._looking = threading.Lock()
        self._looks = Repeated(self._look, poll_seconds, "versions")

    def configure(
        self, wanted: Sequence[ModelSettings], *, complete: bool = True
    ) -> None:
        """Makes these the models of the server: new ones are loaded, others let go.

        Args:
            wanted: All models.
            complete: Whether each that is new, or lies elsewhere now, must answer.

        Raises:
            Failure: A name is there twice or is none, a label is for a version that
                does not answer, or nothing can be loaded for a model. Then everything
                stays as it was.
        """
        _check(wanted)
        with self._looking:
            self._check_labels(wanted)
            self._coming = {
                settings.name: self._new(settings)
                for settings in wanted
                if not self._has(settings)
            }
            try:
                for model in self._coming.values():
                    model.poll()
                if complete:
                    _check_available(self._coming.values())
            except Failure:
                coming, self._coming = self._coming, {}
                for model in coming.values():
                    model.close()
                raise
            self._take_over(wanted)

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
        for settings in wanted:
            model = self._models[settings.name]
            if before.get(settings.name) is model:
                model.policy = settings.policy
                model.poll()
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
        return bool(models) and all(model.available() for model in models)

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
    def use(self, target: Target) -> Iterator[tuple[int, Loaded]]:
        """The version that a request means; see `Model.use`.

        Raises:
            Failure: There is none that answers, no such label, or no name at all.
        """
        if not target.name:
            raise invalid("ModelSpec has no name specified.")
        model = self._models.get(target.name)
        version = target.version
        if target.label is not None:
            labels = self.labels(target.name)
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
            lambda folder: self._load(settings.name, folder),
        )

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
                    raise Failure(
                        StatusCode.FAILED_PRECONDITION,
                        f"Request to assign label to version {version} of model "
                        f"{settings.name}, which is not currently available for "
                        "inference",
                    )

    def _look(self) -> None:
        with self._looking:
            for model in list(self._models.values()):
                try:
                    model.poll()
                except Exception:  # the others are looked after all the same
                    _log.exception("%s: could not be looked after", model.name)


def _check_available(models: Iterable[Model]) -> None:
    for model in models:
        if not model.available():
            found = "; ".join(model.failures()) or "there is no version folder"
            raise Failure(
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
