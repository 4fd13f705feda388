"""Inspections of the studio's runs, kept so that maps can be fetched layer by layer."""

import hashlib
import json
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from transbeam.configs.base.errors import UserError
from transbeam.serving.base.trained_run import load_trained
from transbeam.serving.studio.contributions import explain_prediction
from transbeam.serving.studio.inspected_model import (
    MOST_BYTES,
    InspectedModel,
    Inspection,
    MapGroup,
)
from transbeam.serving.studio.layer_predictions import predict_by_layer
from transbeam.serving.studio.query_key import multiply_query_and_key
from transbeam.serving.studio.run_facts import RunFacts, read_facts
from transbeam.serving.studio.stages import describe_stages
from transbeam.serving.studio.studio_error import StudioError

_KEPT_BYTES = 2 * MOST_BYTES
_KEPT_MODELS = 3


class Inspections:
    """Inspects texts with the models of some runs.

    Models are loaded when they are first used; the last used ones stay in memory, and
    so do the maps of the last texts.

    Args:
        runs: The runs.
    """

    def __init__(self, runs: Sequence[RunFacts]):
        self._runs = {facts.name: facts for facts in runs}
        self._models: OrderedDict[str, InspectedModel] = OrderedDict()
        self._kept: OrderedDict[str, Inspection] = OrderedDict()
        # One inspection at a time: each uses all cores, and the memory of all maps.
        self._computing = threading.Lock()
        self._keeping = threading.Lock()
        # Keys of other people's texts cannot be guessed.
        self._salt = secrets.token_hex(16)

    def runs(self) -> dict[str, Any]:
        """Returns the facts of all runs as a JSON object."""
        return {"runs": [self.facts(name).as_json() for name in self._runs]}

    def facts(self, run: str) -> RunFacts:
        """Returns the facts of a run; those of one in training are read anew.

        Args:
            run: The run's name.

        Raises:
            StudioError: There is no such run.
        """
        facts = self._runs.get(run)
        if facts is None:
            raise StudioError(
                f"there is no run {run!r}; the runs of this page are "
                f"{', '.join(self._runs)}",
                is_missing=True,
            )
        if not facts.is_trained:
            with suppress(UserError):  # it was moved away, and stays as it was
                self._runs[run] = facts = read_facts(facts.folder, run)
        return facts

    def inspect(self, run: str, texts: Mapping[str, str]) -> dict[str, Any]:
        """Inspects a text, unless it is still kept.

        Args:
            run: The run's name.
            texts: A text for each of the run's inputs.

        Returns:
            The inspection as a JSON object, without the maps; its `key` is that of
            `small_maps` and `layer_maps`.

        Raises:
            StudioError: There is no such run, it has no maps or its files are damaged,
                or the texts are not those that it reads.
        """
        facts = self.facts(run)
        if facts.why_no_maps is not None:
            raise StudioError(f"{run} has no attention maps: {facts.why_no_maps}")
        if set(texts) != set(facts.inputs):
            raise StudioError(
                f"{run} reads {' and '.join(facts.inputs)}; the request has "
                f"{' and '.join(sorted(texts)) or 'no text'}"
            )
        # Half of a surrogate pair, which JSON can carry, is no character.
        texts = {n: t.encode("utf-8", "replace").decode() for n, t in texts.items()}
        began = time.perf_counter()
        named = json.dumps([self._salt, run, texts], sort_keys=True)
        key = hashlib.sha256(named.encode()).hexdigest()[:32]
        with self._computing:
            found = self._kept.get(key)
            if found is None:
                found = self._model(facts).inspect(texts)
            self._keep(key, found)
        seconds = round(time.perf_counter() - began, 4)
        return {"key": key, "run": run, "seconds": seconds, **found.as_json()}

    def small_maps(self, key: str, group: str) -> bytes:
        """Returns the small maps of a group.

        Args:
            key: The key of an inspection.
            group: The group's name.

        Returns:
            float16, little-endian, `(L, H, T', S')` with the inspection's `small` as
            `(T', S')`.

        Raises:
            StudioError: There is no such inspection or group.
        """
        for found in self._inspection(key).groups:
            if found.name == group:
                return _little_endian(found.small_maps())
        raise StudioError(f"there is no group {group!r}", is_missing=True)

    def layer_maps(self, key: str, layer: str) -> bytes:
        """Returns the maps of a layer.

        Args:
            key: The key of an inspection.
            layer: The layer's path.

        Returns:
            float16, little-endian, `(H, T, S)`.

        Raises:
            StudioError: There is no such inspection or layer.
        """
        groups: Sequence[MapGroup] = self._inspection(key).groups
        for group in groups:
            if layer in group.paths:
                return _little_endian(group.maps[group.paths.index(layer)])
        raise StudioError(f"there is no layer {layer!r}", is_missing=True)

    def flow_maps(self, key: str, group: str) -> bytes:
        """Returns where the vectors of each layer of a group come from.

        Args:
            key: The key of an inspection.
            group: The name of a group of self-attention layers.

        Returns:
            float16, little-endian, `(L, T, T)`; see `MapGroup.flow_maps`.

        Raises:
            StudioError: There is no such inspection or group, or it is of
                cross-attention.
        """
        for found in self._inspection(key).groups:
            if found.name == group and found.queries == found.keys:
                return _little_endian(found.flow_maps())
        raise StudioError(
            f"there is no group {group!r} of self-attention", is_missing=True
        )

    def predictions(self, key: str) -> dict[str, Any]:
        """Returns the predictions of every layer; see `predict_by_layer`.

        Args:
            key: The key of an inspection.

        Raises:
            StudioError: There is no such inspection, or the model predicts no tokens.
        """
        return self._compute(key, predict_by_layer)

    def contributions(
        self, key: str, position: int, token: int | None, against: int | None
    ) -> dict[str, Any]:
        """Returns the contributions to a logit; see `explain_prediction`.

        Args:
            key: The key of an inspection.
            position: See `explain_prediction`.
            token: See `explain_prediction`.
            against: See `explain_prediction`.

        Raises:
            StudioError: There is no such inspection, position or token, or the model's
                logits are no sums.
        """
        return self._compute(
            key,
            lambda inspected, inspection: explain_prediction(
                inspected, inspection, position, token, against
            ),
        )

    def stages(self, key: str) -> dict[str, Any]:
        """Returns the stages of a text's way; see `describe_stages`.

        Args:
            key: The key of an inspection.

        Raises:
            StudioError: There is no such inspection.
        """
        return self._compute(key, describe_stages)

    def query_key(
        self, key: str, layer: str, head: int, query: int, attended: int
    ) -> dict[str, Any]:
        """Returns the products of a query and a key; see `multiply_query_and_key`.

        Args:
            key: The key of an inspection.
            layer: See `multiply_query_and_key`.
            head: See `multiply_query_and_key`.
            query: See `multiply_query_and_key`.
            attended: See `multiply_query_and_key`.

        Raises:
            StudioError: There is no such inspection, layer, head or token.
        """
        return self._compute(
            key,
            lambda inspected, inspection: multiply_query_and_key(
                inspected, inspection, layer, head, query, attended
            ),
        )

    def _compute(
        self, key: str, work: Callable[[InspectedModel, Inspection], Any]
    ) -> Any:
        inspection = self._inspection(key)
        with self._computing:
            inspected = self._model(self._runs[inspection.run])
            try:
                return work(inspected, inspection)
            except UserError as error:
                raise StudioError(str(error)) from None

    def _inspection(self, key: str) -> Inspection:
        with self._keeping:
            found = self._kept.get(key)
            if found is None:
                raise StudioError(
                    f"there is no inspection {key!r}, or it made room for later ones; "
                    "inspect the text again",
                    is_missing=True,
                )
            self._kept.move_to_end(key)
            return found

    def _keep(self, key: str, inspection: Inspection) -> None:
        with self._keeping:
            self._kept[key] = inspection
            self._kept.move_to_end(key)
            while sum(kept.bytes for kept in self._kept.values()) > _KEPT_BYTES:
                self._kept.popitem(last=False)

    def _model(self, facts: RunFacts) -> InspectedModel:
        if facts.name not in self._models:
            try:
                self._models[facts.name] = InspectedModel(
                    facts, load_trained(facts.folder)
                )
            except UserError as error:
                raise StudioError(f"{facts.name} cannot be loaded: {error}") from None
        self._models.move_to_end(facts.name)
        while len(self._models) > _KEPT_MODELS:
            self._models.popitem(last=False)
        return self._models[facts.name]


def _little_endian(maps: Any) -> bytes:
    return maps.astype("<f2", copy=False).tobytes()
