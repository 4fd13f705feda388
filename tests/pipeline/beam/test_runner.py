"""An interrupted job does not go on elsewhere."""

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import ModuleType

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState

from transbeam.configs.base.errors import UserError
from transbeam.pipeline.beam.runner import beam_options, run_pipeline
from transbeam.pipeline.beam.worker_failures import find_user_error


class InterruptedResult(PipelineResult):
    cancelled = 0

    def wait_until_finish(self, duration=None):
        raise KeyboardInterrupt

    def cancel(self):
        InterruptedResult.cancelled += 1


class Interrupted(PipelineRunner):
    """An engine during whose work the user loses patience."""

    def run_pipeline(self, pipeline, options):
        return InterruptedResult(PipelineState.RUNNING)


class InterruptedBefore(PipelineRunner):
    """One that takes its time to take the job."""

    def run_pipeline(self, pipeline, options):
        raise KeyboardInterrupt


class Unreachable(Interrupted):
    def run_pipeline(self, pipeline, options):
        return PipelineResult(PipelineState.RUNNING)


@pytest.fixture(autouse=True)
def nothing_cancelled(monkeypatch) -> None:
    monkeypatch.setattr(InterruptedResult, "cancelled", 0)
    monkeypatch.setattr(
        PipelineResult, "wait_until_finish", InterruptedResult.wait_until_finish
    )


@pytest.mark.parametrize(
    ("workers", "size", "mode"),
    [
        (1, 10**9, "in_memory"),
        (2, 50_000_000, "multi_processing"),
        (2, 49_999_999, "multi_threading"),
    ],
)
def test_processes_are_for_much_work(workers, size, mode) -> None:
    options = beam_options(workers, size=size).get_all_options()
    assert options["direct_running_mode"] == mode
    assert options["direct_num_workers"] == workers
    # Nothing is known of the size: it may be much.
    if workers > 1:
        options = beam_options(workers).get_all_options()
        assert options["direct_running_mode"] == "multi_processing"


def run(runner: type[PipelineRunner], *options: str) -> None:
    named = beam_options(1, f"{__name__}.{runner.__name__}", options)
    with run_pipeline(named) as pipeline:
        _ = pipeline | beam.Create([1])


def test_an_interrupt_cancels_the_job() -> None:
    with pytest.raises(KeyboardInterrupt):
        run(Interrupted)
    assert InterruptedResult.cancelled == 1


def test_a_job_that_cannot_be_cancelled_is_told() -> None:
    with pytest.raises(UserError, match="could not be cancelled") as caught:
        run(Unreachable)
    assert find_user_error(caught.value) is caught.value
    with pytest.raises(UserError, match=r"refused.* cancel it there"):
        run(Interrupted, "--flink_master=localhost:9")


class Flink(BaseHTTPRequestHandler):
    """Answers as a job manager does."""

    jobs = ("mine", 7), ("mine", -1), ("another", -1)
    requests: list[str] = []

    def do_GET(self) -> None:
        jobs = [
            {"jid": f"{name}{end}", "name": name, "end-time": end}
            for name, end in self.jobs
        ]
        self._answer(200, {"jobs": jobs})

    def do_PATCH(self) -> None:
        self.requests.append(self.path)
        self._answer(202, {})

    def _answer(self, status: int, content: dict) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *words) -> None:
        pass


@pytest.fixture
def flink() -> Iterator[str]:
    Flink.requests.clear()
    with ThreadingHTTPServer(("localhost", 0), Flink) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"localhost:{server.server_port}"
        server.shutdown()
        thread.join()


def test_on_flink_the_running_job_of_that_name_is_cancelled(flink: str) -> None:
    for address in (flink, f"http://{flink}"):
        with pytest.raises(KeyboardInterrupt):
            run(Interrupted, f"--flink_master={address}", "--job_name=mine")
    assert Flink.requests == ["/jobs/mine-1?mode=cancel"] * 2
    assert InterruptedResult.cancelled == 2


def test_a_job_that_flink_does_not_know_yet_is_told(flink: str) -> None:
    for runner in (Interrupted, InterruptedBefore):
        with pytest.raises(UserError, match=r"does not know it.* See on the cluster"):
            run(runner, f"--flink_master={flink}", "--job_name=new")
    assert Flink.requests == []


def test_an_interrupt_while_the_job_is_submitted_is_told() -> None:
    with pytest.raises(UserError, match=r"the job .*\(it was being submitted"):
        run(InterruptedBefore)


def test_a_job_runs_in_a_notebook(monkeypatch) -> None:
    """Beam's labels with the number of a cell would need pandas."""
    notebook = ModuleType("IPython")
    monkeypatch.setattr(notebook, "get_ipython", lambda: "a shell", raising=False)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "pandas", None)
    module = sys.modules[beam.Pipeline.__module__]
    labels = vars(module)["alter_label_if_ipython"]
    with run_pipeline(beam_options(1)) as pipeline:
        numbers = pipeline | beam.Create([1, 2]) | beam.Map(lambda number: number + 1)
    assert numbers.producer.full_label.startswith("Map(")
    assert vars(module)["alter_label_if_ipython"] is labels


def test_each_job_has_a_name_of_its_own() -> None:
    names = {
        beam_options(2, "FlinkRunner").get_all_options()["job_name"] for _ in range(2)
    }
    assert len(names) == 2
    named = beam_options(2, "FlinkRunner", ["--job_name=mine"])
    assert named.get_all_options()["job_name"] == "mine"
    assert isinstance(named, PipelineOptions)
