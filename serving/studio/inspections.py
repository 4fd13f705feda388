"""Inspections of the studio's runs, kept so that maps can be fetched layer by layer."""

import hashlib
import json
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from transbeam.serving.studio.head_differences import pool_differences
from transbeam.serving.studio.inspected_model import (
    MOST_BYTES,
    SMALL,
    Inspection,
    MapGroup,
)
from transbeam.serving.studio.loaded_models import LoadedModels
from transbeam.serving.studio.model_form import ModelForm
from transbeam.serving.studio.run_facts import RunFacts
from transbeam.serving.studio.studio_error import StudioError

_KEPT_BYTES = 2 * MOST_BYTES


class KeptInspection(NamedTuple):
    """An inspection with the model that it is of.

    Attributes:
        form: The model.
        inspection: The inspection.
    """

    form: ModelForm
    inspection: Inspection


class Inspections:
    """Inspects texts with the models of some runs.

    The maps of the last texts stay in memory.

    Args:
        runs: The runs.

    Attributes:
        models: The models of the runs.
    """

    def __init__(self, runs: Sequence[RunFacts]):
        self.models = LoadedModels(runs)
        self._kept: OrderedDict[str, KeptInspection] = OrderedDict()
        self._keeping = threading.Lock()
        # Keys of other people's texts cannot be guessed.
        self._salt = secrets.token_hex(16)

    def inspect(self, form: ModelForm, texts: Mapping[str, str]) -> dict[str, Any]:
        """Inspects a text, unless it is still kept.

        Args:
            form: A run, or one of its checkpoints.
            texts: A text for each of the run's inputs.

        Returns:
            The inspection as a JSON object, without the maps; its `key` is that of
            `small_maps` and `layer_maps`.

        Raises:
            StudioError: There is no such run or checkpoint, it has no maps or its files
                are damaged, or the texts are not those that it reads.
        """
        facts = self.models.facts(form.run)
        if facts.why_no_maps is not None:
            raise StudioError(f"{form.run} has no attention maps: {facts.why_no_maps}")
        texts = read_texts(facts, texts)
        began = time.perf_counter()
        named = json.dumps([self._salt, form.as_json(), texts], sort_keys=True)
        key = hashlib.sha256(named.encode()).hexdigest()[:32]
        # One at a time: each takes the memory of all maps.
        with self.models.computing:
            kept = self._kept.get(key)
            if kept is None:
                found = self.models.keras(form).inspected.inspect(texts)
                kept = KeptInspection(form, found)
            self._keep(key, kept)
        seconds = round(time.perf_counter() - began, 4)
        return {
            "key": key,
            "run": form.run,
            "seconds": seconds,
            **kept.inspection.as_json(),
        }

    def small_maps(self, key: str, group: str, less: str | None = None) -> bytes:
        """Returns the small maps of a group.

        Args:
            key: The key of an inspection.
            group: The group's name.
            less: The key of another inspection, whose maps are subtracted.

        Returns:
            float16, little-endian, `(L, H, T', S')` with the inspection's `small` as
            `(T', S')`.

        Raises:
            StudioError: There is no such inspection or group, or maps of other shapes
                are to be subtracted.
        """
        maps = self._group(key, group)
        if less is None:
            return _little_endian(maps.small_maps())
        others = self._group(less, group)
        if [m.shape for m in maps.maps] != [m.shape for m in others.maps]:
            raise StudioError("maps of different shapes have no difference")
        pairs = zip(maps.maps, others.maps, strict=True)
        small = [pool_differences(one - other, SMALL) for one, other in pairs]
        return _little_endian(np.stack(small))

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
        groups: Sequence[MapGroup] = self.kept(key).inspection.groups
        for group in groups:
            if layer in group.paths:
                return _little_endian(group.maps[group.paths.index(layer)])
        raise StudioError(f"there is no layer {layer!r}", is_missing=True)

    def _group(self, key: str, name: str) -> MapGroup:
        for found in self.kept(key).inspection.groups:
            if found.name == name:
                return found
        raise StudioError(f"there is no group {name!r}", is_missing=True)

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
        found = self._group(key, group)
        if found.queries != found.keys:
            raise StudioError(f"{group} is no self-attention", is_missing=True)
        return _little_endian(found.flow_maps())

    def kept(self, key: str) -> KeptInspection:
        """Returns an inspection that is still kept.

        Args:
            key: Its key.

        Raises:
            StudioError: There is no such inspection.
        """
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

    def _keep(self, key: str, kept: KeptInspection) -> None:
        with self._keeping:
            self._kept[key] = kept
            self._kept.move_to_end(key)
            while sum(x.inspection.bytes for x in self._kept.values()) > _KEPT_BYTES:
                self._kept.popitem(last=False)


def read_texts(facts: RunFacts, texts: Mapping[str, str]) -> dict[str, str]:
    """Checks the texts for a run.

    Args:
        facts: Facts of the run.
        texts: Texts by the names of the inputs.

    Returns:
        The texts, as valid Unicode.

    Raises:
        StudioError: They are not those that the run reads.
    """
    if set(texts) != set(facts.inputs):
        raise StudioError(
            f"{facts.name} reads {' and '.join(facts.inputs)}; the request has "
            f"{' and '.join(sorted(texts)) or 'no text'}"
        )
    # Half of a surrogate pair, which JSON can carry, is no character.
    return {n: t.encode("utf-8", "replace").decode() for n, t in texts.items()}


def _little_endian(maps: Any) -> bytes:
    return maps.astype("<f2", copy=False).tobytes()
