"""Loads, warms up and labels a server's models at startup."""

from concurrent.futures import as_completed
from functools import partial
from pathlib import Path

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.configuration.tf_serving_files import parse_batching
from transbeam.serving.server.models.catalog import Catalog
from transbeam.serving.server.models.loaded_version import Loaded
from transbeam.serving.server.models.regular_files import check_regular_files
from transbeam.serving.server.monitoring.metrics import Metrics


def catalog_for(settings: ServerSettings, metrics: Metrics) -> Catalog:
    """Creates an empty catalog that loads versions according to the settings."""

    def load(name: str, folder: Path) -> Loaded:
        check_regular_files(folder)
        batching = settings.batching
        if settings.enable_per_model_batching_parameters:
            batching = parse_batching(folder, batching)
        return Loaded(
            folder,
            batching,
            settings.limits.answer_seconds,
            partial(metrics.batch, name),
            partial(metrics.warm_up, folder),
            partial(metrics.written, name),
        )

    return Catalog(
        load,
        settings.poll_seconds,
        early_labels=settings.allow_version_labels_for_unavailable_models,
    )


def bring_up(catalog: Catalog, settings: ServerSettings) -> None:
    """Loads all models and assigns their version labels.

    Blocks without a time limit if the storage hangs.

    Raises:
        ArtifactError: A model has no version that can be loaded. Other models may still
            be loading when this error is raised.
        ConfigError: The name or a label of a model is invalid.
    """
    if not settings.models:  # those that the studio loads must not be replaced by none
        return
    try:
        with catalog.start_loading(settings.models) as polls:
            models = {polls[model.name]: model for model in catalog.models()}
            for poll in as_completed(models):
                poll.result()
                model = models[poll]
                if not model.available():
                    found = "; ".join(model.failures()) or (
                        "there is no version folder, such as 1"
                    )
                    raise ArtifactError(
                        f"{model.folder}: nothing to serve as {model.name!r}: {found}. "
                        "Give the folder above the versions that `transbeam export` "
                        "made"
                    )
    except StatusError as failure:
        raise ConfigError(failure.message) from None
    try:
        # Labels need an available version, and before this point there was none.
        catalog.configure(settings.models)
    except StatusError as failure:
        raise ConfigError(
            f"{failure.message}. Is its folder there, and does model_version_policy "
            "choose it? With --allow-version-labels-for-unavailable-models a label "
            "waits for its version"
        ) from None


def try_out(settings: ServerSettings) -> dict[str, list[int]]:
    """Loads all models as a server does at startup, then unloads them.

    Args:
        settings: As for `transbeam.serving.server.run.run`.

    Returns:
        The available versions of each model, newest first.

    Raises:
        ArtifactError: A version to be served cannot be loaded, fails one of its warm-up
            requests, or returns outputs that differ from those recorded in its golden
            requests.
        ConfigError: A model's name is invalid.
    """
    catalog = catalog_for(settings, Metrics())
    try:
        bring_up(catalog, settings)
        # Any version that fails is rejected, even if another one is available.
        for model in catalog.models():
            if failures := model.failures():
                raise ArtifactError(f"{model.name}: {'; '.join(failures)}")
        return {model.name: model.available() for model in catalog.models()}
    finally:
        catalog.close()
