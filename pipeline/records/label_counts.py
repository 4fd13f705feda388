"""Counts of each class or tag, and those that never occur."""

from collections.abc import Mapping, Sequence
from typing import Any

from transbeam.configs.schema.run import RunConfig

_MOST = 10


def label_counts(
    config: RunConfig, statistics: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, int]]:
    """Counts the occurrences of each label in the records of each split.

    Args:
        config: The run's configuration.
        statistics: As in `statistics.json`.

    Returns:
        Maps splits to labels to counts; empty if the objective has no labels.
    """
    labels: Sequence[str] = getattr(config.objective, "labels", ())
    if not labels:
        return {}
    return {
        split: {
            label: found["label_counts"][place]
            if place < len(found["label_counts"])
            else 0
            for place, label in enumerate(labels)
        }
        for split, found in statistics.items()
    }


def missing_labels(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Returns warnings about labels that never occur.

    Example:
    >>> missing_labels({"train": {"a": 3, "b": 0}, "validation": {"a": 1, "b": 0}})
    ["objective.labels: training has no example of 'b'. Mend the corpus, or take out \
what cannot be learned"]
    >>> missing_labels({"train": {"a": 3, "b": 1}, "validation": {"a": 1, "b": 0}})
    ["objective.labels: validation has no example of 'b'. Hold out more, or its scores \
say nothing of that"]
    """
    remedies = {
        "train": "Mend the corpus, or take out what cannot be learned",
        "validation": "Hold out more, or its scores say nothing of that",
    }
    told: list[str] = []
    said: set[str] = set()
    for split, of_split in counts.items():
        never = [x for x, number in of_split.items() if not number and x not in said]
        said.update(never)
        if never:
            name = "training" if split == "train" else split
            shown = ", ".join(map(repr, never[:_MOST])) + ", …" * (len(never) > _MOST)
            told.append(
                f"objective.labels: {name} has no example of {shown}. {remedies[split]}"
            )
    return told
