"""Exports in bfloat16: what is rounded, and how far off the answers may be."""

from dataclasses import replace

import numpy as np
import pytest

from tests.serving.conftest import TINY, invocation_of, make_run
from tests.serving.session import asking
from tests.serving.untrained import write_signatures
from transbeam.serving.base.golden_requests import read_golden
from transbeam.serving.base.trained_run import load_trained
from transbeam.serving.export.export_dtype import in_dtype, with_tolerance
from transbeam.serving.export.stored_requests import make_golden_requests
from transbeam.serving.export_stage import export
from transbeam.serving.parity.export_parity import require_passed
from transbeam.serving.parity.masked import MaskedParityChecker
from transbeam.serving.signatures.task_factory import make_signature_task

# Weights at random make more of what is rounded than those of a training.
TOLERANCE = replace(TINY.export.tolerance, bfloat16=0.2)
EXPORT = replace(TINY.export, dtype="bfloat16", tflite=(), tolerance=TOLERANCE)
HALF = replace(TINY, export=EXPORT)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("half") / "run", HALF)


@pytest.fixture(scope="module")
def exact(run):
    return load_trained(run)


def test_weights_are_those_of_the_float32_model_rounded(exact):
    rounded = in_dtype(exact).model
    for weight, before in zip(rounded.weights, exact.model.weights, strict=True):
        wide = np.asarray(before)
        if weight.path == "head_bias/bias":  # the logits are in float32
            assert (np.asarray(weight) == wide).all()
            continue
        assert weight.dtype == "bfloat16", weight.path
        # 8 bits of significand: half a unit in the last place is 2⁻⁸ of the number.
        off = np.abs(np.asarray(weight, np.float32) - wide)
        assert (off <= 2.0**-8 * np.abs(wide)).all(), weight.path


def test_answers_are_near_those_in_float32_and_not_the_same(exact):
    ids = np.arange(5, 17, dtype=np.int32).reshape(2, 6)
    places = np.array([[1, 4], [0, 2]], np.int32)
    inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    inputs["masked_positions"] = places
    wide = np.asarray(exact.model(inputs)["logits"])
    told = in_dtype(exact).model(inputs)["logits"]
    off = np.abs(np.asarray(told, np.float32) - wide).max() / np.abs(wide).max()
    assert 0.0 < off < 2.0**-5


def test_the_gate_is_as_wide_as_the_configuration_says(exact):
    tolerance = with_tolerance(exact).config.export.tolerance
    assert tolerance.saved_model == 0.2
    assert exact.config.export.tolerance.saved_model < 0.1


def test_in_float32_nothing_changes(exact):
    export = replace(exact.config.export, dtype="float32")
    trained = replace(exact, config=replace(exact.config, export=export))
    assert in_dtype(trained) is trained
    assert with_tolerance(trained) is trained


def test_what_is_written_is_half_as_large_and_passes_only_a_wider_gate(
    run, exact, exported, tmp_path
):
    rounded, wider = in_dtype(exact), with_tolerance(exact)
    judge = MaskedParityChecker.from_run(wider, run)
    rows = judge.saved_model_rows("rounded", asking(rounded))
    require_passed(rows)
    judge.tolerance = exact.config.export.tolerance
    rows = judge.saved_model_rows("rounded", asking(rounded))
    assert [row.passed for row in rows] == [True, False, True, False]
    write_signatures(rounded, tmp_path / "1", "fill_mask")
    weights = "variables/variables.data-00000-of-00001"
    half = (tmp_path / "1" / weights).stat().st_size
    assert half < 0.55 * (exported.saved_model / weights).stat().st_size
    (_, numbers) = make_golden_requests(make_signature_task(rounded), "bfloat16")
    assert numbers.outputs["scores"].dtype == "bfloat16"


@pytest.mark.thorough(
    instead="test_what_is_written_is_half_as_large_and_passes_only_a_wider_gate"
)
def test_an_export_passes_its_gate_and_is_half_as_large(run, exported):
    result = export(invocation_of(run, HALF))
    rows = result["parity"]
    assert rows
    assert all(row["passed"] for row in rows)
    folder = run / "export/saved_model/1"
    weights = "variables/variables.data-00000-of-00001"
    half = (folder / weights).stat().st_size
    assert half < 0.55 * (exported.saved_model / weights).stat().st_size
    assert any(read_golden(folder))
