"""A SavedModel in a session of TensorFlow 1, as the stock server loads it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef

from serving.forms import AskTexts, Texts


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
