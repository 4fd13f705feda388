"""Two processes train as one does, also when one of them is killed or stopped."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.e2e.cases import finished
from tests.e2e.test_training import wait_for
from transbeam import main
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.loader.model_files import training_stage
from transbeam.configs.loader.yaml_config import load_run
from transbeam.model.kernels.matmul_dtype import VARIABLE
from transbeam.trainer.loop.metrics_file import read_metrics
from transbeam.trainer.run import train

KEYS = """
model:
  kind: decoder
  num_layers: 1
  hidden_dim: 16
  max_sequence_length: 64
  dropout: 0.0
  attention: {kind: full, num_heads: 2, dropout: 0.0}
  feedforward: {kind: dense, intermediate_dim: 32}
training:
  steps: 12
  batch_size: 8
  accumulation: 2
  schedule: {kind: linear, peak: 0.02, warmup_steps: 2}
  evaluate_every: 4
  log_every: 1
  ema_decay: 0.5
  deterministic: true
"""


@pytest.fixture(scope="module")
def records(tmp_path_factory) -> Invocation:
    made = finished("causal")
    file = tmp_path_factory.mktemp("workers") / "causal.yaml"
    file.write_text(made.config_file.read_text("utf-8") + KEYS, "utf-8")
    return replace(made, config=load_run(file), config_file=file)


# Two replicas on JAX are held against one device by what is quick.
ON_JAX = pytest.mark.thorough(instead="test_two_replicas_are_as_one_device")


@pytest.fixture(params=["tensorflow", pytest.param("jax", marks=ON_JAX)])
def backend(request) -> str:
    return request.param


class Job:
    """A training in a folder of its own, by one worker or two."""

    def __init__(self, records: Invocation, backend: str, folder: Path):
        self.command = [sys.executable, "-m", "transbeam.trainer", "train", "--quiet"]
        self.command += [str(records.config_file), "--run", str(folder)]
        self.backend = backend
        self.invocation = replace(records, run_folder=folder)
        self.training = folder / "training"
        folder.mkdir()
        (folder / "data").symlink_to(records.run_folder / "data")

    def start(self, workers: int, *more: Sequence[str]) -> list[subprocess.Popen]:
        """Processes; worker i also gets the arguments `more[i]`, if there are any."""
        ports = free_ports(workers)
        return [
            subprocess.Popen(
                [*self.command, *(more[number] if number < len(more) else ())],
                env={**os.environ, **self.environment(number, ports)},
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(workers)
        ]

    def environment(self, number: int, ports: list[int]) -> dict[str, str]:
        chosen = {"KERAS_BACKEND": self.backend, "JAX_PLATFORMS": "cpu"}
        if len(ports) == 1:
            return chosen
        if self.backend == "jax":
            return chosen | {
                "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{ports[0]}",
                "JAX_NUM_PROCESSES": str(len(ports)),
                "JAX_PROCESS_ID": str(number),
            }
        cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
        task = {"type": "worker", "index": number}
        return chosen | {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}

    def last_state(self) -> bytes:
        return (
            self.training / "checkpoints/step-00000012/state.safetensors"
        ).read_bytes()


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def weights_in(file: Path) -> dict[str, np.ndarray]:
    """Everything in a file that Keras wrote."""
    found = {}

    def keep(name: str, item: h5py.Group | h5py.Dataset) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = np.asarray(item)

    with h5py.File(file) as opened:
        opened.visititems(keep)
    return found


def ends(processes: Sequence[subprocess.Popen]) -> list[tuple[int, str]]:
    """Exit codes and what was said on stderr."""
    told = [process.communicate()[1] for process in processes]
    return [(p.returncode, t) for p, t in zip(processes, told, strict=True)]


def test_two_processes_have_the_losses_of_one(records, backend, tmp_path) -> None:
    one = Job(records, backend, tmp_path / "one")
    two = Job(records, backend, tmp_path / "two")
    keys = ("training.steps=6", "training.samples=0")
    more = [word for key in keys for word in ("--set", key)]
    processes = two.start(2, more, more)
    if backend == keras.backend.backend():  # here already, without a process of its own
        config = load_run(one.invocation.config_file, keys)
        train(replace(one.invocation, config=config))
    else:
        assert [code for code, _ in ends(one.start(1, more))] == [0]
    found = ends(processes)
    assert [code for code, _ in found] == [0, 0], found
    rows = [read_metrics(job.training) for job in (one, two)]
    assert len(rows[0]) == 6 + 2
    for a, b in zip(*rows, strict=True):
        for name in ("step", "loss", "accuracy", "gradient_norm", "val_loss"):
            assert (name in a) == (name in b)
            if name in a:
                assert b[name] == pytest.approx(a[name], rel=1e-5)
        norms = a.get("gradient_norms", {})
        assert b.get("gradient_norms", {}) == pytest.approx(norms, rel=1e-4)


@pytest.mark.thorough(
    instead="test_two_processes_have_the_losses_of_one, "
    "test_killed_by_the_system_it_goes_on_as_if_nothing_had_been, "
    "test_a_stop_is_heard_two_steps_later_by_all"
)
def test_killed_or_stopped_they_go_on_as_if_nothing_had_been(
    records, backend, tmp_path
) -> None:
    whole = Job(records, backend, tmp_path / "whole")
    assert [code for code, _ in ends(whole.start(2))] == [0, 0]
    job = Job(records, backend, tmp_path / "job")

    processes = job.start(2)
    wait_for(processes[0], job.training / "metrics.jsonl", 5)
    processes[1].send_signal(signal.SIGKILL)
    (code, told), (killed, _) = ends(processes)
    assert (code, killed) == (2, -signal.SIGKILL)
    assert "error: worker 0: another worker is gone" in told
    assert "Traceback" not in told
    assert not re.search(r"^[IWE]\d{4} ", told, re.MULTILINE)  # lines of C++

    (job.training / "metrics.jsonl").unlink()  # of the processes before
    processes = job.start(2)
    wait_for(processes[0], job.training / "metrics.jsonl", 6)
    processes[1].send_signal(signal.SIGTERM)
    found = ends(processes)
    assert [code for code, _ in found] == [130, 130], found

    assert [code for code, _ in ends(job.start(2))] == [0, 0]
    assert job.last_state() == whole.last_state()


@pytest.mark.thorough(instead="test_two_replicas_are_as_one_device")
def test_a_model_on_two_devices_of_each_worker(records, tmp_path, monkeypatch) -> None:
    """Halted and gone on with, it has the losses of one process with one device."""
    whole = Job(records, "jax", tmp_path / "whole")
    assert [code for code, _ in ends(whole.start(1))] == [0]

    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    job = Job(records, "jax", tmp_path / "job")
    spread = ["--set", "training.distribution.kind=model_parallel"]
    spread += ["--set", "training.distribution.model_devices=2"]
    processes = job.start(2, spread, spread)
    wait_for(processes[0], job.training / "metrics.jsonl", 5)
    processes[1].send_signal(signal.SIGTERM)
    found = ends(processes)
    assert [code for code, _ in found] == [130, 130], found
    found = ends(job.start(2, spread, spread))
    assert [code for code, _ in found] == [0, 0], found

    one, two = (
        load_file(training / "checkpoints/step-00000012/state.safetensors")
        for training in (whole.training, job.training)
    )
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_allclose(two[name], one[name], rtol=0, atol=1e-5)
    rows = [read_metrics(training) for training in (whole.training, job.training)]
    for name, count in (("loss", 12), ("val_loss", 3)):
        a, b = ([row[name] for row in log if name in row] for log in rows)
        assert len(a) == count
        assert b == pytest.approx(a, rel=1e-5)

    one, two = (
        weights_in(t / "model.weights.h5") for t in (whole.training, job.training)
    )
    assert one
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_allclose(two[name], one[name], rtol=0, atol=1e-5)
    assert "<h2>Samples" in (job.training / "report.html").read_text("utf-8")


@pytest.mark.thorough(
    instead="test_killed_by_the_system_it_goes_on_as_if_nothing_had_been"
)
def test_the_chief_is_killed(records, backend, tmp_path) -> None:
    whole = Job(records, backend, tmp_path / "whole")
    assert [code for code, _ in ends(whole.start(2))] == [0, 0]
    job = Job(records, backend, tmp_path / "job")

    processes = job.start(2)
    wait_for(processes[0], job.training / "metrics.jsonl", 5)
    processes[0].send_signal(signal.SIGKILL)
    (killed, _), (code, told) = ends(processes)
    assert killed == -signal.SIGKILL
    # JAX's own client may end a process whose coordinator is gone before we can.
    ended = {"tensorflow": {2}, "jax": {2, -signal.SIGABRT}}
    assert code in ended[backend], told
    if code == 2:
        assert "error: worker 1: another worker is gone" in told

    assert [code for code, _ in ends(job.start(2))] == [0, 0]
    assert job.last_state() == whole.last_state()


@pytest.mark.thorough(instead="test_a_finished_training_goes_on_as_if_planned_longer")
def test_workers_go_on_with_a_finished_training(records, backend, tmp_path) -> None:
    endless = ("--set", "training.schedule={kind: constant, warmup_steps: 2}")
    fewer = (*endless, "--set", "training.steps=7")
    whole = Job(records, backend, tmp_path / "whole")
    assert ends(whole.start(2, endless, endless)) == [(0, "")] * 2
    job = Job(records, backend, tmp_path / "job")
    assert ends(job.start(2, fewer, fewer)) == [(0, "")] * 2
    assert ends(job.start(2, endless, endless)) == [(0, "")] * 2
    assert job.last_state() == whole.last_state()
    # What was set aside is taken up by all, and is finished.
    assert ends(job.start(2, fewer, fewer)) == [(0, "")] * 2
    assert training_stage(job.invocation.run_folder).load()["result"]["steps"] == 7


@pytest.mark.thorough(instead="test_workers_take_what_the_chief_chose")
def test_all_multiply_bfloat16_as_the_chief_does(records, tmp_path) -> None:
    def state(name: str, *dtypes: str) -> bytes:
        job = Job(records, "tensorflow", tmp_path / name)
        of_cluster = job.environment
        job.environment = lambda number, ports: {
            **of_cluster(number, ports),
            VARIABLE: dtypes[number],
        }
        half = ("--set", "training.precision=mixed_bfloat16")
        assert ends(job.start(2, half, half)) == [(0, "")] * 2
        return job.last_state()

    differing = state("differing", "bfloat16", "float32")
    assert differing == state("narrow", "bfloat16", "bfloat16")
    assert differing != state("wide", "float32", "float32")


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_workers_that_were_started_differently(records, backend, tmp_path) -> None:
    """All say what differs; the training that is there stays where it is."""
    job = Job(records, backend, tmp_path / "job")
    begun = {"training.batch_size": 8}
    training_stage(job.invocation.run_folder).begin(begun)
    slip = ("--set", "training.batch_size=16", "--set", "training.log_every=3")
    for code, told in ends(job.start(2, slip)):
        assert code == 2
        assert "training.batch_size: 16 at worker 0, 8 at worker 1" in told
        assert "training.log_every: 3 at worker 0, 1 at worker 1" in told
    assert training_stage(job.invocation.run_folder).inputs() == begun
    assert not (job.invocation.run_folder / "superseded").exists()


def test_records_of_which_one_worker_has_others(records, tmp_path) -> None:
    """Both know what the other was told, before TensorFlow is started."""
    job, other = (Job(records, "tensorflow", tmp_path / name) for name in "ab")
    (other.invocation.run_folder / "data").unlink()
    more = ("--run", str(other.invocation.run_folder))
    chief, second = ends(job.start(2, (), more))
    assert (chief[0], second[0]) == (2, 2)
    assert f"error: {tmp_path / 'b/data'}: there is no such folder" in second[1]
    assert f"worker 1 has ended: {tmp_path / 'b/data'}: there is no such" in chief[1]
    assert not job.training.exists()


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_commands_of_one_process_are_refused_to_several(
    records, command, tmp_path, monkeypatch, capsys
) -> None:
    job = Job(records, keras.backend.backend(), tmp_path / "job")
    for name, value in job.environment(1, [4000, 4001]).items():
        monkeypatch.setenv(name, value)
    assert main([command, str(records.config_file), "--run", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert f"worker 1 of 2, and `transbeam {command}` is for one process" in told
    assert 0 < told.index("transbeam data") < told.index("transbeam train")


@pytest.mark.thorough(instead="test_a_batch_that_cannot_be_shared")
def test_a_batch_that_two_cannot_share(records, backend, tmp_path) -> None:
    job = Job(records, backend, tmp_path / "job")
    more = ("--set", "training.batch_size=6")
    for code, told in ends(job.start(2, more, more)):
        assert code == 2
        assert "6 records cannot be shared equally by 2 replicas" in told
    assert not job.training.exists()
