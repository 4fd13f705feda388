"""Entity F1 of tagged sentences, by the rules of CoNLL's shared tasks.

    Angela  Merkel  visits  Paris
    B-PER   I-PER   O       B-LOC      targets:   PER 0-1, LOC 3
    B-PER   O       O       I-LOC      predicted: PER 0,   LOC 3

A predicted entity is correct if its type, first word and last word are correct. Like
`conlleval` and seqeval, this metric also finds entities in tag sequences that the
scheme forbids: an entity starts at B and S, after E and S, and wherever the previous
tag has another type. With `strict`, an entity is counted only if it starts with B or S
and, in schemes with closing tags, ends with E or S.
"""

from dataclasses import dataclass

import numpy as np

from transbeam.configs.base.bio_tags import EntityTags, marks_entities
from transbeam.configs.base.errors import ConfigError
from transbeam.trainer.metrics.counts import (
    ClassCounts,
    Weights,
    real_pairs,
    require_labels,
    tally,
)
from transbeam.trainer.metrics.language_modeling import TokenAccuracy


@dataclass(frozen=True)
class TaggingScores:
    """Accuracy of tags, and precision, recall and F1 of entities over all types.

    Args:
        labels: The tags, in a scheme of `transbeam.configs.base.bio_tags`; an id is an
            index into them.
        strict: If true, only entities with valid tag sequences count.

    Raises:
        ConfigError: The tags are not of an entity scheme.
    """

    labels: tuple[str, ...]
    strict: bool = False

    def __post_init__(self) -> None:
        if not marks_entities(self.labels):
            raise ConfigError(
                f"objective.labels: found {', '.join(self.labels[:5])}, expected O and "
                "tags such as B-PER and I-PER. Other tags have an accuracy only"
            )

    @property
    def types(self) -> tuple[str, ...]:
        """Entity types, in order."""
        return EntityTags(self.labels).types

    def statistics(
        self, predictions: np.ndarray, targets: np.ndarray, weights: Weights = None
    ) -> np.ndarray:
        """Counts the tags and the entities of each sentence.

        Args:
            predictions: Tag ids (n, T).
            targets: Tag ids (n, T).
            weights: (n, T), 0 for positions without a target, such as the later pieces
                of a word; the tags before and after such positions are treated as
                adjacent. None if all targets are real.

        Returns:
            float64 (n, 2 + 3E) for E entity types: the number of correct tags and of
            all tags; then, each by type, the numbers of correct, predicted and target
            entities.

        Raises:
            DataError: An id has no label.
            ValueError: The shapes differ.
        """
        pairs = real_pairs(predictions, targets, weights)
        require_labels(pairs.predicted, self.labels, "predictions")
        require_labels(pairs.actual, self.labels, "targets")
        tags = EntityTags(self.labels)
        types, opens, closes = map(np.array, (tags.type_of, tags.opens, tags.closes))
        begins = np.diff(pairs.unit, prepend=-1) > 0
        predicted, actual = (
            _entity_ends(types[ids], opens[ids], closes[ids], begins)
            for ids in (pairs.predicted, pairs.actual)
        )
        if self.strict:
            predicted, actual = (
                _well_formed(found, opens[ids], closes[ids], closed=any(tags.closes))
                for found, ids in (
                    (predicted, pairs.predicted),
                    (actual, pairs.actual),
                )
            )
        predicted_type, actual_type = types[pairs.predicted], types[pairs.actual]
        right = (
            (predicted >= 0) & (predicted == actual) & (predicted_type == actual_type)
        )

        def per_type(found: np.ndarray, type_of: np.ndarray) -> np.ndarray:
            shape = (len(targets), len(self.types))
            return tally(pairs.unit[found], type_of[found], shape)

        return np.hstack(
            [
                TokenAccuracy().statistics(predictions, targets, weights),
                per_type(right, actual_type),
                per_type(predicted >= 0, predicted_type),
                per_type(actual >= 0, actual_type),
            ]
        )

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Computes `accuracy`, `entity_precision`, `_recall` and `_f1` from sums.

        Example:
        >>> metric = TaggingScores(("O", "B-PER", "I-PER", "B-LOC", "I-LOC"))
        >>> statistics = metric.statistics([[1, 0, 0, 4]], [[1, 2, 0, 3]])
        >>> scores = metric.scores(statistics.sum(axis=0))
        >>> {name: score.item() for name, score in scores.items()}
        {'accuracy': 0.5, 'entity_precision': 0.5, 'entity_recall': 0.5, \
'entity_f1': 0.5}
        """
        entities = ClassCounts.from_sums(sums[..., 2:]).together()
        return {
            **TokenAccuracy().scores(sums[..., :2]),
            "entity_precision": entities.precision(),
            "entity_recall": entities.recall(),
            "entity_f1": entities.f1(),
        }


def _entity_ends(
    types: np.ndarray, opens: np.ndarray, closes: np.ndarray, begins: np.ndarray
) -> np.ndarray:
    """At each entity's first position the index of its last, else -1: int64 (M,).

    Args:
        types: int64 (M,). The type of each tag, -1 outside of entities.
        opens: bool (M,). True where the tag opens an entity.
        closes: bool (M,). True where the tag closes an entity.
        begins: bool (M,). True where a sentence begins.

    Example:
    >>> yes, no = True, False
    >>> _entity_ends(  # B-PER I-PER I-LOC O | I-LOC
    ...     np.array([0, 0, 1, -1, 1]),
    ...     np.array([yes, no, no, no, no]),
    ...     np.array([no, no, no, no, no]),
    ...     np.array([yes, no, no, no, yes]),
    ... )
    array([ 1, -1,  2, -1,  4])
    """
    inside = types >= 0
    other_type = np.diff(types, prepend=-1) != 0
    after_close = np.roll(closes, 1)  # at the first position a sentence starts anyway
    starts = inside & (opens | after_close | other_type | begins)
    goes_on = inside & ~starts
    ends = inside & ~np.append(goes_on[1:], False)
    found = np.full(len(types), -1)
    found[starts] = np.flatnonzero(ends)
    return found


def _well_formed(
    ends: np.ndarray, opens: np.ndarray, closes: np.ndarray, *, closed: bool
) -> np.ndarray:
    """Keeps entities with an opening first tag and, if `closed`, a closing last tag.

    Example:
    >>> yes, no = True, False
    >>> _well_formed(  # B-PER I-PER I-LOC O | I-LOC
    ...     np.array([1, -1, 2, -1, 4]),
    ...     np.array([yes, no, no, no, no]),
    ...     np.array([no, no, no, no, no]),
    ...     closed=no,
    ... )
    array([ 1, -1, -1, -1, -1])
    """
    right = opens & (closes[ends] if closed else True)
    return np.where(right, ends, -1)
