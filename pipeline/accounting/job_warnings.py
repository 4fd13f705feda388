"""Warnings about a finished job: unread input, truncation, notes about files."""

from collections.abc import Iterator, Mapping
from typing import Any

from transbeam.configs.base.bio_tags import invalid_entity_tags
from transbeam.configs.cli.console import Console
from transbeam.configs.schema.objectives.contrastive import ContrastivePairsConfig
from transbeam.configs.schema.objectives.supervised import (
    SpanQAConfig,
    TokenClassificationConfig,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.accounting.reading_summary import sentences_of_notes
from transbeam.pipeline.records.record_statistics import missing_labels

# Shares above which a warning is shown.
_CUT_OFF = 0.05
_STRIPPED = 0.001


def warn_of_losses(
    console: Console, config: RunConfig, result: Mapping[str, Any]
) -> None:
    """Prints warnings about the result of a data stage.

    Args:
        console: Prints the warnings.
        config: The run's configuration.
        result: The stage's result; results of earlier versions lack some keys.
    """
    for sentence in (
        *_no_validation(config, result),
        *missing_labels(result.get("label_counts", {})),
        *_tags(config),
        *_negatives(config, result),
        *_leaks(result),
        *_cuts(config, result.get("truncated")),
        *_marks(result.get("stripped_marks")),
        *sentences_of_notes(result),
    ):
        console.warn(sentence)


def _no_validation(config: RunConfig, result: Mapping[str, Any]) -> Iterator[str]:
    if result["counts"]["records"].get("validation"):
        return
    key = f"data.validation_fraction={config.data.validation_fraction:g}"
    yield (
        f"there are no validation records ({key}): the training's metrics will be "
        "those of training records, not of new text"
    )


def _tags(config: RunConfig) -> Iterator[str]:
    if not isinstance(config.objective, TokenClassificationConfig):
        return
    if odd := invalid_entity_tags(config.objective.labels):
        yield (
            f"objective.labels look like entity tags, except {', '.join(odd)}: "
            "precision, recall and F1 of entities will not be computed. Write tags as "
            "O, or with B, I, E, L, M, S, U or W before a hyphen, such as B-PER"
        )


def _negatives(config: RunConfig, result: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(config.objective, ContrastivePairsConfig):
        return
    if config.objective.hard_negatives and not any(
        result["counts"].get("hard_negatives", {}).values()
    ):
        yield (
            "objective.hard_negatives=true, and no document has a hard negative: "
            "columns.negative_text names a field that no row has, or that is blank or "
            "equal to a text of its pair. Correct it, or set hard_negatives=false"
        )


def _leaks(result: Mapping[str, Any]) -> Iterator[str]:
    if result["leaks_left"]:
        yield (
            f"the texts of {result['leaks_left']:,} validation documents are also in "
            "the training split, word for word: metrics on them say little about new "
            "text. Remove data.deduplication.exact=false if it is set; if the copies "
            "have other labels or answers, remove them from one of the splits"
        )


def _cuts(config: RunConfig, cut: Mapping[str, Any] | None) -> Iterator[str]:
    if not cut or max(cut["documents_share"], cut["tokens_share"]) < _CUT_OFF:
        return
    share = f"{cut['tokens_share']:.1%} of the tokens are in no record"
    if isinstance(config.objective, SpanQAConfig):  # contexts are split
        yield (
            f"{share}: questions are cut after objective.max_question_length="
            f"{config.objective.max_question_length} tokens. Raise it, and "
            "data.sequence_length with it"
        )
        return
    yield (
        f"{share}: "
        f"{cut['documents_share']:.1%} of the documents are longer than a record of "
        f"data.sequence_length={config.data.sequence_length}. Raise it, at most to "
        "model.max_sequence_length, or split the documents beforehand"
    )


def _marks(found: Mapping[str, Any] | None) -> Iterator[str]:
    if not found or found["stripped"] <= _STRIPPED * found["characters"]:
        return
    share = found["stripped"] / found["characters"]
    scripts = ", ".join(found["scripts"])
    yield (
        f"the tokenizer strips marks from {share:.1%} of all characters, which are "
        f"other letters without them ({scripts}). Set tokenizer.strip_accents=false, "
        "or take tokenizer.kind=unigram or byte_bpe"
    )
