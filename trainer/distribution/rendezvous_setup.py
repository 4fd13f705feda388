"""Opens the rendezvous of all workers, before anything heavy is imported."""

import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NoReturn

from transbeam.configs.base.version import VERSION
from transbeam.configs.loader.yaml_config import flatten
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.system.signal_handlers import handling
from transbeam.trainer.distribution.process_info import find_place
from transbeam.trainer.distribution.rendezvous import SECONDS, Rendezvous
from transbeam.trainer.distribution.rendezvous_chief import ChiefRendezvous
from transbeam.trainer.distribution.rendezvous_member import MemberRendezvous


@contextmanager
def met(
    config: RunConfig, say: Callable[[str], None], seconds: float = SECONDS
) -> Generator[Rendezvous, None, None]:
    """A context in which all workers are connected and have the same configuration.

    Inside, SIGTERM ends this process as Ctrl-C does; the system would otherwise ignore
    it for the first process of a container. A worker that leaves with an error sends it
    to the others, as long as the rendezvous is open.

    Args:
        config: The run's configuration.
        say: Prints to the user which workers are missing.
        seconds: Seconds to wait for them.

    Raises:
        ConfigError: The environment does not define this worker's rank, or its port is
            taken.
        ArtifactError: The workers differ in version, backend or configuration.
        LostWorkerError: Some workers do not connect.
    """
    place = find_place(os.environ)
    if place.count == 1:
        yield Rendezvous(place)
        return
    side = ChiefRendezvous if place.is_chief else MemberRendezvous
    rendezvous = side(place, say, seconds)
    with handling(_stop, signal.SIGTERM):
        try:
            backend = os.environ.get("KERAS_BACKEND") or "tensorflow"
            facts = {"version": VERSION, "KERAS_BACKEND": backend}
            rendezvous.assert_equal({**facts, **flatten(config)})
            yield rendezvous
        except BaseException as error:
            rendezvous.close(error)
            raise
        rendezvous.close()


def _stop(number: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt
