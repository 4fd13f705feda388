"""Linear probes of all layers for one task, trained and tested."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from transbeam.configs.base.errors import DataError
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.probes.probe_training import (
    LayerMix,
    LayerProbes,
    ProbeExamples,
    center_layers,
    predict_labels,
    train_probes,
)
from transbeam.trainer.analysis.probes.probing_tasks import (
    UNSPECIFIED,
    ProbingTask,
    draw_control_labels,
)
from transbeam.trainer.analysis.vectors.layer_states import (
    LayerStates,
    collect_states,
    list_layers,
)
from transbeam.trainer.metrics.confidence_intervals import Interval, intervals

_MOST_WORDS = 20_000
# Of the hidden states of all layers, which are held while probes are trained.
_MOST_BYTES = 1 << 29
_TRAINING, _DEVELOPMENT = 0.7, 0.1  # the rest is for the test


@dataclass(frozen=True)
class ProbeResult:
    """The probes of a task, measured on sentences that they were not trained on.

    Attributes:
        task: The task's name.
        classes: The number of labels.
        layers: Names of the layers, `L`, the embeddings first.
        tested: Number of words, or of texts, of the test.
        accuracy: Of each layer.
        control: Accuracy of each layer in the control task; None without one.
        selectivity: `accuracy` less `control`; None without a control task.
        majority: Accuracy of the label that is most frequent in training.
        mix: float32 (L,). The weights of the layers in a learned mixture.
        mixed: Accuracy of the probe on the mixture.
    """

    task: str
    classes: int
    layers: tuple[str, ...]
    tested: int
    accuracy: tuple[Interval, ...]
    control: tuple[Interval, ...] | None
    selectivity: tuple[Interval, ...] | None
    majority: Interval
    mix: np.ndarray
    mixed: Interval

    @property
    def best(self) -> int:
        """The index of the layer with the highest accuracy."""
        return int(np.argmax([interval.score for interval in self.accuracy]))

    @property
    def center(self) -> float:
        """The center of gravity of the mixture; the embeddings are layer 0."""
        return float(center_layers(self.mix))


def probe_layers(context: AnalysisContext, task: ProbingTask) -> ProbeResult:
    """Trains and tests the probes of a task.

    Args:
        context: The model.
        task: The task; of a large one, as many random texts are used as fit in memory.

    Raises:
        DataError: A part of the divided texts has no word with a label.
    """
    task = task.sample(_count_words(context), context.seed)
    states = collect_states(context, task.words, f"states of {task.name}")
    examples, texts = label_words(task, states, context.seed)
    parts = divide_texts(texts, len(task.labels))
    if min(map(len, parts)) == 0:
        raise DataError(
            f"{task.words.texts.name}: the task {task.name!r} has too few words with a "
            "label to train, stop and test a probe; give a larger file"
        )
    training, development, test = (examples.select(part) for part in parts)
    classes = len(task.classes)
    probes, mix = (
        LayerProbes(training, classes),
        LayerMix(training.without_control, classes),
    )
    with context.console.progress(f"probes of {task.name}", None, "rounds") as bar:

        def advance() -> None:
            bar.advance(1)

        train_probes(probes, training, development, context.seed, advance)
        plain = training.without_control, development.without_control
        train_probes(mix, *plain, context.seed, advance)
    # (L, K, N) == (K, N), by set of labels.
    predicted = predict_labels(probes, test) == test.labels
    correct: dict[str, np.ndarray] = {"accuracy": predicted[:, 0]}
    if task.types is not None:
        correct["control"] = predicted[:, 1]
    most_frequent = np.bincount(training.labels[0]).argmax()
    correct["majority"] = test.labels[:1] == most_frequent
    correct["mixed"] = predict_labels(mix, test.without_control)[0] == test.labels[:1]
    found = measure_accuracies(correct, texts[parts[2]], context.seed)
    return ProbeResult(
        task=task.name,
        classes=classes,
        layers=states.layers,
        tested=len(parts[2]),
        accuracy=tuple(found["accuracy"]),
        control=tuple(found["control"]) if "control" in found else None,
        selectivity=tuple(found["selectivity"]) if "control" in found else None,
        majority=found["majority"][0],
        mix=mix.weights[0],
        mixed=found["mixed"][0],
    )


def _count_words(context: AnalysisContext) -> int:
    """Returns the number of words whose hidden states fit in memory."""
    layers = list_layers(context.model)
    width = context.model.get_layer(layers[-1]).output.shape[-1]
    return min(_MOST_WORDS, _MOST_BYTES // (4 * width * len(layers)))


def label_words(
    task: ProbingTask, states: LayerStates, seed: int
) -> tuple[ProbeExamples, np.ndarray]:
    """Adds labels to hidden states; words without a label are dropped.

    Args:
        task: The task.
        states: The hidden states of its words.
        seed: Seed of the control task.

    Returns:
        The examples, whose labels are those of the task and, if it has one, of the
        control task; and the number of each example's text, int64 (N,).
    """
    cells = list(zip(states.texts.tolist(), states.words.tolist(), strict=True))
    names = [task.labels[text][word] for text, word in cells]
    kept = np.flatnonzero([name != UNSPECIFIED for name in names])
    numbers = {name: number for number, name in enumerate(task.classes)}
    labels = [np.array([numbers[names[index]] for index in kept], np.int32)]
    if task.types is not None:
        types = [task.types[text][word] for text, word in cells]
        types = [types[index] for index in kept]
        labels.append(draw_control_labels(types, labels[0], seed))
    examples = ProbeExamples(states.states[:, kept], np.stack(labels))
    return examples, states.texts[kept]


def divide_texts(texts: np.ndarray, number: int) -> tuple[np.ndarray, ...]:
    """Divides examples for training, development and test; each text is in one of them.

    Args:
        texts: int (N,). The number of each example's text, in random order.
        number: Number of texts.

    Example:
    >>> [part.tolist() for part in divide_texts(np.array([0, 0, 5, 7, 9]), 10)]
    [[0, 1, 2], [3], [4]]
    """
    ends = number * _TRAINING, number * (_TRAINING + _DEVELOPMENT)
    part = np.digitize(texts, np.round(ends))
    return tuple(np.flatnonzero(part == index) for index in range(3))


def measure_accuracies(
    correct: Mapping[str, np.ndarray], texts: np.ndarray, seed: int
) -> dict[str, list[Interval]]:
    """Computes accuracies, and their differences `selectivity`, with intervals.

    Args:
        correct: bool (S, N) by measure: for each of `S` probes the examples that it
            predicts. If there is `control`, `accuracy` less `control` is measured too.
        texts: int (N,). The examples' texts, which are resampled.
        seed: Seed of the resampling.

    Example:
    >>> task, control = np.array([[1, 1, 0, 1]]), np.array([[0, 0, 0, 1]])
    >>> found = measure_accuracies(
    ...     {"accuracy": task, "control": control}, np.array([0, 0, 1, 1]), seed=1
    ... )
    >>> {name: layers[0].score for name, layers in found.items()}
    {'accuracy': 0.75, 'control': 0.25, 'selectivity': 0.5}
    """
    hits = np.concatenate([*correct.values(), np.ones((1, len(texts)))])
    _, index = np.unique(texts, return_inverse=True)
    sums = np.zeros((index.max() + 1, len(hits)))
    np.add.at(sums, index, hits.T)
    columns, first = {}, 0
    for name, value in correct.items():
        columns[name] = slice(first, first + len(value))
        first += len(value)

    def score(sums: np.ndarray) -> dict[str, np.ndarray]:
        shares = sums[..., :-1] / sums[..., -1:]
        parts = {name: shares[..., column] for name, column in columns.items()}
        if "control" in parts:
            parts["selectivity"] = parts["accuracy"] - parts["control"]
        return {
            f"{name} {number}": part[..., number]
            for name, part in parts.items()
            for number in range(part.shape[-1])
        }

    found: dict[str, list[Interval]] = {}
    for key, interval in intervals(sums, score, seed).items():
        found.setdefault(key.split()[0], []).append(interval)
    return found
