"""A model on every record of a validation split."""

from collections.abc import Sequence

from transbeam.configs.run import RunConfig
from transbeam.pipeline.manifest import Manifest
from transbeam.trainer.asks import asks_of
from transbeam.trainer.evaluate import Evaluation, Forward, Watcher, evaluate
from transbeam.trainer.input.batches import validation_batches
from transbeam.trainer.input.masking import DynamicMasking
from transbeam.trainer.scoring import Scorer, scorers_of


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
        masking: Hides tokens, if the records have none hidden.
        more: Scorers beside those of the objective.
        watchers: See `evaluate`.
    """
    batches = validation_batches(manifest, config.training.batch_size, masking)
    strict = config.evaluation.strict_entities
    return evaluate(
        forward,
        asks_of(config.objective),
        (*scorers_of(config.objective, strict_entities=strict), *more),
        batches,
        config.seed,
        watchers,
    )
