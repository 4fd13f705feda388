"""A worker's error reaches the user as it was meant."""

from contextlib import nullcontext

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from transbeam.configs.base.errors import DataError
from transbeam.configs.cli.console import Console
from transbeam.pipeline.beam.runner import beam_options, run_in_beam
from transbeam.pipeline.beam.worker_failures import find_user_error, marked_user_errors

MESSAGE = "corpus.txt: 3 of 4 lines are broken [see 'quarantine']\nmend them"


def fail(element: int) -> int:
    with marked_user_errors():
        raise DataError(MESSAGE) if element else KeyError("a bug")


@pytest.mark.parametrize(
    ("mode", "element"),
    [
        ("in_memory", 0),
        ("in_memory", 1),
        ("multi_processing", 1),
        pytest.param("multi_processing", 0, marks=pytest.mark.thorough),
    ],
)
def test_through_a_runner(mode: str, element: int, capfd) -> None:
    options = PipelineOptions(["--runner=FnApiRunner", f"--direct_running_mode={mode}"])
    pipeline = beam.Pipeline(options=options)
    _ = pipeline | beam.Create([element]) | beam.Map(fail)
    with pytest.raises(Exception) as caught:  # noqa: PT011 (which one is the question)
        pipeline.run()
    error = find_user_error(caught.value)
    if element:
        assert isinstance(error, DataError)
        assert str(error) == MESSAGE
    else:
        assert error is None


@pytest.mark.parametrize("mode", ["in_memory", "multi_threading"])
def test_user_sees_no_traceback(mode: str, tmp_path, capfd) -> None:
    options = beam_options(2, options=[f"--direct_running_mode={mode}"])

    def job() -> None:
        with beam.Pipeline(options=options) as pipeline:
            _ = pipeline | beam.Create([1]) | beam.Map(fail)

    log = tmp_path / "job.log"
    with pytest.raises(DataError, match="lines are broken"):
        run_in_beam(job, nullcontext(), log, Console())
    assert capfd.readouterr() == ("", "")
