"""The exported files as the programs that will use them see them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef

from configs.held_back import output_held_back

# Signature and texts → outputs by name.
AskTexts = Callable[[str, Sequence[str]], Mapping[str, np.ndarray]]


def ask_saved_model(folder: Path) -> AskTexts:
    """A SavedModel, loaded as Python programs do."""
    signatures = tf.saved_model.load(str(folder)).signatures

    def ask(signature: str, texts: Sequence[str]) -> Mapping[str, np.ndarray]:
        answers = signatures[signature](text=tf.constant(texts, tf.string))
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

        def ask(signature: str, texts: Sequence[str]) -> Mapping[str, np.ndarray]:
            definition = loaded.signature_def[signature]
            outputs = {name: info.name for name, info in definition.outputs.items()}
            fed = np.array([text.encode() for text in texts], object)
            return session.run(outputs, {definition.inputs["text"].name: fed})

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

    Attributes:
        length: Tokens it reads, `S`.
        masks: Masked positions it answers, `P`.
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
            self._fill_mask = interpreter.get_signature_runner("fill_mask")
            self._embed = interpreter.get_signature_runner("embed")
            inputs = self._fill_mask.get_input_details()
            self.length = int(inputs["token_ids"]["shape"][1])
            self.masks = int(inputs["masked_positions"]["shape"][1])
            # The delegate is made, and announced, by the first call.
            self.embedding(np.zeros(1, np.int32))

    def logits(self, token_ids: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """The scores of all pieces at some positions.

        Args:
            token_ids: int32 (T,), not padded; at most `length`.
            positions: int32 (M,); at most `masks`.

        Returns:
            float32 (M, V).
        """
        answers = self._fill_mask(
            **self._padded(token_ids),
            masked_positions=_pad(positions, self.masks),
        )
        return answers["logits"][0, : len(positions)]

    def embedding(self, token_ids: np.ndarray) -> np.ndarray:
        """The vector of a text, float32 (D,), from its token ids (T,)."""
        return self._embed(**self._padded(token_ids))["embedding"][0]

    def _padded(self, token_ids: np.ndarray) -> dict[str, np.ndarray]:
        return {
            "token_ids": _pad(token_ids, self.length),
            "padding_mask": _pad(np.ones_like(token_ids), self.length),
        }


def _pad(row: np.ndarray, size: int) -> np.ndarray:
    """(N,) → (1, size), int32, zeros at the end."""
    return np.pad(row, (0, size - len(row)))[None].astype(np.int32)
