"""Inspections of the studio's runs, kept so that maps can be fetched layer by layer."""

import hashlib
import json
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from transbeam.configs.base.errors import UserError
from transbeam.serving.base.trained_run import load_trained
from transbeam.serving.studio.inspected_model import (
    MOST_BYTES,
    InspectedModel,
    Inspection,
    MapGroup,
)
from transbeam.serving.studio.run_facts import RunFacts
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
        facts = self._runs.get(run)
        if facts is None:
            raise StudioError(
                f"there is no run {run!r}; the runs of this page are "
                f"{', '.join(self._runs)}",
                is_missing=True,
            )
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
