"""Finds the published configuration that is most similar to a run's."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from transbeam.configs.loader.preset_files import preset_files
from transbeam.configs.loader.warmup import settle_warmup
from transbeam.configs.loader.yaml_config import flatten, load_run
from transbeam.configs.schema.run import RunConfig

_SECTIONS = ("tokenizer", "objective", "model", "training")


@cache
def _presets() -> Mapping[str, RunConfig]:
    """All presets by their names, such as `bert_base`."""
    return {
        name: load_run(path, with_model=True) for name, path in preset_files().items()
    }


def nearest_preset(run: RunConfig) -> tuple[str, list[tuple[str, Any, Any]]] | None:
    """Finds the preset of a run's model kind whose `model` section differs least.

    Presets with the run's objective are preferred.

    Args:
        run: Any run.

    Returns:
        Its name; and each key outside of `data` in which the run differs, with the
        preset's value and the run's, or None for a key that one of them lacks. None if
        no preset has the run's model kind.

    Example:
    >>> name, differences = nearest_preset(_presets()["gpt2_small"])
    >>> name, differences
    ('gpt2_small', [])
    """
    own = flatten(settle_warmup(run), *_SECTIONS)
    found = []
    for name, preset in _presets().items():
        if preset.model.kind != run.model.kind:
            continue
        theirs = flatten(settle_warmup(preset), *_SECTIONS)
        differences = [
            (key, theirs.get(key), own.get(key))
            for key in dict.fromkeys([*own, *theirs])
            if theirs.get(key) != own.get(key)
        ]
        of_model = sum(key.startswith("model.") for key, _, _ in differences)
        other_task = preset.objective.kind != run.objective.kind
        found.append((other_task, of_model, len(differences), name, differences))
    if not found:
        return None
    *_, name, differences = min(found)
    return name, differences
