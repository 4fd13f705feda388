"""One version of a model, loaded: a session that runs its signatures.

A session of TensorFlow 1, as in the stock server: inputs and outputs go by the names in
the signature, only what is fetched is computed, SavedModels of both generations load,
a call that takes too long is stopped, and it costs a fraction of what the signature's
Python function does.
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)
from grpc import StatusCode
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2

from configs.held_back import output_held_back
from serving.server.failures import Failure, from_number, invalid
from serving.server.models.graph_errors import plain_message
from serving.server.models.rows import Arrays
from serving.server.models.signature import Signature

_NOT_FOR_CLIENTS = "__saved_model_init_op"
# Each pair of inputs and outputs asked for is prepared once. A client can ask for any
# subset of the outputs, so they are not kept without end.
_PREPARED = 64

_v1: Any = tf.compat.v1


def _options() -> config_pb2.ConfigProto:
    """How a session prepares what it is asked for the first time.

    Three quarters of that go into optimizing graphs. What is left out here makes no
    answer faster: a second round, optimizers of shapes that go through MLIR and back,
    and plans for a device's memory. What is left does, and takes little over half.
    """
    config = config_pb2.ConfigProto()
    rewriting = config.graph_options.rewrite_options
    rewriting.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    rewriting.memory_optimization = rewriter_config_pb2.RewriterConfig.NO_MEM_OPT
    rewriting.disable_tfg_optimizer = True
    return config


class Servable:
    """A SavedModel in memory.

    Several threads may run it at once.

    Args:
        folder: Its version folder.

    Raises:
        Failure: It cannot be loaded.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._graph = tf.Graph()
        self._lock = threading.Lock()
        self._prepared: dict[object, Callable[..., Any]] = {}
        self._session: Any = _v1.Session(graph=self._graph, config=_options())
        try:
            with self._graph.as_default(), output_held_back():
                loaded = _v1.saved_model.loader.load(
                    self._session, ["serve"], str(folder)
                )
        except tf.errors.OpError as error:
            raise from_number(error.error_code, plain_message(error.message)) from None
        except Exception as error:  # whatever a damaged file makes of the loader
            raise invalid(f"{type(error).__name__}: {error}") from None
        self.signatures = {
            name: Signature(name, definition)
            for name, definition in sorted(loaded.signature_def.items())
            if name != _NOT_FOR_CLIENTS
        }

    def run(
        self,
        signature: Signature,
        inputs: Arrays,
        outputs: Sequence[str],
        seconds: float | None = None,
    ) -> dict[str, np.ndarray]:
        """Runs a signature.

        Args:
            signature: One of `signatures`.
            inputs: By the signature's names, of its types; shapes are not looked at.
            outputs: Which to compute.
            seconds: That it may take; then it is stopped.

        Raises:
            Failure: An input does not fit, an op fails, or it took too long.
        """
        definition = signature.definition
        # In one order, whatever the client's was, or each would be prepared anew.
        given, wanted = sorted(inputs), sorted(outputs)
        fed = tuple(definition.inputs[name].name for name in given)
        fetched = tuple(definition.outputs[name].name for name in wanted)
        values = [inputs[name] for name in given]
        found = self.run_tensors(fed, values, fetched, seconds)
        by_name = dict(zip(wanted, found, strict=True))
        return {name: by_name[name] for name in outputs}

    def run_tensors(
        self,
        fed: tuple[str, ...],
        values: Sequence[np.ndarray],
        fetched: tuple[str, ...],
        seconds: float | None = None,
    ) -> list[np.ndarray]:
        """Runs the graph from some of its tensors to others; see `run`.

        Args:
            fed: Names of tensors.
            values: For each of them.
            fetched: Names of tensors.
            seconds: That it may take.

        Raises:
            Failure: A value does not fit, an op fails, or it took too long.
        """
        key = (fed, fetched, seconds)
        try:
            call = self._prepared.get(key) or self._prepare(key)
            return [_array(value) for value in call(*values)]
        except tf.errors.DeadlineExceededError as error:
            message = f"Timed out: no answer within {seconds or 0:g} s"
            raise from_number(error.error_code, message) from None
        except tf.errors.OpError as error:
            raise from_number(error.error_code, plain_message(error.message)) from None
        except (ValueError, TypeError) as error:  # what is no array to TensorFlow
            raise invalid(str(error)) from None

    def _prepare(
        self, key: tuple[tuple[str, ...], tuple[str, ...], float | None]
    ) -> Callable[..., Any]:
        fed, fetched, seconds = key
        options = config_pb2.CallableOptions(feed=fed, fetch=fetched)
        options.run_options.timeout_in_ms = round(1000 * (seconds or 0))
        with self._lock:
            if self._session is None:
                raise Failure(StatusCode.UNAVAILABLE, "The version is let go")
            if len(self._prepared) >= _PREPARED:
                self._prepared.pop(next(iter(self._prepared)))
            # The public `make_callable` takes fifteen times as long, and cannot be
            # stopped.
            call = self._session._make_callable_from_options(options)
            self._prepared[key] = call
            return call

    def close(self) -> None:
        """Lets everything go; nothing may be running.

        The session's memory is free at once. The graph in Python is full of circles,
        and waits for the garbage collector.
        """
        self._prepared.clear()
        self._session.close()
        self._session = self._graph = None


def _array(value: Any) -> np.ndarray:
    """What the session gives: a tensor without dimensions comes as a bare value."""
    return np.asarray(value, object if isinstance(value, bytes) else None)
