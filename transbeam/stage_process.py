"""Runs a stage in a process of its own, such as one with another Keras backend.

Not in `__main__`: a spawned process of `python -m transbeam` does not import that, and
could not find a function of it.
"""

import importlib
import multiprocessing
import os
import signal
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from transbeam.configs.base.atomic_files import os_problem
from transbeam.configs.base.errors import UserError
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.system.daemon_threads import run_in_background

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

_TIDYING = 10.0  # seconds


def load_room(module: str) -> Any:
    """Imports the module with the functions of some stages."""
    return importlib.import_module(module)


def run_in_process(
    module: str, stage: str, backend: str, invocation: Invocation
) -> dict[str, Any]:
    """Runs a stage in a new process.

    Args:
        module: The module with the stage's function.
        stage: The name of the stage and of its function.
        backend: The Keras backend of the process.
        invocation: The invocation of the command.

    Returns:
        The stage's result.

    Raises:
        UserError: The stage raised it.
        OSError: The stage raised it.
        KeyboardInterrupt: The process heard a Ctrl-C.
        RuntimeError: The process ended without a result; its traceback is on stderr.
    """
    processes = multiprocessing.get_context("spawn")
    receiver, sender = processes.Pipe(duplex=False)
    arguments = module, stage, backend, invocation, sender
    process = processes.Process(target=_run_there, args=arguments, daemon=True)
    process.start()
    sender.close()
    try:
        result = receiver.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"{stage} ended with {process.exitcode}") from None
    finally:
        # After a Ctrl-C, which it has heard as well, it may take a moment to tidy up.
        process.join(_TIDYING)
        process.terminate()
    if isinstance(result, BaseException):
        raise result
    return result


def _run_there(
    module: str, stage: str, backend: str, invocation: Invocation, sender: "Connection"
) -> None:
    os.environ["KERAS_BACKEND"] = backend
    if parent := multiprocessing.parent_process():
        run_in_background(partial(_end_with, parent), "end with the command")
    try:
        sender.send(getattr(load_room(module), stage)(invocation))
    except (UserError, OSError, KeyboardInterrupt) as error:
        if isinstance(error, OSError) and os_problem(error) is None:
            raise  # a bug, whose traceback is here
        with suppress(BrokenPipeError):
            sender.send(error)


def _end_with(parent: "BaseProcess") -> None:
    """Ends this process when its parent ends, even if the parent was killed."""
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
