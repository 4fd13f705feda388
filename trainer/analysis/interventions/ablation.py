"""Change of a run's loss without single heads, sub-layers and blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import keras
import numpy as np
import pyarrow as pa
import tensorflow as tf

from transbeam.model.inspect.ablation import (
    Ablation,
    AblationSwitches,
    Evaluate,
    ablated_costs,
    activation_sums,
    mean_activations,
)
from transbeam.model.weights.assign import assign, variables_by_path
from transbeam.pipeline.records.manifest import Manifest
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.base.analysis_part import AnalysisPart
from transbeam.trainer.analysis.base.heat_maps import draw_heat_map
from transbeam.trainer.base.training_stage import build_trainable
from transbeam.trainer.base.weight_files import copy_to_host
from transbeam.trainer.evaluation.evaluation_loop import on_host
from transbeam.trainer.input.batches import validation_batches
from transbeam.trainer.input.dynamic_masking import dynamic_masking
from transbeam.trainer.metrics.confidence_intervals import Interval, intervals_of_draws
from transbeam.trainer.objectives.losses import make_loss
from transbeam.trainer.step.batch import Batch, model_inputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Kind = Literal["zero", "mean"]

_RECORDS = 8


def analyze_ablation(
    context: AnalysisContext,
    *,
    records: Manifest,
    kind: Kind = "mean",
    batches: int = 4,
) -> AnalysisPart:
    """Measures the change of the loss without each head, sub-layer and block.

    The loss is the evaluation's, on records of the validation split: cross-entropy or
    squared error per target, without label smoothing and z-loss, without dropout and
    without a teacher. Intervals are of a paired bootstrap over records: the same
    records with and without the part.

    Mean ablation leaves what a part adds to every text alike, and takes what it tells
    of this text; zero ablation also takes the constant part, which the layers above
    may rely on. The means are those of the same records.

    Args:
        context: The run's model.
        records: The run's records, which the model's tokenizer made.
        kind: `zero` or `mean`.
        batches: Number of batches of 8 records.

    Returns:
        The part `ablation`. Its table `changes` has a row for each part of the model:
        `layer`, `head` (null if the whole layer is ablated), `part` (`head`,
        `sublayer` or `block`), `kind`, `loss`, `change`, and `low` and `high`, the
        95% interval of the change.

    References:
        - [Michel et al., 2019](https://arxiv.org/abs/1905.10650), section 3.2
    """
    model = _packed_model(context, records)
    data = validation_batches(
        records,
        batch_size=_RECORDS,
        masking=dynamic_masking(context.config, records.folder),
    )
    rows = list(on_host(data.take(batches)))
    switches = AblationSwitches.from_model(model)
    ablations = switches.ablations()
    means = _measure_means(model, switches, rows) if kind == "mean" else None
    offs = [switches.turn_off(), *map(switches.turn_off, ablations)]
    evaluate = _build_evaluation(context, model, switches, means)
    with context.console.progress("ablating", len(rows), "batches") as progress:
        costs, counts = [], []
        for batch in rows:
            cost, count = ablated_costs(evaluate, offs, [batch])
            costs.append(cost)
            counts.append(count)
            progress.advance()
    all_costs = np.concatenate(costs, axis=1)
    loss, changes = measure_changes(all_costs, np.concatenate(counts), context.seed)
    table = _table(ablations, changes, kind, loss)
    return AnalysisPart(
        name="ablation",
        title="Ablation",
        summary=_summary(ablations, changes, kind, loss),
        numbers={"kind": kind, "loss": loss, "records": all_costs.shape[1]},
        tables={"changes": table},
        figures=_draw_figures(ablations, changes, kind),
    )


def measure_changes(
    costs: np.ndarray, counts: np.ndarray, seed: int
) -> tuple[float, list[Interval]]:
    """Computes the change of the loss of each ablation, with its interval.

    Args:
        costs: float `(1 + A, R, O)`: the summed costs of each record and output,
            without and then with each ablation.
        counts: float `(R, O)`: the numbers of targets.
        seed: Seed of the bootstrap.

    Returns:
        The loss without ablation, the sum of the outputs' mean costs; and the changes.

    Example:
    >>> costs = np.array([[[2.0], [2.0]], [[3.0], [5.0]]])
    >>> loss, (change,) = measure_changes(costs, np.array([[2.0], [2.0]]), seed=1)
    >>> loss, change
    (1.0, Interval(score=1.0, low=0.5, high=1.5))
    """

    def losses(drawn: np.ndarray, costs: np.ndarray) -> np.ndarray:
        totals = np.tensordot(drawn, costs, axes=(1, 1))  # (r, A, O)
        return (totals / np.maximum(drawn @ counts, 1.0)[:, None]).sum(axis=2)

    def scores(drawn: np.ndarray) -> dict[str, np.ndarray]:
        found = losses(drawn, costs[1:] - costs[0])
        return {str(number): column for number, column in enumerate(found.T)}

    everything = np.ones((1, len(counts)))
    found = intervals_of_draws(len(counts), scores, seed)
    return losses(everything, costs[:1]).item(), list(found.values())


def _packed_model(context: AnalysisContext, records: Manifest) -> keras.Model:
    """Builds the model for packed records with the weights of the analyzed model."""
    training = replace(context.config.training, precision="float32")
    config = replace(context.config, training=training)
    model = build_trainable(config, records.vocabulary["size"])
    weights = variables_by_path(context.model).items()
    assign(model, ((path, copy_to_host(weight)) for path, weight in weights))
    return model


def _measure_means(
    model: keras.Model, switches: AblationSwitches, batches: Sequence[Batch]
) -> dict[str, np.ndarray]:
    @tf.function(autograph=False, reduce_retracing=True)
    def sums(batch: Batch) -> dict[str, tuple[Any, Any]]:
        return activation_sums(model, switches.sizes, model_inputs(model, batch))

    return mean_activations(sums, batches)


def _build_evaluation(
    context: AnalysisContext,
    model: keras.Model,
    switches: AblationSwitches,
    means: Mapping[str, np.ndarray] | None,
) -> Evaluate:
    """Builds the compiled function from a batch and switches to costs and counts."""
    loss = make_loss(context.config)

    @tf.function(autograph=False, reduce_retracing=True)
    def evaluate(batch: Batch, off: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with switches.applied(off, means):
            outputs = model(model_inputs(model, batch), training=False)
        answers = loss.answers(outputs, batch).values()
        return (
            tf.stack([answer["cost"] for answer in answers], axis=-1),
            tf.stack([answer["count"] for answer in answers], axis=-1),
        )

    return evaluate


def _name(ablation: Ablation) -> str:
    if ablation.head is not None:
        return "head"
    return "sublayer" if "/" in ablation.layer else "block"


def _table(
    ablations: Sequence[Ablation], changes: Sequence[Interval], kind: Kind, loss: float
) -> pa.Table:
    heads = [ablation.head for ablation in ablations]
    return pa.table(
        {
            "layer": [ablation.layer for ablation in ablations],
            "head": pa.array(heads, pa.int32()),
            "part": [_name(ablation) for ablation in ablations],
            "kind": [kind] * len(ablations),
            "loss": [loss + change.score for change in changes],
            "change": [change.score for change in changes],
            "low": [change.low for change in changes],
            "high": [change.high for change in changes],
        }
    )


def _summary(
    ablations: Sequence[Ablation], changes: Sequence[Interval], kind: Kind, loss: float
) -> str:
    heads = [
        (change, ablation)
        for change, ablation in zip(changes, ablations, strict=True)
        if ablation.head is not None
    ]
    change, most = max(heads, key=lambda pair: pair[0].score)
    idle = sum(change.low <= 0.0 <= change.high for change, _ in heads)
    return (
        f"Without ablation the loss is {loss:.4f}. Of {len(heads)} heads, the largest "
        f"change is that of head {most.head} of {most.layer}: {change.score:+.4f} "
        f"({kind} ablation; 95% interval {change.low:+.4f} to {change.high:+.4f}). For "
        f"{idle} heads the interval includes no change."
    )


def _draw_figures(
    ablations: Sequence[Ablation], changes: Sequence[Interval], kind: Kind
) -> "dict[str, Figure]":
    """Draws the changes by layer and head, and by block and sub-layer."""
    cells: dict[str, dict[tuple[str, str], float]] = {"heads": {}, "layers": {}}
    for ablation, change in zip(ablations, changes, strict=True):
        if ablation.head is not None:
            cells["heads"][ablation.layer, str(ablation.head)] = change.score
        else:
            block, _, name = ablation.layer.partition("/")
            cells["layers"][block, name or "block"] = change.score
    figures = {}
    for key, across in {"heads": "head", "layers": "part"}.items():
        rows = list(dict.fromkeys(row for row, _ in cells[key]))
        columns = list(dict.fromkeys(column for _, column in cells[key]))
        values = np.full((len(rows), len(columns)), np.nan)
        for (row, column), value in cells[key].items():
            values[rows.index(row), columns.index(column)] = value
        figures[key] = draw_heat_map(
            values,
            rows,
            columns,
            across=across,
            meaning=f"change of the loss ({kind} ablation)",
        )
    return figures
