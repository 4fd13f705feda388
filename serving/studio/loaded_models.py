"""The models of the studio's runs, loaded when they are first used."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property

from transbeam.configs.base.errors import UserError
from transbeam.configs.loader.run_folder import Stage
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.base.trained_run import WEIGHTS, TrainedRun, load_trained
from transbeam.serving.studio.answering_model import AnsweringModel
from transbeam.serving.studio.inspected_model import InspectedModel
from transbeam.serving.studio.model_form import ModelForm
from transbeam.serving.studio.run_facts import RunFacts, read_facts
from transbeam.serving.studio.studio_error import StudioError

_KEPT = 3


class LoadedModel:
    """A Keras model in memory, and what the studio makes of it.

    Args:
        facts: Facts of its run.
        trained: The model.
    """

    def __init__(self, facts: RunFacts, trained: TrainedRun):
        self.facts, self.trained = facts, trained

    @cached_property
    def inspected(self) -> InspectedModel:
        """The model with its attention maps."""
        return InspectedModel(self.facts, self.trained)

    @cached_property
    def answering(self) -> AnsweringModel:
        """The model with its predictions."""
        return AnsweringModel(self.trained)


class LoadedModels:
    """Loads models of some runs, and keeps the last used ones in memory.

    Args:
        runs: The runs.

    Attributes:
        runs: The facts of each run, by its name.
        computing: Held while a model is loaded or computes: each uses all cores.
    """

    def __init__(self, runs: Sequence[RunFacts]):
        self.runs = {facts.name: facts for facts in runs}
        self.computing = threading.Lock()
        self._loaded: OrderedDict[ModelForm, LoadedModel] = OrderedDict()

    def facts(self, run: str) -> RunFacts:
        """Returns the facts of a run; those of one in training are read anew.

        Args:
            run: The run's name.

        Raises:
            StudioError: There is no such run.
        """
        if run not in self.runs:
            raise StudioError(
                f"there is no run {run!r}; the runs of this page are "
                f"{', '.join(self.runs)}",
                is_missing=True,
            )
        if not self.runs[run].is_trained:
            with suppress(UserError):  # it was moved away, and stays as it was
                self.runs[run] = read_facts(self.runs[run].folder, run)
        return self.runs[run]

    def keras(self, form: ModelForm) -> LoadedModel:
        """Returns a run's Keras model, of a checkpoint if one is named.

        Args:
            form: The form; of a TFLite file, the Keras model that was exported.

        Raises:
            StudioError: There is no such run or checkpoint, or a file is damaged.
        """
        form = ModelForm(form.run, form.checkpoint)
        facts = self.facts(form.run)
        if form.checkpoint is not None and form.checkpoint not in facts.checkpoints:
            kept = ", ".join(map(str, facts.checkpoints)) or "none"
            raise StudioError(
                f"{form.run} has no checkpoint of step {form.checkpoint}; it has "
                f"{kept}",
                is_missing=True,
            )
        if form not in self._loaded:
            try:
                trained = load_trained(facts.folder, checkpoint=form.checkpoint)
            except UserError as error:
                raise StudioError(f"{form} cannot be loaded: {error}") from None
            self._loaded[form] = LoadedModel(facts, trained)
        self._loaded.move_to_end(form)
        while len(self._loaded) > _KEPT:
            self._loaded.popitem(last=False)
        return self._loaded[form]

    def tflite(self, form: ModelForm) -> TFLiteRunner:
        """Opens an exported file, which is mapped into memory, not read.

        Args:
            form: The form, with a variant.

        Raises:
            StudioError: There is no such file, it is damaged, or it was exported from
                other weights than those of the run now.
        """
        facts = self.facts(form.run)
        files = facts.tflite_files
        if form.tflite not in files:
            raise StudioError(
                f"{form.run} has no exported TFLite file {form.tflite!r}; it has "
                f"{', '.join(files) or 'none'}",
                is_missing=True,
            )
        try:
            _require_same_weights(facts)
            return TFLiteRunner(files[form.tflite])
        except UserError as error:
            raise StudioError(f"{form} cannot be loaded: {error}") from None


def _require_same_weights(facts: RunFacts) -> None:
    with (facts.folder / WEIGHTS).open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    stage = Stage(facts.folder, "export", f"transbeam export {facts.folder}")
    if stage.load()["inputs"].get("weights_sha256") != found:
        raise StudioError(
            f"the export of {facts.name} was made from other weights than those of the "
            f"run now; export it again: transbeam export {facts.folder}"
        )
