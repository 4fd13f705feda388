"""A loaded SavedModel version: a TensorFlow session that runs its signatures.

The session is a TensorFlow 1 session, as in TF Serving: inputs and outputs have the
signature's names, only the fetched outputs are computed, SavedModels of TensorFlow 1
and 2 can be loaded, a run can have a timeout, and a call takes a fraction of the time
of a call of the signature's Python function.
"""

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizers' ops)
from grpc import StatusCode
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.saved_model.loader_impl import SavedModelLoader

from transbeam.serving.base.graph_errors import plain_message
from transbeam.serving.server.base.batched_arrays import Arrays
from transbeam.serving.server.base.status import StatusError, from_number, invalid
from transbeam.serving.server.base.worker_thread import lower_priority
from transbeam.serving.server.inference.signature import ServableSignature

# TensorFlow caches a pruned graph for each set of feeds and fetches. A client can
# request any subset of the outputs; beyond this number of sets all outputs are computed
# and those that were not requested are dropped.
_PREPARED = 64

# Thread pool for long requests, shared by all models. In the default pool a short
# request would wait behind each op of a long one; the operating system divides the CPU
# between threads more fairly.
_ASIDE = "transbeam-aside"
# Name that TensorFlow gives to the threads of this pool.
_ASIDE_THREADS = "tf_Compute1"

_v1: Any = tf.compat.v1


def _options() -> config_pb2.ConfigProto:
    """Returns session options that shorten the first run of each set of fetches.

    By default, graph optimization takes three quarters of the first run's time. The
    options disable passes that do not speed up inference: a second iteration, shape
    optimizers that convert to MLIR and back, and memory planning for devices. With the
    remaining passes, optimization takes a little over half of its default time.
    """
    config = config_pb2.ConfigProto()
    rewriting = config.graph_options.rewrite_options
    rewriting.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    rewriting.memory_optimization = rewriter_config_pb2.RewriterConfig.NO_MEM_OPT
    rewriting.disable_tfg_optimizer = True
    # The default pool, and one of the same size for long requests.
    config.session_inter_op_thread_pool.add()
    config.session_inter_op_thread_pool.add(global_name=_ASIDE)
    return config


class Servable:
    """A SavedModel in memory; may be run from several threads.

    Args:
        folder: The version folder.

    Raises:
        StatusError: The SavedModel cannot be loaded.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._graph: Any = tf.Graph()
        self._lock = threading.Lock()
        self._prepared: set[tuple[str, ...]] = set()
        self._handles: dict[str, Any] = {}
        self._session: Any = _v1.Session(graph=self._graph, config=_options())
        try:
            with self._graph.as_default():
                # `tf.compat.v1.saved_model.load` does the same, but logs a deprecation
                # warning. TF Serving loads in this way.
                loaded = SavedModelLoader(str(folder)).load(self._session, ["serve"])
        except tf.errors.OpError as error:
            raise from_number(error.error_code, plain_message(error.message)) from None
        except Exception as error:  # a damaged file can raise any exception
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
            inputs: Inputs by their names in the signature, with the signature's dtypes;
                shapes are not checked.
            outputs: Names of the outputs to compute.
            seconds: Timeout; the run is canceled before the next op.
            takes_long: True to run the graph in the thread pool for long requests.

        Raises:
            StatusError: An input is invalid, an op fails, or the timeout is exceeded.
        """
        definition = signature.definition
        # Sorted, since each order of feeds and fetches would be cached separately.
        given, wanted = sorted(inputs), sorted(outputs)
        fed = tuple(definition.inputs[name].name for name in given)
        if not self._is_prepared(signature.name, wanted):
            wanted = sorted(definition.outputs)
        fetched = tuple(definition.outputs[name].name for name in wanted)
        found = self.run_tensors(
            fed,
            [inputs[name] for name in given],
            fetched,
            seconds,
            takes_long=takes_long,
        )
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
        """Runs the graph with the given feeds and fetches; see `run`.

        Args:
            fed: Names of the fed tensors.
            values: Values of the fed tensors.
            fetched: Names of the fetched tensors.
            seconds: Timeout.
            takes_long: See `run`.

        Raises:
            StatusError: A value is invalid, an op fails, or the timeout is exceeded.
        """
        session = self._session
        if session is None:
            raise StatusError(StatusCode.UNAVAILABLE, "The version is being unloaded")
        try:
            feeds = zip(map(self._handle, fed), values, strict=True)
            fetches = [self._handle(name) for name in fetched]
            with _run_options(seconds, takes_long=takes_long) as options:
                # The public `run` takes 0.2 ms longer, and a callable of
                # `make_callable` has one timeout for all requests.
                found = session._call_tf_sessionrun(
                    options, dict(feeds), fetches, [], None
                )
            return [_array(value) for value in found]
        except tf.errors.DeadlineExceededError as error:
            raise from_number(
                error.error_code, f"Timed out: no answer within {seconds:.3g} s"
            ) from None
        except tf.errors.OpError as error:
            raise from_number(error.error_code, plain_message(error.message)) from None
        except (ValueError, TypeError, KeyError) as error:  # invalid value or tensor
            raise invalid(str(error)) from None

    def _handle(self, name: str) -> Any:
        """Returns the session's handle of a tensor."""
        if name not in self._handles:
            try:
                tensor = self._graph.get_tensor_by_name(name)
            except (KeyError, ValueError):  # an op, such as `__saved_model_init_op`
                raise invalid("the signature names a tensor that is none") from None
            self._handles[name] = tensor._as_tf_output()
        return self._handles[name]

    def _is_prepared(self, signature: str, outputs: Sequence[str]) -> bool:
        """Returns True if a run must fetch only the given outputs, False for all."""
        kind = (signature, *outputs)
        with self._lock:
            if kind not in self._prepared and len(self._prepared) < _PREPARED:
                self._prepared.add(kind)
            return kind in self._prepared

    def close(self) -> None:
        """Closes the session; no run may be in progress.

        The session's memory is freed immediately. The Python graph has reference
        cycles, so its memory is freed later by the garbage collector.
        """
        self._handles.clear()
        self._session.close()
        self._session = self._graph = None


def _let_aside_yield() -> None:
    """Lowers the CPU priority of the threads for long requests, where possible."""
    with suppress(OSError):
        for thread in Path("/proc/self/task").iterdir():
            if (thread / "comm").read_text().strip() == _ASIDE_THREADS:
                lower_priority(int(thread.name))


@contextmanager
def _run_options(seconds: float, *, takes_long: bool) -> Iterator[Any]:
    """Yields the options of a run with a timeout."""
    # 0 would mean no timeout.
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
    """Converts a fetched value to an array; scalar strings are returned as bytes."""
    return np.asarray(value, object if isinstance(value, bytes) else None)
