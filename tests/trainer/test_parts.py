"""Schedule, optimizer, loss and evaluation, against numbers worked out by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from configs.language_modelling import MaskedConfig
from configs.model import EncoderConfig
from configs.training import AdamWConfig, CosineSchedule
from model.build import build_model
from trainer.evaluate import target_counts, unigram_entropy
from trainer.losses import masked_cross_entropy
from trainer.optimizers import build_optimizer, is_decayed
from trainer.schedules import WarmupCosine, build_schedule


def test_schedule_by_hand() -> None:
    schedule = WarmupCosine(2.0, warmup_steps=4, steps=12, final_fraction=0.1)
    rates = [float(schedule(step)) for step in (0, 3, 4, 8, 12, 20)]
    # Half way down the cosine: 0.1 + 0.9 / 2 of the peak.
    np.testing.assert_allclose(rates, [0.5, 2.0, 2.0, 1.1, 0.2, 0.2], rtol=1e-6)


def test_schedule_without_warmup_starts_at_the_peak() -> None:
    schedule = build_schedule(CosineSchedule(peak=0.5, warmup_steps=0), steps=10)
    assert float(schedule(0)) == pytest.approx(0.5)
    restored = WarmupCosine.from_config(schedule.get_config())
    assert float(restored(7)) == float(schedule(7))


def test_only_matrices_decay() -> None:
    model = build_model(
        EncoderConfig(num_layers=1, hidden_dim=8, num_segments=2),
        MaskedConfig(),
        vocabulary_size=10,
    )
    decayed = {v.path for v in model.trainable_variables if is_decayed(v)}
    assert len(decayed) == 7
    assert all(path.endswith("kernel") for path in decayed)


def test_decay_and_clipping_by_hand() -> None:
    kernel = keras.Variable([[10.0]], name="kernel")
    bias = keras.Variable([10.0], name="bias")
    config = AdamWConfig(weight_decay=0.1, clip_norm=1.0, epsilon=1e-12)
    optimizer = build_optimizer(config, WarmupCosine(0.5, 0, 100), [kernel, bias])
    optimizer.apply([tf.constant([[3.0]]), tf.constant([4.0])], [kernel, bias])
    # The first step of Adam has the size of the learning rate, whatever the gradient.
    assert float(bias.numpy()[0]) == pytest.approx(10 - 0.5, rel=1e-5)
    assert float(kernel.numpy()[0, 0]) == pytest.approx(
        10 - 10 * 0.5 * 0.1 - 0.5, rel=1e-5
    )
    # Clipped to norm 1, the gradient is (0.6, 0.8); the mean holds a tenth of it.
    means = [v.numpy().item() for v in optimizer.variables if "moment" in v.path]
    assert sorted(means) == pytest.approx([0.06, 0.08], rel=1e-5)


def test_loss_is_a_mean_over_real_targets() -> None:
    random = np.random.default_rng(0)
    logits = random.normal(size=(2, 3, 5)).astype("float32")
    targets = random.integers(0, 5, (2, 3))
    weights = np.array([[1, 1, 1], [1, 0, 0]], "float32")
    log_probabilities = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    picked = np.take_along_axis(log_probabilities, targets[..., None], -1)[..., 0]
    expected = -(picked * weights).sum() / 4
    assert float(masked_cross_entropy()(targets, logits, weights)) == pytest.approx(
        expected, rel=1e-5
    )


def test_unigram_entropy_of_the_targets() -> None:
    batches = tf.data.Dataset.from_tensor_slices(
        (
            {"token_ids": [[0], [0]]},
            {"logits": [[7, 7, 0], [2, 0, 0]]},
            {"logits": [[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]]},
        )
    ).batch(1)
    counts = target_counts(batches)
    np.testing.assert_array_equal(counts[[2, 7]], [1, 2])
    assert counts.sum() == 3
    expected = -(2 / 3 * np.log(2 / 3) + 1 / 3 * np.log(1 / 3))
    assert unigram_entropy(counts) == pytest.approx(expected)
