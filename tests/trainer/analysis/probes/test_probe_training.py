"""Probes: trained on each layer by itself, and as well as a reference."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from transbeam.trainer.analysis.probes.probe_training import (
    LayerMix,
    LayerProbes,
    ProbeExamples,
    center_layers,
    predict_labels,
    train_probes,
)

LAYERS, NUMBER, WIDTH, CLASSES = 3, 900, 6, 3


@pytest.fixture(scope="module")
def examples() -> ProbeExamples:
    """Labels that only the last layer but one encodes; random control labels."""
    generator = np.random.default_rng(0)
    states = generator.normal(size=(LAYERS, NUMBER, WIDTH)).astype(np.float32)
    labels = np.argmax(states[1, :, :CLASSES], axis=1)
    random = generator.integers(0, CLASSES, NUMBER)
    # Far from standardized, and different in each layer.
    states *= np.array([1e-3, 50.0, 1.0], np.float32)[:, None, None]
    states += 100 * np.arange(LAYERS, dtype=np.float32)[:, None, None]
    return ProbeExamples(states, np.stack([labels, random]).astype(np.int32))


@pytest.fixture(scope="module")
def parts(examples) -> list[ProbeExamples]:
    return [examples.select(part) for part in np.split(np.arange(NUMBER), [600, 700])]


@pytest.fixture(scope="module")
def accuracies(parts) -> np.ndarray:
    training, development, test = parts
    probes = LayerProbes(training, CLASSES)
    epochs = []
    number = train_probes(probes, training, development, 0, lambda: epochs.append(1))
    assert 0 < number == len(epochs)
    return (predict_labels(probes, test) == test.labels).mean(axis=-1)


def test_each_layer_has_its_own_probe(accuracies):
    """Only the layer that encodes the labels predicts them."""
    assert accuracies.shape == (LAYERS, 2)
    assert accuracies[1, 0] > 0.9
    assert accuracies[[0, 2], 0].max() < 0.55
    assert accuracies[:, 1].max() < 0.55


def test_accuracy_of_an_independent_softmax_regression(accuracies, parts):
    training, _, test = parts
    scale = training.states[1].std()
    mean = training.states[1].mean(axis=0)
    reference = LogisticRegression(C=100, max_iter=500)
    reference.fit((training.states[1] - mean) / scale, training.labels[0])
    expected = reference.score((test.states[1] - mean) / scale, test.labels[0])
    assert accuracies[1, 0] == pytest.approx(expected, abs=0.05)


def test_a_mixture_gives_its_weight_to_the_layer_that_encodes_the_labels(parts):
    training, development, test = (part.without_control for part in parts)
    mix = LayerMix(training, CLASSES)
    train_probes(mix, training, development, 0)
    assert mix.weights.shape == (1, LAYERS)
    assert mix.weights.sum() == pytest.approx(1)
    assert np.argmax(mix.weights[0]) == 1
    assert (predict_labels(mix, test)[0, 0] == test.labels[0]).mean() > 0.85


def test_logits_of_probes_are_those_of_one_probe_after_the_other(parts):
    training = parts[0]
    probes = LayerProbes(training, CLASSES)
    generator = np.random.default_rng(1)
    for variable in probes.variables:
        variable.assign(generator.normal(size=variable.numpy().shape))
    kernels, biases = (variable.numpy() for variable in probes.variables)
    states = training.states[:, :5]
    found = probes.compute_logits(states).numpy()
    for layer in range(LAYERS):
        every = training.states[layer].astype(np.float64)
        inputs = (states[layer] - every.mean(axis=0)) / every.std(axis=0)
        for index in range(2):
            expected = inputs @ kernels[layer, index] + biases[layer, index]
            np.testing.assert_allclose(found[layer, index], expected, atol=2e-3)


def test_constant_dimensions_are_no_nan():
    states = np.ones((1, 40, 2), np.float32)
    examples = ProbeExamples(states, np.zeros((1, 40), np.int32))
    probes = LayerProbes(examples, 2)
    train_probes(probes, examples, examples, 0)
    assert (predict_labels(probes, examples) == 0).all()


def test_center_of_gravity():
    weights = np.array([[1.0, 0, 0], [0, 0, 1.0], [0.2, 0.3, 0.5]])
    np.testing.assert_allclose(center_layers(weights), [0, 2, 1.3])
