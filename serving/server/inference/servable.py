"""One version of a model, loaded: a session that runs its signatures.

A session of TensorFlow 1, as in the stock server: inputs and outputs go by the names in
the signature, only what is fetched is computed, SavedModels of both generations load,
a call that takes too long is stopped, and it costs a fraction of what the signature's
Python function does.
"""

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)
from grpc import StatusCode
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.saved_model.loader_impl import SavedModelLoader

from transbeam.serving.base.graph_errors import plain_message
from transbeam.serving.server.base.batched_arrays import Arrays
from transbeam.serving.server.base.status import StatusError, from_number, invalid
from transbeam.serving.server.base.thread_priority import yield_to_others
from transbeam.serving.server.inference.signature import ServableSignature

# TensorFlow prepares each set of inputs and outputs once and keeps it. A client can ask
# for any of the outputs, so beyond these all are computed and the others left out.
_PREPARED = 64

# Threads for what takes long, of all models together. In those of all others a short
# request would wait behind each of its operations; the system divides its processors
# between threads more fairly.
_ASIDE = "transbeam-aside"
# Name of these threads, as TensorFlow gives it.
_NAME_OF_ASIDE = "tf_Compute1"

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
    # The threads of operations, and as many again for what takes long.
    config.session_inter_op_thread_pool.add()
    config.session_inter_op_thread_pool.add(global_name=_ASIDE)
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
        self._graph: Any = tf.Graph()
        self._lock = threading.Lock()
        self._prepared: set[tuple[str, ...]] = set()
        self._places: dict[str, Any] = {}
        self._session: Any = _v1.Session(graph=self._graph, config=_options())
        try:
            with self._graph.as_default():
                # `tf.compat.v1.saved_model.load` does this, and says in the log that
                # programs should no longer load this way. TF Serving does.
                loader = SavedModelLoader(str(folder))
                loaded = loader.load(self._session, ["serve"])
        except tf.errors.OpError as error:
            raise from_number(error.error_code, plain_message(error.message)) from None
        except Exception as error:  # whatever a damaged file makes of the loader
            raise invalid(f"{type(error).__name__}: {error}") from None
        _let_aside_yield()
        self.signatures = {
            name: ServableSignature(name, definition)
            for name, definition in sorted(loaded.signature_def.items())
        }

    def run(
        self,
        signature: ServableSignature,
        inputs: Arrays,
        outputs: Sequence[str],
        seconds: float = math.inf,
        *,
        takes_long: bool = False,
    ) -> dict[str, np.ndarray]:
        """Runs a signature.

        Args:
            signature: One of `signatures`.
            inputs: By the signature's names, of its types; shapes are not looked at.
            outputs: Which to compute.
            seconds: That it may take; then it is stopped, at the next op.
            takes_long: Whether to run it aside from what others ask.

        Raises:
            Failure: An input does not fit, an op fails, or it took too long.
        """
        definition = signature.definition
        # In one order, whatever the client's was, or each would be prepared anew.
        given, wanted = sorted(inputs), sorted(outputs)
        fed = tuple(definition.inputs[name].name for name in given)
        if not self._is_prepared(signature.name, wanted):
            wanted = sorted(definition.outputs)
        fetched = tuple(definition.outputs[name].name for name in wanted)
        values = [inputs[name] for name in given]
        found = self.run_tensors(fed, values, fetched, seconds, takes_long=takes_long)
        by_name = dict(zip(wanted, found, strict=True))
        return {name: by_name[name] for name in outputs}

    def run_tensors(
        self,
        fed: tuple[str, ...],
        values: Sequence[np.ndarray],
        fetched: tuple[str, ...],
        seconds: float = math.inf,
        *,
        takes_long: bool = False,
    ) -> list[np.ndarray]:
        """Runs the graph from some of its tensors to others; see `run`.

        Args:
            fed: Names of tensors.
            values: For each of them.
            fetched: Names of tensors.
            seconds: That it may take.
            takes_long: See `run`.

        Raises:
            Failure: A value does not fit, an op fails, or it took too long.
        """
        session = self._session
        if session is None:
            raise StatusError(StatusCode.UNAVAILABLE, "The version is let go")
        try:
            feeds = zip(map(self._place, fed), values, strict=True)
            fetches = [self._place(name) for name in fetched]
            with _run_options(seconds, takes_long=takes_long) as options:
                # The public `run` takes a fifth of a millisecond more, and a callable
                # has one time limit for all requests.
                found = session._call_tf_sessionrun(
                    options, dict(feeds), fetches, [], None
                )
            return [_array(value) for value in found]
        except tf.errors.DeadlineExceededError as error:
            message = f"Timed out: no answer within {seconds:.3g} s"
            raise from_number(error.error_code, message) from None
        except tf.errors.OpError as error:
            raise from_number(error.error_code, plain_message(error.message)) from None
        except (ValueError, TypeError, KeyError) as error:  # no array, no such tensor
            raise invalid(str(error)) from None

    def _place(self, name: str) -> Any:
        """Where a tensor is in the graph, as the session wants to be told."""
        if name not in self._places:
            try:
                tensor = self._graph.get_tensor_by_name(name)
            except (KeyError, ValueError):  # such as that of `__saved_model_init_op`
                raise invalid("the signature names a tensor that is none") from None
            self._places[name] = tensor._as_tf_output()
        return self._places[name]

    def _is_prepared(self, signature: str, outputs: Sequence[str]) -> bool:
        """Whether just these outputs are to be computed, and no others with them."""
        kind = (signature, *outputs)
        with self._lock:
            if kind not in self._prepared and len(self._prepared) < _PREPARED:
                self._prepared.add(kind)
            return kind in self._prepared

    def close(self) -> None:
        """Lets everything go; nothing may be running.

        The session's memory is free at once. The graph in Python is full of circles,
        and waits for the garbage collector.
        """
        self._places.clear()
        self._session.close()
        self._session = self._graph = None


def _let_aside_yield() -> None:
    """Lets the threads for what takes long have less of a processor, where it can."""
    with suppress(OSError):
        for thread in Path("/proc/self/task").iterdir():
            if (thread / "comm").read_text().strip() == _NAME_OF_ASIDE:
                yield_to_others(int(thread.name))


@contextmanager
def _run_options(seconds: float, *, takes_long: bool) -> Iterator[Any]:
    """Options of a run that is stopped after so many seconds."""
    # 0 would be no limit at all.
    milliseconds = 0 if math.isinf(seconds) else max(1, round(1000 * seconds))
    options = config_pb2.RunOptions(
        timeout_in_ms=milliseconds, inter_op_thread_pool=int(takes_long)
    )
    buffer = pywrap_tf_session.TF_NewBufferFromString(options.SerializeToString())
    try:
        yield buffer
    finally:
        pywrap_tf_session.TF_DeleteBuffer(buffer)


def _array(value: Any) -> np.ndarray:
    """What the session gives: a tensor without dimensions comes as a bare value."""
    return np.asarray(value, object if isinstance(value, bytes) else None)
