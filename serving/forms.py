"""The exported files as the programs that will use them see them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef

from configs.held_back import output_held_back

# By their inputs' names: texts, or numbers.
Texts = Mapping[str, Sequence[str] | np.ndarray]
# Signature and texts → outputs by name.
AskTexts = Callable[[str, Texts], Mapping[str, np.ndarray]]


def ask_saved_model(folder: Path) -> AskTexts:
    """A SavedModel, loaded as Python programs do."""
    signatures = tf.saved_model.load(str(folder)).signatures

    def ask(signature: str, texts: Texts) -> Mapping[str, np.ndarray]:
        function = signatures[signature]
        specs = function.structured_input_signature[1]
        inputs = {
            name: tf.constant(of, specs[name].dtype) for name, of in texts.items()
        }
        answers = function(**inputs)
        return {name: value.numpy() for name, value in answers.items()}

    return ask


@contextmanager
def session_on(folder: Path) -> Iterator[AskTexts]:
    """A SavedModel in a session, loaded as TF Serving does.

    What `tf.saved_model.load` makes good in Python, such as weights that only Keras
    can find, is not made good here.
    """
    session = tf.compat.v1.Session(graph=tf.Graph())
    try:
        loaded = _load_into(session, folder)

        def ask(signature: str, texts: Texts) -> Mapping[str, np.ndarray]:
            definition = loaded.signature_def[signature]
            outputs = {name: info.name for name, info in definition.outputs.items()}
            fed = {
                definition.inputs[name].name: [
                    one.encode() if isinstance(one, str) else one for one in column
                ]
                for name, column in texts.items()
            }
            return session.run(outputs, fed)

        yield ask
    finally:
        session.close()


def _load_into(session: tf.compat.v1.Session, folder: Path) -> MetaGraphDef:
    logging = tf.compat.v1.logging
    verbosity = logging.get_verbosity()
    # It warns that programs should no longer load this way. TF Serving does.
    logging.set_verbosity(logging.ERROR)
    try:
        return tf.compat.v1.saved_model.load(session, ["serve"], str(folder))
    finally:
        logging.set_verbosity(verbosity)


class PhoneModel:
    """A TFLite file in the interpreter that phones have.

    Args:
        file: The `.tflite` file.
        delegate: With XNNPACK, the default; or the builtin kernels alone, which a
            phone falls back to.
    """

    def __init__(self, file: Path, *, delegate: bool = True):
        resolver = (
            OpResolverType.BUILTIN
            if delegate
            else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        )
        with output_held_back():
            interpreter = Interpreter(
                str(file), experimental_op_resolver_type=resolver, num_threads=1
            )
            self._runners = {
                name: interpreter.get_signature_runner(name)
                for name in interpreter.get_signature_list()
            }
            self._inputs = {
                name: runner.get_input_details()
                for name, runner in self._runners.items()
            }
            # The delegate is made, and announced, by the first call.
            for name, inputs in self._inputs.items():
                self.ask(name, **{key: np.ones(1, np.int32) for key in inputs})

    def size(self, signature: str, name: str) -> int:
        """How many numbers an input holds."""
        return int(self._inputs[signature][name]["shape"][1])

    def ask(self, signature: str, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """A signature's answers for one text, each without the axis of the batch.

        Args:
            signature: Its name.
            **inputs: int32 rows (N,), not padded; at most `size` long.
        """
        padded = {
            name: np.pad(row, (0, self.size(signature, name) - len(row)))
            for name, row in inputs.items()
        }
        answers = self._runners[signature](
            **{name: row[np.newaxis].astype(np.int32) for name, row in padded.items()}
        )
        return {name: answer[0] for name, answer in answers.items()}
