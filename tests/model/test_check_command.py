"""`transbeam check --machine` says how this machine multiplies bfloat16 matrices."""

import json

import pytest

from tests.model.conftest import tensorflow_only
from transbeam.model.__main__ import main
from transbeam.model.kernels import matmul_dtype as kernels
from transbeam.model.kernels.matmul_dtype import VARIABLE
from transbeam.model.kernels.matmul_measurement import MeasurementError

pytestmark = tensorflow_only
CHECK = ["check", "configs/demo.yaml"]
SECONDS = {"float32": 0.004, "bfloat16": 0.0025}


@pytest.fixture
def measured(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(kernels, "measure_matmul", lambda: SECONDS)


def test_measured_times_are_shown(measured, capsys):
    assert main([*CHECK, "--machine"]) == 0
    assert (
        "  machine    bfloat16 matrices are multiplied in bfloat16: one product and "
        "its gradients take 2.50 ms in bfloat16 and 4.00 ms in float32 "
        "on this machine\n"
    ) in capsys.readouterr().out


def test_measured_times_in_json(measured, capsys):
    assert main([*CHECK, "--machine", "--json"]) == 0
    matmul = json.loads(capsys.readouterr().out)["machine"]["matmul"]
    assert matmul["dtype"] == "bfloat16"
    assert matmul["seconds"] == SECONDS
    assert matmul["failed"] is False


def test_a_measurement_that_fails_is_a_warning(measured, monkeypatch, capsys):
    def fails():
        raise MeasurementError("was killed by SIGILL")

    monkeypatch.setattr(kernels, "measure_matmul", fails)
    assert main([*CHECK, "--machine"]) == 0
    out, err = capsys.readouterr()
    assert "  machine " not in out
    assert "warning: bfloat16 matrices are multiplied in float32: " in err
    assert "was killed by SIGILL" in err


def test_unasked_it_says_nothing_of_the_machine(monkeypatch, capsys):
    monkeypatch.setattr(
        "transbeam.model.__main__._matmul_choice", lambda: pytest.fail("asked")
    )
    assert main([*CHECK, "--json"]) == 0
    assert "machine" not in json.loads(capsys.readouterr().out)
