"""Tests are chosen by what they executed; in doubt by imports; nearest first."""

from types import SimpleNamespace

import pytest

from tests.harness.reach.__main__ import in_order
from tests.harness.reach.changes import Change
from tests.harness.reach.choose import (
    CHANGED_LINES,
    CHANGED_LINES_NEAR,
    IMPORTS,
    ITSELF,
    PERHAPS,
    SAME_CODE,
    choose,
)
from tests.harness.reach.graph import ImportGraph

PATH = "pipeline/objectives/causal.py"
NEAR, FAR = "tests/pipeline/objectives/test_causal.py", "tests/e2e/test_data_job.py"


@pytest.fixture(scope="module")
def graph():
    return ImportGraph()


class Recorded:
    """Three tests, of which two executed what has changed."""

    seconds = {f"{NEAR}::test_a": 0.5, f"{FAR}::test_b": 9.0, f"{FAR}::test_c": 1.0}

    newer = ()

    def knows(self, path):
        recorded = path == PATH or path.startswith("tests/")
        return recorded and path not in self.newer

    def executed(self, change):
        return {f"{NEAR}::test_a", f"{FAR}::test_b"}, {f"{FAR}::test_c"}

    def opened(self, path):
        return {f"{FAR}::test_b"} if path == "configs/tiny/causal.yaml" else set()

    def breadth(self, test):
        return 3


def test_modules_that_are_loaded_by_name_are_reached(graph):
    assert "tests.e2e.test_data_job" in graph.reaching(
        "transbeam.pipeline.objectives.causal"
    )


def test_a_function_reaches_what_executed_it(graph):
    choice = choose([Change(PATH, frozenset({"features"}))], graph, Recorded())
    assert choice.tests == {
        f"{NEAR}::test_a": CHANGED_LINES_NEAR,
        f"{FAR}::test_b": CHANGED_LINES,
        f"{FAR}::test_c": SAME_CODE,
    }
    assert choice.files[NEAR] == IMPORTS
    assert FAR not in choice.files  # imports it, and did not execute it
    assert in_order(choice, Recorded())[:2] == [NEAR, FAR]


def test_a_new_file_of_tests_is_near_to_what_it_imports(graph):
    recording = Recorded()
    recording.newer = (NEAR,)
    choice = choose([Change(PATH, frozenset({"features"}))], graph, recording)
    assert choice.files[NEAR] == CHANGED_LINES_NEAR


def test_what_runs_on_import_reaches_whoever_imports_it(graph):
    choice = choose([Change(PATH, elsewhere=True)], graph, Recorded())
    assert choice.files[FAR] == PERHAPS


@pytest.mark.parametrize("recording", [None, Recorded()])
def test_what_is_not_recorded_is_chosen_by_imports_and_that_is_said(graph, recording):
    path = "pipeline/records/packing/sequence_packing.py"
    choice = choose([Change(path, frozenset({"pack"}))], graph, recording)
    assert (
        choice.files["tests/pipeline/records/packing/test_sequence_packing.py"]
        == IMPORTS
    )
    assert choice.files[FAR] == PERHAPS
    assert choice.files[path] == ITSELF  # its examples
    assert "recording" in choice.notes[0]


def test_files_that_are_no_python(graph):
    choice = choose([Change("configs/tiny/causal.yaml")], graph, Recorded())
    assert choice.tests == {f"{FAR}::test_b": CHANGED_LINES}
    assert choice.files["tests/serving/deploy/test_warm_up.py"] == PERHAPS


def test_what_everything_rests_on_reaches_everything(graph):
    choice = choose([Change("constraints.txt")], graph, Recorded())
    assert {NEAR, FAR} <= choice.files.keys()


def test_quick_tests_come_first_among_those_as_near():
    choice = SimpleNamespace(
        tests={f"{FAR}::test_b": CHANGED_LINES, f"{NEAR}::test_a": CHANGED_LINES},
        files={"tests/other.py": IMPORTS},
    )
    assert in_order(choice, Recorded()) == [NEAR, FAR, "tests/other.py"]
