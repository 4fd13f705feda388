"""One rounding of a model's weights goes into each of its files in 4 bits."""

from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest

from tests.serving.phone.quantization_error import weights_in_4_bits
from tests.serving.phone.sample_models import model_of, wordpiece
from tests.serving.record_files import write_records
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.cli.console import Console
from transbeam.serving.phone.conversion.text_input_models import write_text_models
from transbeam.serving.phone.conversion.tflite_converter import (
    rounded_weights,
    write_tflite,
)
from transbeam.serving.phone.mediapipe_tasks.mediapipe_models import write_mediapipe
from transbeam.serving.phone.quantization.int4_weights import NONE_ROUNDED

VARIANT = "dynamic_int4"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A classifier, its run's folder with some texts, and what files have in 4 bits."""
    folder = tmp_path_factory.mktemp("run")
    trained = model_of("classifier_small", wordpiece(), folder / "data/tokenizer")
    export = replace(trained.config.export, tflite=(VARIANT,), tflite_text=True)
    trained = replace(trained, config=replace(trained.config, export=export))
    chance = np.random.default_rng(0)
    ordinary = trained.tokenizer.ordinary_ids
    texts = [chance.choice(ordinary, 9).tolist() for _ in range(20)]
    records = [{"token_ids": ids, "document_ids": [1] * 9} for ids in texts]
    write_records(folder, "train", records)
    return trained, folder


@pytest.fixture(scope="module")
def rounding(run, tmp_path_factory):
    """The rounded weights, and the messages."""
    trained, folder = run
    made = tmp_path_factory.mktemp("made") / "not there yet"
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        rounded = rounded_weights(trained, folder, made, Console())
    return SimpleNamespace(rounded=rounded, out=out.getvalue(), err=err.getvalue())


@pytest.fixture(scope="module")
def rounded(rounding):
    return rounding.rounded


@pytest.fixture(scope="module")
def plain(run, rounded, tmp_path_factory):
    """The 4-bit weights of the plain file."""
    trained, folder = run
    files = write_tflite(trained, folder, tmp_path_factory.mktemp("plain"), rounded)
    return weights_in_4_bits(files[VARIANT])


def test_the_table_of_tokens_and_each_dense_layer_are_rounded(run, rounded):
    trained, _ = run
    # Kernels of heads have three axes, and are two in the file.
    sizes = [
        int(np.prod(weight.shape))
        for weight in trained.model.weights
        if weight.name == "kernel" or weight.path.startswith("token_embedding")
    ]
    assert sorted(of.numbers.size for of in rounded.values()) == sorted(sizes)


@pytest.mark.parametrize("write", [write_text_models, write_mediapipe])
def test_every_file_has_the_same(run, rounded, plain, tmp_path, write):
    trained, folder = run
    files = write(trained, folder, tmp_path / "others", rounded)
    others = weights_in_4_bits(files[VARIANT])
    assert len(others) == len(rounded)
    assert others == plain


def test_they_are_not_those_of_nearest_steps(run, rounded, plain, tmp_path):
    trained, folder = run
    files = write_tflite(trained, folder, tmp_path / "nearest", NONE_ROUNDED)
    assert len(plain - weights_in_4_bits(files[VARIANT])) == len(rounded)


def test_without_such_a_file_nothing_is_rounded(run, tmp_path):
    """Nor read: there may be no records."""
    trained, _ = run
    export = replace(trained.config.export, tflite=("float32", "dynamic_int8"))
    trained = replace(trained, config=replace(trained.config, export=export))
    nowhere = tmp_path / "nowhere"
    assert not rounded_weights(trained, nowhere, nowhere, Console(quiet=True))
    assert not nowhere.exists()


def test_how_far_it_has_come_is_told(rounding):
    assert rounding.out == ""
    assert "asking the model: 20/20 times (100%)" in rounding.err
    number = len(rounding.rounded)
    assert f"rounding: {number}/{number} weights (100%)" in rounding.err


def test_of_too_few_texts_nothing_is_made(run, tmp_path, monkeypatch):
    trained, _ = run
    monkeypatch.setattr(
        "transbeam.serving.phone.conversion.tflite_converter.convert", lambda *_: b""
    )  # asked afterwards
    empty = tmp_path / "run"
    write_records(empty, "train", [])
    with pytest.raises(ArtifactError, match=f"has 0 to calibrate {VARIANT} on"):
        rounded_weights(trained, empty, tmp_path, Console(quiet=True))
