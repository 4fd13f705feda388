"""Imports heavy libraries without their log output.

TensorFlow writes to file descriptor 2 from C++ before any log level applies, and Apache
Beam's first message to the root logger installs a handler that makes the messages of
all other libraries visible.
"""

import contextlib
import gc
import importlib
import logging
import os
import sys
import threading
from collections.abc import Generator, Sequence

from transbeam.configs.system.cpu_features import processor_environment
from transbeam.configs.system.keras_backend import chosen_backend
from transbeam.configs.system.native_output import output_on_error

_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "GRPC_VERBOSITY": "ERROR"}


_IMPORTING = threading.Lock()


def quiet_environment() -> dict[str, str]:
    """Environment for a child process that suppresses the libraries' log output.

    Variables that the user has set are kept.

    Example:
    >>> "TF_CPP_MIN_LOG_LEVEL" in quiet_environment()
    True
    """
    return _QUIET | processor_environment() | dict(os.environ)


def quiet_import(*modules: str) -> None:
    """Imports modules by name without output; a later `import` finds them loaded.

    Entry points call this function before any other code imports the modules. The
    output of an import is discarded if it succeeds and shown if it raises.

    Args:
        modules: Dotted names, such as `tensorflow`.

    Raises:
        ImportError: A module cannot be imported. Other exceptions that the import
            raises are not caught.

    Example:
    >>> quiet_import("json", "xml.dom")
    """
    for name, value in quiet_environment().items():
        os.environ.setdefault(name, value)
    # One import at a time, as the process has only one stderr to redirect.
    with _IMPORTING:
        if not all(module in sys.modules for module in modules):
            _import_quietly(modules)


def _import_quietly(modules: Sequence[str]) -> None:
    needless = ["matplotlib", "sklearn"]
    if chosen_backend(os.environ) != "jax":
        needless.append("jax")
    with (
        _garbage_ignored(),
        # Started with stderr closed, there is nothing to redirect.
        output_on_error(stdout=False) if sys.stderr else contextlib.nullcontext(),
        _root_logger_untouched(),
        _hidden(*needless),
    ):
        for module in modules:
            imported = importlib.import_module(module)
            if module == "tensorflow":
                # The first query for GPUs prints a complaint if there is none.
                imported.config.list_physical_devices()
                logging.getLogger(module).addFilter(_is_not_about_retracing)


def _is_not_about_retracing(record: logging.LogRecord) -> bool:
    """Filters the retracing warning: bucketed records need a trace per length."""
    return "triggered tf.function retracing" not in record.getMessage()


@contextlib.contextmanager
def _garbage_ignored() -> Generator[None, None, None]:
    """A context whose new objects are excluded from garbage collection for good.

    TensorFlow's modules are half a million objects that live as long as the process.
    The garbage collector would spend a fifth of the import time, and over a second at
    Python's exit, on traversing the objects of TensorFlow's modules.
    """
    was_enabled = gc.isenabled()
    gc.collect()  # otherwise existing garbage would be kept too
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def _hidden(*modules: str) -> Generator[None, None, None]:
    """Hides modules from libraries for which they are optional.

    Keras, which TensorFlow imports, would load matplotlib for its image galleries,
    which takes a fifth of TensorFlow's import time, and scikit-learn for its wrappers,
    which takes a quarter of the remaining time. TensorFlow would load JAX to convert
    JAX functions to TFLite, which takes a seventh of the import time that remains
    without matplotlib and scikit-learn.
    """
    hidden = [module for module in modules if module not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for module in hidden:
            del sys.modules[module]


@contextlib.contextmanager
def _root_logger_untouched() -> Generator[None, None, None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    # With a handler in place, `logging.warning` does not install one of its own.
    root.handlers[:] = [logging.NullHandler()]
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
