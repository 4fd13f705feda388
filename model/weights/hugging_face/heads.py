"""Heads of encoders and decoders in Hugging Face's `config.json`: labels."""

from collections.abc import Callable, Mapping
from typing import Any

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.schema.objectives.language_modeling import SpanCorruptionConfig
from transbeam.configs.schema.objectives.objective import Objective
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    ImageClassificationConfig,
    MultiLabelClassificationConfig,
    PairClassificationConfig,
    PairRegressionConfig,
    RegressionConfig,
    Seq2SeqConfig,
    TextToTextConfig,
)
from transbeam.model.weights.checkpoints.hf_config import HFConfig

# The objective of each class of theirs, given the labels.
Heads = Mapping[str, Callable[[tuple[str, ...]], Objective | None]]


def read_objective(settings: HFConfig, heads: Heads) -> Objective | None:
    """Reads the objective of a checkpoint's head; None without a head.

    Raises:
        ArtifactError: `architectures` is a class that we do not support, or its labels
            are not mutually exclusive classes.
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
    is_pair = _reads_pairs(settings)
    if isinstance(objective, ClassificationConfig) and not is_pair:
        kinds = {name: name for name in ("single_label_classification", _MULTI_LABEL)}
        if settings.choice("problem_type", kinds, next(iter(kinds))) == _MULTI_LABEL:
            return _multi_label(objective.labels, settings)
    elif isinstance(objective, ClassificationConfig | ImageClassificationConfig):
        # The other problem types are regression and multi-label classification.
        settings.only("problem_type", "single_label_classification")
    if isinstance(objective, RegressionConfig):
        settings.only("problem_type", "regression")
    return _of_pairs(objective) if is_pair else objective


_MULTI_LABEL = "multi_label_classification"


def _multi_label(labels: tuple[str, ...], settings: HFConfig) -> Objective:
    """Multi-label classification, with a separator that is in none of the labels."""
    free = (mark for mark in ",|;" if not any(mark in label for label in labels))
    try:
        return MultiLabelClassificationConfig(labels=labels, separator=next(free, ","))
    except ConfigError as error:
        raise ArtifactError(f"{settings.where}: id2label: {error}") from error


def sequence_head(labels: tuple[str, ...]) -> Objective:
    """The objective of a `ForSequenceClassification`: with one label, regression.

    transformers uses the same rule if `problem_type` is missing.

    Example:
    >>> sequence_head(("LABEL_0",)).kind, sequence_head(("no", "yes")).kind
    ('regression', 'classification')
    """
    if len(labels) == 1:
        return RegressionConfig()
    return ClassificationConfig(labels=labels)


# Keys of sentence-transformers in the `config.json` of a CrossEncoder, which reads two
# texts: before version 4, and since.
_CROSS_ENCODER = ("sbert_ce_default_activation_function", "sentence_transformers")


def _reads_pairs(settings: HFConfig) -> bool:
    return any(key in settings for key in _CROSS_ENCODER)


def _of_pairs(objective: Objective | None) -> Objective | None:
    match objective:
        case RegressionConfig():
            return PairRegressionConfig()
        case ClassificationConfig(labels=labels):
            return PairClassificationConfig(labels=labels)
        case _:
            return objective


# Limit of generated label names, if there are none.
_MOST_LABELS = 100_000


def _labels(settings: HFConfig) -> tuple[str, ...]:
    """The names of the classes; `LABEL_0`, `LABEL_1`, … if the config has none."""
    named = settings.values.get("id2label")
    if named is None:
        number = settings.integer("num_labels", 2)
        if number > _MOST_LABELS:
            raise settings.refusal("num_labels", f"at most {_MOST_LABELS:,}")
        return tuple(f"LABEL_{index}" for index in range(number))
    labels_by_id = settings.section("id2label").values
    numbers = sorted(int(key) for key in labels_by_id if key.strip().isdecimal())
    if numbers != list(range(len(named))):
        raise settings.refusal(
            "id2label", f"names of classes by their numbers, 0 to {len(named) - 1}"
        )
    return tuple(str(labels_by_id[key]) for key in sorted(labels_by_id, key=int))


# Objectives whose models have the same head as another's.
_SAME_HEAD = {
    PairClassificationConfig: ClassificationConfig,
    MultiLabelClassificationConfig: ClassificationConfig,
    PairRegressionConfig: RegressionConfig,
    Seq2SeqConfig: SpanCorruptionConfig,
    TextToTextConfig: SpanCorruptionConfig,
}


def is_classifier(objective: Objective | None) -> bool:
    """Checks if a head predicts classes of a whole text.

    Example:
    >>> is_classifier(ClassificationConfig(labels=("no", "yes")))
    True
    """
    return isinstance(
        objective,
        ClassificationConfig
        | PairClassificationConfig
        | MultiLabelClassificationConfig,
    )


def is_estimator(objective: Objective | None) -> bool:
    """Checks if a head predicts a number for a whole text.

    Example:
    >>> is_estimator(RegressionConfig())
    True
    """
    return isinstance(objective, RegressionConfig | PairRegressionConfig)


def write_objective(objective: Objective | None, heads: Heads) -> dict[str, Any]:
    """Writes the keys of `config.json` that `read_objective` reads.

    Raises:
        ArtifactError: The family has no head for this objective.
    """
    labels = ("LABEL_0",) if is_estimator(objective) else ()
    labels = getattr(objective, "labels", labels)
    wanted = _SAME_HEAD.get(type(objective), type(objective))
    for name, make in heads.items():
        if type(make(labels or ("0", "1"))) is wanted:
            settings: dict[str, Any] = {"architectures": [name]}
            if labels:
                settings["id2label"] = {str(i): label for i, label in enumerate(labels)}
                settings["label2id"] = {label: i for i, label in enumerate(labels)}
            if isinstance(objective, MultiLabelClassificationConfig):
                settings["problem_type"] = _MULTI_LABEL
            return settings
    kind = objective.kind if objective else "nothing"
    raise ArtifactError(
        f"objective.kind={kind}: no class of this family has such a head; known here: "
        f"{', '.join(heads)}. Export the model without its head"
    )
