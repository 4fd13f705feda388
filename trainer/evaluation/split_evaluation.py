"""Evaluates a model on a validation split."""

from collections.abc import Sequence

from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.records.manifest import Manifest
from transbeam.trainer.evaluation.evaluation_loop import (
    Evaluation,
    Forward,
    Watcher,
    evaluate,
)
from transbeam.trainer.input.batches import validation_batches
from transbeam.trainer.input.dynamic_masking import DynamicMasking
from transbeam.trainer.objectives.objective_metrics import Scorer, make_scorers
from transbeam.trainer.objectives.targets import make_targets


def evaluate_split(
    config: RunConfig,
    forward: Forward,
    manifest: Manifest,
    masking: DynamicMasking | None,
    more: Sequence[Scorer] = (),
    watchers: Sequence[Watcher] = (),
) -> Evaluation:
    """Evaluates a model on every validation record.

    Args:
        config: The run.
        forward: From `build_evaluation`.
        manifest: The records.
        masking: Dynamic masking, for records without static masks.
        more: Metrics beside those of the objective.
        watchers: See `evaluate`.
    """
    batches = validation_batches(manifest, config.training.batch_size, masking)
    strict = config.evaluation.strict_entities
    return evaluate(
        forward,
        make_targets(config.objective),
        (*make_scorers(config.objective, strict_entities=strict), *more),
        batches,
        config.seed,
        watchers,
    )
