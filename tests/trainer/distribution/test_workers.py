"""Ranks of workers, and equality of several replicas with one device."""

import json
import os
import subprocess
import sys

import keras
import pytest

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.schema.training import TrainingConfig
from transbeam.trainer.distribution.process_info import ProcessInfo, find_rank
from transbeam.trainer.distribution.workers import ALONE, Workers


def tf_config(index: int, **cluster) -> dict[str, str]:
    task = {"type": "worker", "index": index}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


def jax_variables(**numbers: str) -> dict[str, str]:
    return {"KERAS_BACKEND": "jax", "JAX_COORDINATOR_ADDRESS": "a:1", **numbers}


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, ProcessInfo(0, 1)),
        (tf_config(0, worker=["a:1"]), ProcessInfo(0, 1)),
        (tf_config(2, worker=["a:1", "b:1", "c:1"]), ProcessInfo(2, 3)),
        (tf_config(0, chief=["a:1"], worker=["b:1"]), ProcessInfo(1, 2)),
        (
            {"KERAS_BACKEND": "jax", **tf_config(1, worker=["a:1", "b:1"])},
            ProcessInfo(0, 1),
        ),
        (jax_variables(JAX_NUM_PROCESSES="4", JAX_PROCESS_ID="3"), ProcessInfo(3, 4)),
    ],
)
def test_which_worker_this_is(environment, place) -> None:
    assert find_rank(environment) == place


@pytest.mark.parametrize(
    "environment",
    [
        {"TF_CONFIG": "worker 1"},
        {"TF_CONFIG": '["a:1"]'},
        tf_config(2, worker=["a:1", "b:1"]),
        {"TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:1"]}}'},
        jax_variables(JAX_NUM_PROCESSES="4"),
        jax_variables(JAX_NUM_PROCESSES="2", JAX_PROCESS_ID="2"),
        {"KERAS_BACKEND": "jax", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "0"},
    ],
)
def test_an_environment_that_does_not_say_it(environment) -> None:
    with pytest.raises(ConfigError, match="does not say which worker this is"):
        find_rank(environment)


def test_where_the_others_are() -> None:
    place = find_rank(tf_config(0, chief=["a:1"], worker=["b:2", "[::1]:3"]))
    assert place.addresses == ("a:1", "b:2", "[::1]:3")
    assert place.listens_at == "b:2"
    variables = jax_variables(JAX_NUM_PROCESSES="2", JAX_PROCESS_ID="0")
    assert find_rank(variables).addresses == ("a:1", "")
    assert find_rank(variables).listens_at == "a:1"
    bound = {**variables, "JAX_COORDINATOR_BIND_ADDRESS": "[::]:2"}
    assert find_rank(bound).listens_at == "[::]:2"
    assert find_rank({**variables, "JAX_PROCESS_ID": "1"}).listens_at == ""


@pytest.mark.parametrize(
    ("addresses", "told"),
    [
        (["a:1", "b"], "worker 1 is said to be at 'b'"),
        (["a:1", "b:0"], "worker 1 is said to be at 'b:0'"),
        (["a:1", "b:2", "a:1"], "worker 0 and worker 2 are both said to be at a:1"),
    ],
)
def test_addresses_that_cannot_be(addresses, told) -> None:
    with pytest.raises(ConfigError, match=told):
        find_rank(tf_config(0, worker=addresses))


def test_a_batch_that_cannot_be_shared() -> None:
    workers = Workers(ProcessInfo(0, 2), replicas=4)
    with pytest.raises(ConfigError, match=r"24 records .* multiple of 16"):
        workers.check_batch(TrainingConfig(steps=100, batch_size=24, accumulation=4))
    workers.check_batch(TrainingConfig(steps=100, batch_size=24, accumulation=2))
    ALONE.check_batch(TrainingConfig(steps=100, batch_size=5))


class TwoWorkers(Workers):
    """Worker 0 beside one that gives `other`, whatever is asked."""

    def __init__(self, other: int):
        super().__init__(ProcessInfo(0, 2), replicas=2)
        self.other = other

    def start_sum(self, numbers):
        others = [self.other] if len(numbers) == 1 else [0, self.other]
        return [a + b for a, b in zip(numbers, others, strict=True)]


def test_what_differs_between_workers_is_told() -> None:
    TwoWorkers(200).agree(200, "the step")
    with pytest.raises(ArtifactError, match="the step: 300 at worker 0, 200 at"):
        TwoWorkers(200).agree(300, "the step")


def test_a_stop_is_heard_two_steps_later_by_all() -> None:
    here, other = TwoWorkers(0), TwoWorkers(1)
    assert [here.any_stop(step == 1) for step in range(6)] == [0, 0, 0, 1, 0, 0]
    assert [other.any_stop(False) for _ in range(4)] == [0, 0, 1, 1]
    assert [ALONE.any_stop(at_it) for at_it in (False, True)] == [
        False,
        True,
    ]


# Four devices; and what runs three times is not worth making fast.
XLA_FLAGS = (
    "--xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0 "
    "--xla_llvm_disable_expensive_passes=true"
)


def run(backend: str, *cases: str) -> None:
    environment = {
        **os.environ,
        "KERAS_BACKEND": backend,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": XLA_FLAGS,
    }
    command = [sys.executable, "-m", "tests.trainer.distribution.replicas", *cases]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# Each where its backend is tested: `make test` and `make test-jax`.
@pytest.mark.parametrize("backend", [keras.backend.backend()])
def test_two_replicas_are_as_one_device(backend) -> None:
    run(backend, "devices", "quick", "pairs")


@pytest.mark.thorough(instead="test_two_replicas_are_as_one_device")
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
@pytest.mark.parametrize("case", ["objectives", "optimizers", "loss_scale", "students"])
def test_more_of_two_replicas(backend, case) -> None:
    run(backend, case)


@pytest.mark.thorough(instead="test_two_replicas_are_as_one_device")
def test_replicas_have_dropout_of_their_own() -> None:
    run("tensorflow", "dropout")


@pytest.mark.thorough(instead="test_two_replicas_are_as_one_device")
def test_a_model_on_two_devices_is_as_on_one() -> None:
    run("jax", "model_parallel")
