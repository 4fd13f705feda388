"""Scores of generated texts for each named part of a mixture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.evaluation_set import ValidationDocuments
from transbeam.pipeline.records.manifest import Manifest
from transbeam.pipeline.sources.corpus_files import list_sources
from transbeam.trainer.evaluation.generation_eval import Answered, text_scores
from transbeam.trainer.metrics.confidence_intervals import Interval


@dataclass(frozen=True)
class PartScores:
    """Scores of the texts generated for a part of a mixture.

    Attributes:
        texts: The number of texts.
        scores: Scores by name, each with a 95% confidence interval.
    """

    texts: int
    scores: Mapping[str, Interval]

    def as_json(self) -> dict[str, Any]:
        scores = {name: of._asdict() for name, of in self.scores.items()}
        return {"documents": self.texts, "scores": scores}


def score_parts(
    answered: Answered, part_of: Sequence[str | None], config: RunConfig
) -> dict[str, PartScores]:
    """Computes the scores of each part, in the order of the documents.

    Args:
        answered: The generated texts of the first documents of a split.
        part_of: The name of each document's part, or None; see `named_parts`.
        config: The run, whose `evaluation` section names the scores.
    """
    rows_of: dict[str, list[int]] = {}
    for row, name in enumerate(part_of[: len(answered.answers)]):
        if name is not None:
            rows_of.setdefault(name, []).append(row)
    names, seed = config.evaluation.text_scores, config.seed
    found: dict[str, PartScores] = {}
    for name, rows in rows_of.items():
        answers = [answered.answers[row] for row in rows]
        references = [answered.references[row] for row in rows]
        scores = text_scores(answers, references, names, seed)
        found[name] = PartScores(len(rows), scores)
    return found


def named_parts(
    config: RunConfig, held_out: ValidationDocuments, manifest: Manifest
) -> list[str | None]:
    """The name of each document's part of a mixture; empty if no part has a name.

    Args:
        config: The configuration with which the records were made.
        held_out: The documents.
        manifest: The manifest of the records.
    """
    parts = list_sources(config.data.source, config.data.validation_source)
    if not any(part.name for part in parts):
        return []
    # Records of earlier versions have no parts.
    names = {file: parts[part].name for file, part in manifest.source_parts.items()}
    return [names.get(file) for file in held_out.values("source")]
