"""Analyses while training: right numbers, and a training that is left as it was."""

import json

import numpy as np
import pytest
from keras import ops

from tests.trainer.conftest import trained_run
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.yaml_config import load_run
from transbeam.model.inspect.attention_maps import attention_probabilities
from transbeam.pipeline.records.manifest import read_manifest
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer
from transbeam.trainer.analysis.base.analyzed_model import load_analyzed_model
from transbeam.trainer.analysis.training_analysis import (
    ANALYSIS,
    TrainingAnalysis,
    entropy_points,
    participation_ratio,
    read_training_analysis,
)
from transbeam.trainer.base.warm_start import find_origin

LAYER = "encoder_layer_0/self_attention"


def analysis(run, folder, step=0, *overrides):
    manifest = read_manifest(run / "data")
    special = load_tokenizer(run / "data/tokenizer").special
    config = load_run(run, overrides)
    return TrainingAnalysis(config, manifest, special, folder, step)


def test_means_of_the_maps(small_trained, tmp_path):
    """The logged numbers are means over the maps of all real tokens."""
    trained = load_analyzed_model(small_trained, None).model
    analyze = analysis(small_trained, tmp_path)
    scalars = analyze(7, trained)
    (row,) = read_training_analysis(tmp_path)
    assert row["step"] == 7

    inputs = analyze.batch.inputs
    maps = np.asarray(attention_probabilities(trained, inputs)[LAYER], "float64")
    real = inputs["padding_mask"] == 1
    weights = maps.transpose(0, 2, 1, 3)[real]  # (tokens, heads, keys)
    entropy = -np.sum(weights * np.log(np.maximum(weights, 1e-30)), -1).mean(0)
    found = row["layers"][LAYER]
    np.testing.assert_allclose(found["entropy"], entropy, atol=2e-4)
    np.testing.assert_allclose(found["confidence"], weights.max(-1).mean(0), atol=2e-4)
    assert scalars[f"entropy/{LAYER}"] == pytest.approx(entropy.mean(), abs=2e-4)


def test_ratio_of_the_last_block(small_trained, tmp_path):
    trained = load_analyzed_model(small_trained, None).model
    analyze = analysis(small_trained, tmp_path)
    ratio = analyze(1, trained)["participation_ratio/encoder_layer_0"]
    assert 1 < ratio < 16


@pytest.mark.parametrize(
    ("variances", "expected"), [((9, 1), 1.2195), ((1, 1, 1), 3.0), ((5, 0), 1.0)]
)
def test_participation_ratio(variances, expected):
    """By hand: variances 9 and 1 give (9 + 1)^2 / (81 + 1)."""
    axes = np.diag(np.sqrt(variances))
    vectors = np.concatenate([axes, -axes, 100 + 0 * axes])[np.newaxis] + 7
    real = np.array([[1] * 2 * len(axes) + [0] * len(axes)])
    found = float(ops.convert_to_numpy(participation_ratio(vectors, real)))
    assert found == pytest.approx(expected, abs=1e-4)


def test_idle_heads(small_trained, tmp_path):
    """A model whose heads attend only to the first token has idle heads alone."""
    trained = load_analyzed_model(small_trained, None).model
    analyze = analysis(small_trained, tmp_path)
    assert analyze(1, trained)["idle_heads"] == 0
    layer = trained.get_layer("encoder_layer_0").self_attention
    embedding = trained.get_layer("position_embedding")
    # The first position alone has a large first feature, and only keys read it.
    embedding.embeddings.assign(np.eye(32, 16) * [50.0] + 0 * embedding.embeddings)
    kernel = np.zeros((16, 16), "float32")
    kernel[0] = 40.0
    layer.key.kernel.assign(kernel)
    layer.query.kernel.assign(np.zeros((16, 16), "float32"))
    layer.query.bias.assign(np.ones(16, "float32"))
    assert analyze(2, trained)["idle_heads"] == 2


def test_a_resumed_log_has_no_later_lines(small_trained, tmp_path):
    trained = load_analyzed_model(small_trained, None).model
    analyze = analysis(small_trained, tmp_path)
    for step in (2, 4, 6):
        analyze(step, trained)
    with open(tmp_path / ANALYSIS, "a") as stream:
        stream.write('{"step": 8')  # a crash
    analysis(small_trained, tmp_path, 4)
    assert [row["step"] for row in read_training_analysis(tmp_path)] == [2, 4]
    lines = (tmp_path / ANALYSIS).read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [2, 4]


def test_points_of_curves():
    rows = [
        {"step": step, "layers": {"a": {"entropy": [step, step + 2]}}}
        for step in (1, 2)
    ]
    assert entropy_points(rows) == {"a": [(1, 2.0), (2, 3.0)]}
    assert entropy_points([]) == {}


def test_attention_without_probabilities(small_trained, tmp_path):
    kernel = "model.attention={kind: kernel, num_heads: 2}"
    with pytest.raises(ConfigError, match="none of its layers has attention"):
        analysis(small_trained, tmp_path, 0, kernel)


def test_adapters(small_trained):
    overrides = [
        "training.analyze_every=2",
        "training.adaptation={kind: lora}",
        f"training.init_from={small_trained}",
    ]
    with pytest.raises(ConfigError, match="analyze_every=2: with adaptation"):
        load_run(small_trained, overrides)


def test_a_training_is_left_as_it_was(small_trained):
    """An analyzed training has the same weights, to the bit, and a chart."""
    run = trained_run("analyzed", "training.analyze_every=2")
    log = read_training_analysis(run / "training")
    assert [row["step"] for row in log] == [2, 4]
    assert "Attention entropy" in (run / "training/report.html").read_text("utf-8")
    expected, found = (find_origin(of).values() for of in (small_trained, run))
    for path, value in expected.items():
        np.testing.assert_array_equal(found[path], value)
