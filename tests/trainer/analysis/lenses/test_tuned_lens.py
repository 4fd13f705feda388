"""The tuned lens begins as the logit lens, comes closer, and ends on time."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.model.conftest import VOCABULARY_SIZE, small_config
from tests.model.inspect.decoders import LAYERS, WIDTH, make_decoder
from tests.trainer.analysis.numbered_texts import make_context
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.model.build import build_model
from transbeam.model.inspect.logit_lens import LensModel, apply_logit_lens
from transbeam.trainer.analysis.lenses.lens_texts import make_lens_batches
from transbeam.trainer.analysis.lenses.tuned_lens import TunedLens, train_tuned_lens

# Tracing takes longer than the steps of a small model.
pytestmark = pytest.mark.usefixtures("no_graphs")


@pytest.fixture
def lens(randomise) -> LensModel:
    return LensModel(make_decoder(randomise))


@pytest.fixture
def batches(lens, randomise):
    context = make_context(make_decoder(randomise), texts=12)
    return make_lens_batches(context, context.texts, tokens=64)


def test_at_first_it_is_the_logit_lens(lens, batches):
    quality = TunedLens(lens).measure(batches)
    divergences, same = [], []
    for batch in batches:
        found = apply_logit_lens(lens, batch.inputs)
        flat = (LAYERS + 1, -1)
        divergences.append(found.divergences.reshape(flat)[:, batch.cells])
        first = found.top_ids[..., 0].reshape(flat)[:, batch.cells]
        same.append(first == first[-1])
    expected = np.concatenate(divergences, axis=1)
    np.testing.assert_allclose(quality.divergences, expected.mean(1), rtol=1e-4)
    agreements = np.concatenate(same, axis=1).mean(1)
    np.testing.assert_allclose(quality.agreements, agreements)
    assert quality.divergences[-1] == 0
    assert quality.agreements[-1] == 1
    assert quality.count == expected.shape[1]


def test_a_step_by_hand(lens, batches):
    """The gradient in closed form, against differences of the measured divergence."""
    tuned, batch = TunedLens(lens), batches[0]
    before = tuned.measure([batch]).divergences
    tuned.update(batch, rate=1e-2)
    # The first step with Nesterov's momentum is 1.9 gradients, times 0.1 and the rate.
    moved = np.array(
        [
            np.concatenate([k.ravel(), b])
            for k, b in zip(tuned.kernels.numpy(), tuned.biases.numpy(), strict=True)
        ]
    )
    norms = np.linalg.norm(moved, axis=1) / (1.9 * 0.1 * 1e-2)
    assert (norms <= 1 + 1e-5).all()  # clipped
    after = tuned.measure([batch]).divergences
    # Along the gradient the divergence falls by the step times the gradient's length.
    assert (after[:-1] < before[:-1]).all()
    bias, shift = tuned.biases[0].numpy(), 1e-3
    tuned.reset([0, 1])
    direction = bias / np.linalg.norm(bias)
    slopes = []
    for sign in (1, -1):
        tuned.biases[0].assign(sign * shift * direction)
        slopes.append(tuned.measure([batch]).divergences[0])
    slope = (slopes[0] - slopes[1]) / (2 * shift)
    assert slope < 0
    # With another direction of the same length the divergence falls less.
    other = np.random.default_rng(0).normal(size=WIDTH)
    other -= direction * (other @ direction)
    other /= np.linalg.norm(other)
    values = []
    for sign in (1, -1):
        tuned.biases[0].assign(sign * shift * other)
        values.append(tuned.measure([batch]).divergences[0])
    assert abs(values[0] - values[1]) / (2 * shift) < 0.05 * abs(slope)


def test_training_comes_closer_and_leaves_the_model(lens, batches):
    held_out, training = batches[:1], batches[1:] or batches
    before = [ops.convert_to_numpy(w) for w in lens._model.weights]
    plain = TunedLens(lens).measure(held_out).divergences
    steps = []
    tuned, taken = train_tuned_lens(
        lens, training, steps=25, seconds=60, seed=0, advance=steps.append
    )
    assert taken == 25
    assert steps == list(range(1, 26))
    better = tuned.measure(training).divergences
    reference = TunedLens(lens).measure(training).divergences
    assert (better[:-1] < 0.9 * reference[:-1]).all()
    assert better[-1] == 0
    for weight, value in zip(lens._model.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)
    tuned.reset([0, 1])
    np.testing.assert_allclose(tuned.measure(held_out).divergences, plain, rtol=1e-5)


def test_translators_are_used_by_the_lens(lens, batches):
    tuned, _ = train_tuned_lens(lens, batches, steps=3, seconds=60, seed=0)
    batch = batches[0]
    found = apply_logit_lens(lens, batch.inputs, translate=tuned.translate)
    divergences = found.divergences.reshape(LAYERS + 1, -1)[:, batch.cells].mean(1)
    expected = tuned.measure([batch]).divergences
    np.testing.assert_allclose(divergences, expected, rtol=1e-4, atol=1e-6)


def test_the_time_is_limited(lens, batches):
    _, taken = train_tuned_lens(lens, batches, steps=10**6, seconds=0.5, seed=0)
    assert 1 <= taken < 10**6


def test_the_same_seed_the_same_lens(lens, batches):
    runs = [
        train_tuned_lens(lens, batches, steps=4, seconds=1e9, seed=3)[0].weights()
        for _ in range(2)
    ]
    for path, value in runs[0].items():
        np.testing.assert_allclose(runs[1][path], value, atol=1e-6)
    assert list(runs[0])[:2] == [
        "embeddings/translator/kernel",
        "embeddings/translator/bias",
    ]


def test_masked_tokens(randomise):
    config = small_config(num_segments=0)
    model = randomise(build_model(config, MaskedConfig(), VOCABULARY_SIZE))
    context = make_context(model)
    batches = make_lens_batches(context, context.texts, tokens=64)
    lens = LensModel(model)
    plain = TunedLens(lens).measure(batches)
    tuned, _ = train_tuned_lens(lens, batches, steps=8, seconds=60, seed=0)
    assert plain.count == len(context.texts)  # one masked token in each
    assert (tuned.measure(batches).divergences[:-1] < plain.divergences[:-1]).all()


def test_in_a_graph(lens, batches):
    """The traced functions compute what the others do."""
    tf.config.run_functions_eagerly(False)
    graph, eager = TunedLens(lens), TunedLens(lens)
    graph.update(batches[0], rate=0.1)
    found = graph.measure(batches)
    tf.config.run_functions_eagerly(True)
    eager.update(batches[0], rate=0.1)
    expected = eager.measure(batches)
    np.testing.assert_allclose(found.divergences, expected.divergences, rtol=1e-4)
    np.testing.assert_allclose(graph.kernels, eager.kernels, atol=1e-5)
