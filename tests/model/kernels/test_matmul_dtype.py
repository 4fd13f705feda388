"""The dtype of bfloat16 products follows the measured times, unless it is forced."""

import keras
import pytest
import tensorflow as tf

from tests.model.conftest import tensorflow_only
from transbeam.configs.base.errors import ConfigError
from transbeam.model.kernels import matmul_dtype as module
from transbeam.model.kernels.matmul_dtype import (
    VARIABLE,
    choose_matmul_dtype,
    faster_dtype,
    matmul_dtype,
    set_matmul_dtype,
)
from transbeam.model.kernels.matmul_measurement import MeasurementError

pytestmark = tensorflow_only


@pytest.fixture(autouse=True)
def not_forced(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(module, "measure_matmul", never)
    module._chosen.cache_clear()
    yield
    module._chosen.cache_clear()
    set_matmul_dtype(None)


def never():
    raise AssertionError("measured")


def fails():
    raise MeasurementError("was killed by SIGILL")


@pytest.mark.parametrize(
    ("narrow", "wide", "dtype"),
    [
        (1.0, 2.0, "bfloat16"),
        (2.0, 1.0, "float32"),
        (1.0, 1.0, "float32"),
        (1.0, 1.09, "float32"),
        (1.0, 1.11, "bfloat16"),
        (2e-9, 3e-9, "bfloat16"),
    ],
)
def test_bfloat16_must_gain_a_tenth(monkeypatch, narrow, wide, dtype):
    seconds = {"float32": wide, "bfloat16": narrow}
    monkeypatch.setattr(module, "measure_matmul", lambda: seconds)
    choice = choose_matmul_dtype()
    assert faster_dtype(seconds) == choice.dtype == matmul_dtype() == dtype
    assert not choice.failed
    assert choice.seconds == seconds


def test_a_measurement_that_fails_is_told_and_widens(monkeypatch):
    monkeypatch.setattr(module, "measure_matmul", fails)
    choice = choose_matmul_dtype()
    assert (choice.dtype, choice.failed) == ("float32", True)
    assert "multiplied in float32" in str(choice)
    assert "was killed by SIGILL" in str(choice)
    with pytest.warns(UserWarning, match="was killed by SIGILL"):
        assert matmul_dtype() == "float32"
    assert matmul_dtype() == "float32"  # not measured, and not told, a second time


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_environment_forces_it(monkeypatch, dtype):
    monkeypatch.setenv(VARIABLE, dtype)
    choice = choose_matmul_dtype()
    assert choice.dtype == matmul_dtype() == dtype
    assert VARIABLE in choice.reason


def test_the_environment_says_nonsense(monkeypatch):
    monkeypatch.setenv(VARIABLE, "half")
    with pytest.raises(ConfigError, match=f"{VARIABLE}=half: expected float32 or"):
        choose_matmul_dtype()


def test_what_is_set_counts_until_it_is_taken_back(monkeypatch):
    monkeypatch.setenv(VARIABLE, "float32")
    set_matmul_dtype("bfloat16")
    assert matmul_dtype() == "bfloat16"
    set_matmul_dtype(None)
    assert matmul_dtype() == "float32"


def test_nothing_is_measured_or_widened_on_a_gpu_or_another_backend(monkeypatch):
    set_matmul_dtype("float32")
    with monkeypatch.context() as patched:
        patched.setattr(tf.config, "list_physical_devices", lambda kind: [kind])
        assert matmul_dtype() == choose_matmul_dtype().dtype == "bfloat16"
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    assert matmul_dtype() == choose_matmul_dtype().dtype == "bfloat16"
