"""Adapters: nothing at first, all that is trained, and gone once merged."""

import keras
import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.model.block_stacks import HIDDEN_DIM, logits, small_model, train
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.model.adaptation.freezing import count_parameters, unfreeze
from transbeam.model.adaptation.lora import (
    adapted_layers,
    enable_lora,
    load_adapters,
    merge_lora,
    save_adapters,
)


def values(model):
    return {w.path: keras.ops.convert_to_numpy(w) for w in model.weights}


def adapted(rank=3, dtype="float32", **options) -> keras.Model:
    """A model whose adapters say something."""
    model = small_model(num_heads=2, dtype=dtype)
    enable_lora(model, rank, **options)
    generator = np.random.default_rng(3)
    for layer in adapted_layers(model).values():
        shape = layer.lora_kernel_b.shape
        layer.lora_kernel_b.assign(generator.normal(0, 0.3, shape))
    return model


def test_at_first_an_adapted_model_answers_as_its_base():
    model = small_model(num_heads=2)
    base = logits(model)
    counted = enable_lora(model, rank=3)
    np.testing.assert_array_equal(logits(model), base)
    # A and B, beside query and value.
    assert counted.trainable == 2 * (HIDDEN_DIM * 3 + 3 * HIDDEN_DIM)
    assert len(model.trainable_weights) == 4


def test_only_adapters_are_adapted():
    model = small_model(num_heads=2)
    enable_lora(model, rank=3)
    before, answers = values(model), logits(model)
    train(model)
    for path, value in values(model).items():
        change = np.abs(value - before[path]).max()
        assert (change > 1e-3) == ("lora" in path), path
    assert np.abs(logits(model) - answers).max() > 0.01


@pytest.mark.parametrize(
    "options", [{}, {"alpha": 8.0, "targets": ["*/feedforward/*"]}]
)
def test_merged_equals_adapted(options):
    model, plain = adapted(**options), small_model(num_heads=2)
    answers = logits(model)
    assert np.abs(answers - logits(plain)).max() > 0.1
    merge_lora(model)
    np.testing.assert_allclose(logits(model), answers, rtol=0, atol=2e-6)
    # What is left is the plain model, in all respects.
    assert [w.path for w in model.weights] == [w.path for w in plain.weights]
    assert not adapted_layers(model)
    plain.set_weights([values(model)[w.path] for w in plain.weights])
    np.testing.assert_array_equal(logits(plain), logits(model))
    assert unfreeze(model, ["*"]).frozen == 0
    enable_lora(model, rank=2)


def test_a_merged_model_is_saved_and_loaded(tmp_path):
    model = small_model(num_heads=2)
    enable_lora(model, rank=2)
    train(model, steps=1)
    merge_lora(model)
    model.save(tmp_path / "merged.keras")
    copy = keras.saving.load_model(tmp_path / "merged.keras")
    np.testing.assert_array_equal(logits(copy), logits(model))
    model.save_weights(tmp_path / "merged.weights.h5")
    fresh = small_model(num_heads=2)
    fresh.load_weights(tmp_path / "merged.weights.h5")
    np.testing.assert_array_equal(logits(fresh), logits(model))


def test_adapters_alone_are_saved_and_put_on_a_fresh_base(tmp_path):
    path = tmp_path / "adapters.safetensors"
    model = adapted(alpha=5.0)
    save_adapters(model, path)
    numbers = count_parameters(model).trainable
    assert 4 * numbers < path.stat().st_size < 4 * numbers + 2_000

    fresh = small_model(num_heads=2)
    assert load_adapters(fresh, path) == count_parameters(model)
    np.testing.assert_array_equal(logits(fresh), logits(model))


def test_the_same_seed_gives_the_same_adapters():
    first, second, third = (small_model(num_heads=2) for _ in range(3))
    enable_lora(first, 2, seed=5)
    enable_lora(second, 2, seed=5)
    enable_lora(third, 2, seed=6)
    a, b, c = (
        [v for p, v in values(m).items() if p.endswith("lora_kernel_a")]
        for m in (first, second, third)
    )
    np.testing.assert_array_equal(a, b)
    assert all(np.abs(x - y).max() > 0.01 for x, y in zip(a, c, strict=True))
    assert np.abs(a[0] - a[1]).max() > 0.01  # each layer its own


def test_an_adapter_beside_bfloat16():
    model = adapted(dtype="mixed_bfloat16")
    answers = logits(model)
    merge_lora(model)
    # Merged, the sum is rounded to 8 bits once; beside each other, both parts are.
    np.testing.assert_allclose(logits(model), answers, rtol=0, atol=0.06)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rank": 0}, "rank=0 is not between 1 and 16"),
        ({"rank": 17}, "rank=17 is not between 1 and 16"),
        ({"rank": 2.0}, "rank=2.0 is not a whole number"),
        ({"rank": 2, "targets": ["*/querry"]}, "fits the path of no dense layer"),
    ],
)
def test_wrong_options_are_refused(options, said):
    model = small_model(num_heads=2)
    with pytest.raises(ConfigError, match=said):
        enable_lora(model, **options)
    assert count_parameters(model).frozen == 0


def test_adapters_twice_or_never_are_refused(tmp_path):
    model = small_model(num_heads=2)
    for use in (merge_lora, lambda m: save_adapters(m, tmp_path / "a")):
        with pytest.raises(ConfigError, match="no adapters: call enable_lora"):
            use(model)
    enable_lora(model, rank=2)
    with pytest.raises(ConfigError, match="has an adapter of rank 2 already"):
        enable_lora(model, rank=2)
    save_adapters(model, tmp_path / "a")
    with pytest.raises(ConfigError, match="has adapters already"):
        load_adapters(model, tmp_path / "a")


def test_adapters_of_another_model_are_refused(tmp_path):
    path = tmp_path / "a"
    two_layers = small_model(num_heads=2, num_layers=2)
    enable_lora(two_layers, rank=3)
    save_adapters(two_layers, path)
    with pytest.raises(ArtifactError, match="has an adapter for encoder_layer_1/"):
        load_adapters(small_model(num_heads=2), path)
    wider = small_model(num_heads=2, num_layers=2, head_dim=9)
    with pytest.raises(ArtifactError, match=r"shape \(16, 16\); it is \(16, 18\) here"):
        load_adapters(wider, path)
    assert count_parameters(wider).frozen == 0


def test_other_files_are_refused(tmp_path):
    model = small_model(num_heads=2)
    save_file({"a": np.ones(2)}, tmp_path / "other")
    whole = tmp_path / "whole"
    save_adapters(adapted(), whole)
    (tmp_path / "cut").write_bytes(whole.read_bytes()[:-9])
    for name, said in {
        "other": "no file of adapters",
        "cut": "cut off or damaged",
        "none": "no such file",
    }.items():
        with pytest.raises(ArtifactError, match=said):
            load_adapters(model, tmp_path / name)


def test_a_folder_that_is_not_there_is_told(tmp_path):
    model = adapted()
    path = tmp_path / "missing" / "adapters.safetensors"
    with pytest.raises(
        ArtifactError, match=r"adapters.safetensors: no folder .*missing"
    ):
        save_adapters(model, path)
    with pytest.raises(ArtifactError, match="a folder is in the way"):
        save_adapters(model, tmp_path)
