"""The part `probes` of an analysis: what each layer encodes linearly."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from transbeam.configs.base.errors import ConfigError
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.base.analysis_part import AnalysisPart
from transbeam.trainer.analysis.probes.probe_figures import draw_accuracies, draw_mixes
from transbeam.trainer.analysis.probes.probe_results import ProbeResult, probe_layers
from transbeam.trainer.analysis.probes.probing_tasks import (
    FEWEST_TEXTS,
    ProbingTask,
    make_length_task,
    read_entity_task,
    read_treebank_tasks,
)
from transbeam.trainer.analysis.vectors.layer_states import list_layers

_NAME, _TITLE = "probes", "Probes"


def analyze_probes(
    context: AnalysisContext,
    *,
    treebank: Path | None = None,
    entities: Path | None = None,
) -> AnalysisPart:
    """Trains linear probes on the frozen hidden states of every layer.

    Tasks are the part of speech and the dependency relation of words, their entity
    tags, and the length of texts. A word's vector is the mean of its tokens'. Sentences
    are divided at random: 70% for training, 10% to stop it, 20% for the test.

    Args:
        context: The model; and its texts, for their length.
        treebank: A treebank in CoNLL-U, for parts of speech and relations.
        entities: Words with entity tags in columns, such as of CoNLL 2003: the word
            first, the tag last.

    Returns:
        The part; without numbers for a model of images.

    Raises:
        DataError: A file cannot be read, or has too few sentences.

    References:
        - [Hewitt and Liang, 2019](https://arxiv.org/abs/1909.03368)
        - [Tenney et al., 2019](https://arxiv.org/abs/1905.05950) (mixing weights)
    """
    try:
        list_layers(context.model)
    except ConfigError as error:
        return _explain((str(error),))
    tasks, notes = _make_tasks(context, treebank, entities)
    if not tasks:
        return _explain(tuple(notes))
    results = []
    for task in tasks:
        result = probe_layers(context, task)
        results.append(result)
        if task.types is None:
            notes.append(
                f"{task.name}: no control task, which needs words that occur again"
            )
    notes.append(
        "A probe of relations sees the word alone, not its head. Intervals are over "
        "sentences of the test; another division or seed is not in them"
    )
    return AnalysisPart(
        name=_NAME,
        title=_TITLE,
        summary=_summarize(results),
        numbers={
            result.task.replace(" ", "_"): _describe(result) for result in results
        },
        tables={
            "accuracy": tabulate_accuracies(results),
            "mix": _tabulate_mixes(results),
        },
        figures={"depth": draw_accuracies(results), "mix": draw_mixes(results)},
        notes=tuple(notes),
    )


def _explain(notes: tuple[str, ...]) -> AnalysisPart:
    return AnalysisPart(
        name=_NAME, title=_TITLE, summary="Does not apply.", notes=notes
    )


def _make_tasks(
    context: AnalysisContext, treebank: Path | None, entities: Path | None
) -> tuple[list[ProbingTask], list[str]]:
    tasks, notes = [], []
    if treebank is None:
        notes.append("Parts of speech and relations: left out, as there is no treebank")
    else:
        tasks += read_treebank_tasks(context, treebank)
    if entities is None:
        notes.append("Entities: left out, as there is no file of tagged words")
    else:
        tasks.append(read_entity_task(context, entities))
    length = make_length_task(context)
    if length is None:
        notes.append(
            f"Text length: left out; it needs {FEWEST_TEXTS} texts of several lengths"
        )
    else:
        tasks.append(length)
    return tasks, notes


def _summarize(results: Sequence[ProbeResult]) -> str:
    parts = []
    for result in results:
        best = result.accuracy[result.best]
        text = (
            f"{result.task} {best.score:.1%} in {result.layers[result.best]} (most "
            f"frequent label {result.majority.score:.1%}"
        )
        if result.selectivity is not None:
            text += f", selectivity {result.selectivity[result.best].score:.2f}"
        parts.append(f"{text})")
    return f"Best accuracy of linear probes: {'; '.join(parts)}."


def _describe(result: ProbeResult) -> dict[str, Any]:
    """Returns a result as JSON values."""
    best = result.best
    numbers = {
        "classes": result.classes,
        "tested": result.tested,
        "majority": result.majority._asdict(),
        "best_layer": result.layers[best],
        "accuracy": result.accuracy[best]._asdict(),
        "mixed_accuracy": result.mixed._asdict(),
        "center_of_gravity": result.center,
        "layers": list(result.layers),
        "mix": [round(float(weight), 6) for weight in result.mix],
    }
    if result.selectivity is not None:
        numbers["selectivity"] = result.selectivity[best]._asdict()
    return numbers


def tabulate_accuracies(results: Sequence[ProbeResult]) -> pa.Table:
    """Makes a table with a row for each task, layer and measure.

    Measures are `accuracy`, `control`, `selectivity` and, without a layer, `majority`
    and `mixed`.
    """
    rows = []
    for result in results:
        measures = [("accuracy", result.layers, result.accuracy)]
        if result.control is not None and result.selectivity is not None:
            measures += [
                ("control", result.layers, result.control),
                ("selectivity", result.layers, result.selectivity),
            ]
        measures += [("majority", (None,), (result.majority,))]
        measures += [("mixed", (None,), (result.mixed,))]
        for measure, layers, found in measures:
            for layer, interval in zip(layers, found, strict=True):
                row = {"task": result.task, "layer": layer, "measure": measure}
                rows.append(row | interval._asdict() | {"tested": result.tested})
    columns = dict.fromkeys(("task", "layer", "measure"), pa.string())
    columns |= dict.fromkeys(("score", "low", "high"), pa.float64())
    return pa.Table.from_pylist(rows, pa.schema({**columns, "tested": pa.int64()}))


def _tabulate_mixes(results: Sequence[ProbeResult]) -> pa.Table:
    """Makes a table with a row for each task and layer."""
    return pa.table(
        {
            "task": [result.task for result in results for _ in result.layers],
            "layer": [layer for result in results for layer in result.layers],
            "weight": np.concatenate([result.mix for result in results]),
        }
    )
