"""Rank and number of workers of this process, from its environment.

This module imports no large library, so that a command can quickly check if it runs on
the chief, the only worker that writes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from transbeam.configs.base.errors import ConfigError
from transbeam.trainer.distribution.connection import parse_address

_JAX = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")


@dataclass(frozen=True)
class ProcessInfo:
    """A worker's rank, the number of workers, and their addresses.

    Attributes:
        number: The rank of this worker, from 0; worker 0 is the chief.
        count: Number of workers.
        addresses: HOST:PORT of each worker; "" where it is unknown, as on JAX for all
            but the chief.
        listens_at: HOST:PORT with the port on which this worker's backend will listen;
            "" for none.
    """

    number: int = 0
    count: int = 1
    addresses: tuple[str, ...] = field(default=(), compare=False, repr=False)
    listens_at: str = field(default="", compare=False, repr=False)

    @property
    def is_chief(self) -> bool:
        """True for the one worker that writes files."""
        return self.number == 0


def find_rank(environment: Mapping[str, str]) -> ProcessInfo:
    """Reads this worker's rank from the environment variables of the selected backend.

    Args:
        environment: These variables are read: `KERAS_BACKEND`; for TensorFlow
            `TF_CONFIG`; for JAX `JAX_COORDINATOR_ADDRESS`, `JAX_NUM_PROCESSES` and
            `JAX_PROCESS_ID`, and `JAX_COORDINATOR_BIND_ADDRESS` if it is set.

    Raises:
        ConfigError: The variables cannot be parsed, or contradict each other.

    Example:
    >>> cluster = '{"worker": ["a:1", "b:1"]}'
    >>> task = '{"type": "worker", "index": 1}'
    >>> find_rank({"TF_CONFIG": f'{{"cluster": {cluster}, "task": {task}}}'})
    ProcessInfo(number=1, count=2)
    >>> find_rank({})
    ProcessInfo(number=0, count=1)
    """
    if _is_on_jax(environment):
        return _by_jax(environment)
    return _by_tf_config(environment.get("TF_CONFIG", ""))


def _by_tf_config(text: str) -> ProcessInfo:
    if not text.strip():
        return ProcessInfo()
    try:
        config = json.loads(text)
        cluster = config.get("cluster", {})
        # If the cluster has a separate chief beside the workers, it comes first.
        tasks = [
            (kind, index)
            for kind in ("chief", "worker")
            for index in range(len(cluster.get(kind, ())))
        ]
        if len(tasks) < 2:
            return ProcessInfo()
        task = config["task"]
        number = tasks.index((task["type"], int(task["index"])))
        addresses = tuple(str(cluster[kind][index]) for kind, index in tasks)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(
            f"TF_CONFIG={text}: does not say which worker this is. Expected "
            '{"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", '
            '"index": NUMBER}} with a number below that of the workers; or no such '
            "variable, for a single one"
        ) from None
    _check_addresses("TF_CONFIG", addresses)
    return ProcessInfo(number, len(tasks), addresses, addresses[number])


def _by_jax(environment: Mapping[str, str]) -> ProcessInfo:
    given = {name: environment.get(name, "") for name in _JAX}
    if not any(given.values()):
        return ProcessInfo()
    address, *numbers = given.values()
    try:
        count, number = (int(text) for text in numbers)
    except ValueError:
        count, number = 0, 0
    if ":" not in address or not 0 <= number < count:
        values = ", ".join(f"{name}={value}" for name, value in given.items())
        raise ConfigError(
            f"{values}: does not say which worker this is. Expected the HOST:PORT of "
            "worker 0, how many there are, and which one this is, from 0; or none of "
            "the three, for a single one"
        )
    if count == 1:
        return ProcessInfo()
    bound = environment.get("JAX_COORDINATOR_BIND_ADDRESS") or address
    _check_addresses("JAX's variables", (address,))
    _check_addresses("JAX's variables", (bound,))
    addresses = (address, *[""] * (count - 1))
    return ProcessInfo(number, count, addresses, "" if number else bound)


def _check_addresses(source: str, addresses: Sequence[str]) -> None:
    for number, address in enumerate(addresses):
        try:
            parse_address(address)
        except ValueError:
            raise ConfigError(
                f"{source}: worker {number} is said to be at {address!r}. Expected "
                "HOST:PORT, as in 10.0.0.4:2222"
            ) from None
        if address in addresses[:number]:
            raise ConfigError(
                f"{source}: worker {addresses.index(address)} and worker {number} are "
                f"both said to be at {address}. Give each an address of its own"
            )


def require_one_process(
    environment: Mapping[str, str], command: str, instead: str
) -> None:
    """Raises an error for a command that several workers cannot run together.

    Args:
        environment: As for `find_rank`.
        command: The command.
        instead: Advice on what to run instead.

    Raises:
        ConfigError: The process is one of several workers.

    Example:
    >>> require_one_process({}, "transbeam run", "Take one stage after another")
    """
    place = find_rank(environment)
    if place.count == 1:
        return
    variable = "JAX_NUM_PROCESSES" if _is_on_jax(environment) else "TF_CONFIG"
    raise ConfigError(
        f"{variable}: says that this is worker {place.number} of {place.count}, and "
        f"`{command}` is for one process. {instead}"
    )


def _is_on_jax(environment: Mapping[str, str]) -> bool:
    return environment.get("KERAS_BACKEND") == "jax"
