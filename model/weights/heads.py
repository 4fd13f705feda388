"""Heads of encoders in Hugging Face's `config.json`: which class, which labels."""

from collections.abc import Callable, Mapping
from typing import Any

from configs.errors import ArtifactError, ConfigError
from configs.objective import (
    ClassificationConfig,
    ImageClassificationConfig,
    Objective,
    PairClassificationConfig,
    Seq2SeqConfig,
    SpanCorruptionConfig,
    TextToTextConfig,
)
from model.weights.settings import Settings

# From a class of theirs to what its head was trained for, given the labels.
Heads = Mapping[str, Callable[[tuple[str, ...]], Objective | None]]


def read_objective(settings: Settings, heads: Heads) -> Objective | None:
    """What the head of a checkpoint was trained for; None if it has none.

    Raises:
        ArtifactError: `architectures` is a class that we have no model for, or its
            scores are no classes of which one is right.
    """
    named = settings.values.get("architectures")
    if not named:
        return None
    if not isinstance(named, list) or named not in [[name] for name in heads]:
        raise settings.refusal("architectures", f"one of {', '.join(heads)}")
    try:
        objective = heads[named[0]](_labels(settings))
    except ConfigError as error:
        raise ArtifactError(f"{settings.where}: id2label: {error}") from error
    if is_classifier(objective) or isinstance(objective, ImageClassificationConfig):
        # The others are numbers to be guessed, or labels that each apply or not.
        settings.only("problem_type", "single_label_classification")
    return objective


# Without names, we make them: so many that it takes no time.
_MOST_LABELS = 100_000


def _labels(settings: Settings) -> tuple[str, ...]:
    """The names of the classes; two without names if nothing is said of them."""
    named = settings.values.get("id2label")
    if named is None:
        number = settings.integer("num_labels", 2)
        if number > _MOST_LABELS:
            raise settings.refusal("num_labels", f"at most {_MOST_LABELS:,}")
        return tuple(f"LABEL_{index}" for index in range(number))
    try:
        numbers = sorted(settings.section("id2label").values, key=int)
    except ValueError:
        raise settings.refusal(
            "id2label", "names of classes by their numbers"
        ) from None
    return tuple(str(named[number]) for number in numbers)


# Objectives whose models have the same head as another's.
_SAME_HEAD = {
    PairClassificationConfig: ClassificationConfig,
    Seq2SeqConfig: SpanCorruptionConfig,
    TextToTextConfig: SpanCorruptionConfig,
}


def is_classifier(objective: Objective | None) -> bool:
    """Whether a head gives a class to a whole text.

    Example:
    >>> is_classifier(ClassificationConfig(labels=("no", "yes")))
    True
    """
    return isinstance(objective, ClassificationConfig | PairClassificationConfig)


def write_objective(objective: Objective | None, heads: Heads) -> dict[str, Any]:
    """The keys of `config.json` that `read_objective` reads.

    Raises:
        ArtifactError: There is no such head in the family.
    """
    labels = getattr(objective, "labels", ())
    wanted = _SAME_HEAD.get(type(objective), type(objective))
    for name, make in heads.items():
        if type(make(labels or ("0", "1"))) is wanted:
            told: dict[str, Any] = {"architectures": [name]}
            if labels:
                told["id2label"] = {str(i): label for i, label in enumerate(labels)}
                told["label2id"] = {label: i for i, label in enumerate(labels)}
            return told
    kind = objective.kind if objective else "nothing"
    raise ArtifactError(
        f"objective.kind={kind}: no class of this family has such a head; known here: "
        f"{', '.join(heads)}. Export the model without its head"
    )
