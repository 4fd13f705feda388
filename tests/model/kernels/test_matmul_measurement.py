"""The measurement of bfloat16 products is made once, and its child may die or hang."""

import json
import time
from pathlib import Path

import pytest

from tests.model.conftest import tensorflow_only
from transbeam.model.kernels import matmul_measurement as module
from transbeam.model.kernels.matmul_measurement import (
    MeasurementError,
    cache_folder,
    identify_machine,
    measure_matmul,
    run_program,
)
from transbeam.model.kernels.matmul_program import build_layer

pytestmark = tensorflow_only
TIMES = {"float32": 0.25, "bfloat16": 0.125}
WITH_TIMES = f"print({json.dumps(json.dumps(TIMES))})"
WITHOUT_PROCESS = Path("no such program.py")


@pytest.fixture
def program(tmp_path):
    """Writes a program in place of the one that measures."""

    def write(text: str) -> Path:
        file = tmp_path / "program.py"
        file.write_text(text)
        return file

    return write


def kept(folder: Path) -> Path:
    [file] = folder.glob("matmul-*.json")
    return file


def test_times_are_read_from_the_child(program):
    assert run_program(program(WITH_TIMES)) == TIMES


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import os; os.kill(os.getpid(), 4)", "was killed by SIGILL"),
        ("import os; os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
        ("import os; os.kill(os.getpid(), 40)", "was killed by signal 40"),
        ("raise ImportError('no tensorflow')", "failed: ImportError: no tensorflow"),
        ("raise SystemExit(3)", "failed: $"),
        ("", "printed no times"),
        ("print('0.5')", "printed no times"),
        ("print('{}')", "printed no times"),
        ('print(\'{"float32": 0.1, "bfloat16": NaN}\')', "printed no times"),
        ('print(\'{"float32": 0.1, "bfloat16": -1.0}\')', "printed no times"),
        ('print(\'{"float32": 0.1, "bfloat16": "0.1"}\')', "printed no times"),
        ("import sys; sys.stdout.buffer.write(b'\\xff')", "printed no times"),
    ],
)
def test_a_child_that_fails_is_told_and_not_kept(program, tmp_path, text, told):
    cache = tmp_path / "cache"
    with pytest.raises(MeasurementError, match=told):
        measure_matmul(cache, program(text))
    assert not cache.exists()
    assert measure_matmul(cache, program(WITH_TIMES)) == TIMES


def test_a_child_that_hangs_is_given_up(program, tmp_path):
    began = time.monotonic()
    text = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    with pytest.raises(MeasurementError, match=r"did not end within 0\.2 s"):
        measure_matmul(tmp_path / "cache", program(text), time_limit=0.2)
    assert time.monotonic() - began < 10


def test_a_child_outlives_no_parent_for_long(program):
    alarm = run_program(
        program(
            "import json, sys\n"
            "print(json.dumps(dict(float32=float(sys.argv[1]), bfloat16=1.0)))"
        ),
        time_limit=20,
    )
    assert alarm["float32"] == 30.0
    # The program's own alarm ends it while it has not come to a product.
    with pytest.raises(MeasurementError, match="was killed by SIGALRM"):
        run_program(
            program(
                "import sys\n"
                f"sys.path.insert(0, {str(module.PROGRAM.parent)!r})\n"
                "import matmul_program, time\n"
                "matmul_program.build_layer = lambda dtype: time.sleep(60)\n"
                "sys.argv[1] = '1'\n"
                "matmul_program.main()"
            ),
            time_limit=30,
        )


def test_measured_once(program, tmp_path):
    assert measure_matmul(tmp_path, program(WITH_TIMES)) == TIMES
    assert measure_matmul(tmp_path, WITHOUT_PROCESS) == TIMES


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: json.dumps({**json.loads(text), "seconds": {"float32": 1.0}}),
        lambda text: json.dumps({**json.loads(text), "seconds": None}),
        lambda text: text.replace("0.125", "0"),
        lambda text: text.replace('"tensorflow": "', '"tensorflow": "0.'),
        lambda text: text.replace('"host": "', '"host": "other-'),
    ],
    ids=["empty", "cut", "list", "half", "null", "zero", "version", "host"],
)
def test_a_cache_that_is_damaged_or_of_another_machine(program, tmp_path, spoil):
    measure_matmul(tmp_path, program(WITH_TIMES))
    file = kept(tmp_path)
    whole = file.read_text()
    file.write_text(spoil(whole))
    assert file.read_text() != whole
    with pytest.raises(MeasurementError):
        measure_matmul(tmp_path, WITHOUT_PROCESS)
    assert measure_matmul(tmp_path, program(WITH_TIMES)) == TIMES
    assert kept(tmp_path).read_text() == whole


@pytest.mark.parametrize("part", ["host", "processor", "tensorflow", "environment"])
def test_another_machine_measures_anew(program, tmp_path, monkeypatch, part):
    measure_matmul(tmp_path, program(WITH_TIMES))
    other = {**identify_machine(), part: "other"}
    monkeypatch.setattr(module, "identify_machine", lambda: other)
    with pytest.raises(MeasurementError):
        measure_matmul(tmp_path, WITHOUT_PROCESS)


def test_the_instructions_that_onednn_may_use_belong_to_the_machine(monkeypatch):
    before = identify_machine()
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert identify_machine() != before
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA")
    assert identify_machine() == before


def test_a_talkative_onednn_measures_the_same(program, monkeypatch):
    before = identify_machine()
    monkeypatch.setenv("ONEDNN_VERBOSE", "1")
    assert identify_machine() == before
    talks = "import os; 'ONEDNN_VERBOSE' in os.environ and print('onednn_verbose,v1')\n"
    assert run_program(program(talks + WITH_TIMES)) == TIMES


def test_a_cache_that_cannot_be_written_costs_only_time(program, tmp_path):
    in_the_way = tmp_path / "cache"
    in_the_way.write_text("a file")
    for _ in range(2):
        assert measure_matmul(in_the_way, program(WITH_TIMES)) == TIMES


def test_where_the_cache_is(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/me")
    assert cache_folder() == Path("/var/cache/me/transbeam")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/home/me/.cache/transbeam")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_three_products_are_timed_in_the_dtype(dtype):
    layer = build_layer(dtype, tokens=4, width=3, units=2)
    products = [
        op.outputs[0].dtype
        for op in layer.get_concrete_function().graph.get_operations()
        if op.type == "MatMul"
    ]
    assert products == [dtype] * 3
    to_inputs, to_kernel = layer()
    assert (to_inputs.dtype, to_kernel.dtype) == ("bfloat16", "float32")


@pytest.mark.thorough(instead="test_three_products_are_timed_in_the_dtype")
def test_this_machine_is_measured():
    assert all(0.0 < seconds < 10.0 for seconds in run_program().values())
