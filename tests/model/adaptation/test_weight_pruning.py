"""Zeros: how many, which, and whether they stay."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.block_stacks import logits, small_model, train
from tests.model.conftest import others_thorough
from transbeam.configs.base.errors import ConfigError
from transbeam.model.adaptation.weight_pruning import (
    keep_zeros,
    measure_sparsity,
    prune_weights,
)


def two_matrices() -> keras.Model:
    """Kernels [1, -2, 3, -4] and [10, 20, 30, 40]."""
    x = keras.Input((4,))
    small = keras.layers.Dense(1, name="small")
    large = keras.layers.Dense(1, name="large")
    model = keras.Model(x, small(x) + large(x))
    small.kernel.assign(np.array([[1.0], [-2.0], [3.0], [-4.0]]))
    large.kernel.assign(np.array([[10.0], [20.0], [30.0], [40.0]]))
    return model


def kernel(model, name):
    return keras.ops.convert_to_numpy(model.get_layer(name).kernel).ravel().tolist()


def test_each_matrix_loses_its_smallest():
    model = two_matrices()
    report = prune_weights(model, 0.5)
    assert kernel(model, "small") == [0, 0, 3, -4]
    assert kernel(model, "large") == [0, 0, 30, 40]
    assert report.by_weight == {"small/kernel": 0.5, "large/kernel": 0.5}
    assert str(report).splitlines()[-1] == " 50.00%  in total"


def test_compared_with_each_other_the_small_ones_go():
    model = two_matrices()
    report = prune_weights(model, 0.5, scope="global")
    assert kernel(model, "small") == [0, 0, 0, 0]
    assert kernel(model, "large") == [10, 20, 30, 40]
    assert (report.by_weight["small/kernel"], report.total) == (1.0, 0.5)


@settings(max_examples=25)
@given(
    shares=st.lists(st.integers(0, 7), min_size=1, max_size=3).map(sorted),
    seed=st.integers(0, 99),
)
def test_pruned_in_steps_is_pruned_at_once(shares, seed):
    values = np.random.default_rng(seed).integers(-3, 4, (4, 2)) + 0.5  # with ties
    in_steps, at_once = (
        keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]) for _ in range(2)
    )
    for model in (in_steps, at_once):
        model.layers[0].kernel.assign(values)
    for share in shares:
        report = prune_weights(in_steps, share / 8)
        assert report.total == share / 8
    prune_weights(at_once, shares[-1] / 8)
    for model in (in_steps, at_once):
        left = keras.ops.convert_to_numpy(model.layers[0].kernel)
        size = np.sort(np.abs(left).ravel())
        np.testing.assert_array_equal(
            size[shares[-1] :], np.sort(np.abs(values).ravel())[shares[-1] :]
        )


@pytest.mark.parametrize("eager", others_thorough([True, False], [True]))
def test_training_leaves_zeros_and_moves_the_rest(tmp_path, eager):
    model = small_model(num_heads=2)
    before = prune_weights(model, 0.75)
    old = {w.path: keras.ops.convert_to_numpy(w) for w in model.weights}
    train(model, eager=eager)
    assert measure_sparsity(model) == before
    for weight in model.weights:
        now = keras.ops.convert_to_numpy(weight)
        if weight.path.endswith("kernel"):
            np.testing.assert_array_equal(now == 0, old[weight.path] == 0)
        if not weight.path.endswith("key/bias"):
            assert np.abs(now - old[weight.path]).max() > 1e-3, weight.path

    # The zeros are all that a file has to keep.
    model.save(tmp_path / "sparse.keras")
    copy = keras.saving.load_model(tmp_path / "sparse.keras")
    assert keep_zeros(copy) == before
    np.testing.assert_array_equal(logits(copy), logits(model))
    train(copy)
    assert measure_sparsity(copy) == before


def test_without_the_mask_zeros_would_not_stay():
    model = small_model(num_heads=2)
    prune_weights(model, 0.75)
    for weight in model.weights:
        weight.constraint = None
    train(model)
    assert measure_sparsity(model).total < 0.1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sparsity": 1.0}, "not in \\[0, 1\\)"),
        ({"sparsity": 0.5, "scope": "layer"}, "not one of 'matrix', 'global'"),
        ({"sparsity": 0.5, "targets": ["*/kernl"]}, "fits the path of no weight"),
    ],
)
def test_wrong_is_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        prune_weights(two_matrices(), **options)
