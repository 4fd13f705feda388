"""A model asked in the cheapest way that a claim allows.

Its functions themselves, before they are exported; or its SavedModel in a session of
TensorFlow 1, as the stock server loads it, which takes a second, where
`tf.saved_model.load` takes up to ten.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.client.interface import SignatureTypes
from transbeam.serving.runtimes.saved_model import AskTexts, Texts
from transbeam.serving.server.inference.servable import _options as session_options
from transbeam.serving.signatures.task_factory import make_signature_task


def asking(trained: TrainedRun) -> AskTexts:
    """Asks a model's functions, as they are before they are traced."""
    endpoints = make_signature_task(trained).endpoints()

    def ask(signature: str, texts: Texts) -> Mapping[str, np.ndarray]:
        function, specs = endpoints[signature]
        assert texts.keys() == {spec.name for spec in specs}
        given = [tf.constant(texts[str(spec.name)], spec.dtype) for spec in specs]
        return {name: value.numpy() for name, value in function(*given).items()}

    return ask


class AskingClient:
    """A `transbeam.serving.client.interface.Client` of `serving_default` alone.

    Args:
        ask: Answers.
        names: Of its texts.
    """

    def __init__(self, ask: AskTexts, *names: str):
        self.ask: Callable[..., Mapping[str, np.ndarray]] = ask
        self.names = names

    def signatures(self) -> dict[str, SignatureTypes]:
        outputs = self.ask("serving_default", {name: [""] for name in self.names})
        inputs, given = dict.fromkeys(self.names, "DT_STRING"), dict.fromkeys(outputs)
        return {"serving_default": SignatureTypes(inputs, given)}


@contextmanager
def session_on(folder: Path, *, optimized: bool = False) -> Iterator[AskTexts]:
    """A SavedModel in a session, loaded as TF Serving does.

    What `tf.saved_model.load` makes good in Python, such as weights that only Keras
    can find, is not made good here.

    Args:
        folder: The version folder.
        optimized: As in a server. To optimize the graph of a signature takes seconds,
            and all that a test asks of it milliseconds.
    """
    config = None if optimized else _not_optimizing()
    session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
    try:
        with nullcontext(folder) if optimized else _as_written(folder) as source:
            loaded = _load_into(session, source)

        def ask(signature: str, texts: Texts) -> Mapping[str, np.ndarray]:
            definition = loaded.signature_def[signature]
            outputs = {name: info.name for name, info in definition.outputs.items()}
            fed = {
                definition.inputs[name].name: _encoded(column)
                for name, column in texts.items()
            }
            return session.run(outputs, fed)

        yield ask
    finally:
        session.close()


@contextmanager
def unoptimized() -> Iterator[None]:
    """Runs traced functions and loaded models without graph optimization.

    Of a model that writes that saves a third of what an export takes.
    """
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "transbeam.serving.server.inference.servable._options", _not_optimizing
            )
            yield
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


def _not_optimizing() -> Any:
    options = session_options()
    options.graph_options.rewrite_options.disable_meta_optimizer = True
    return options


@contextmanager
def _as_written(folder: Path) -> Iterator[Path]:
    """The same model, whose functions say that they are not to be optimized."""
    file = "saved_model.pb"
    saved = SavedModel.FromString((folder / file).read_bytes())
    options = _not_optimizing().SerializeToString()
    for graph in (one.graph_def for one in saved.meta_graphs):
        for nodes in (graph.node, *(one.node_def for one in graph.library.function)):
            for node in nodes:
                if "config_proto" in node.attr:
                    node.attr["config_proto"].s = options
    with TemporaryDirectory() as temporary:
        for path in folder.iterdir():
            if path.name != file:
                Path(temporary, path.name).symlink_to(path.absolute())
        Path(temporary, file).write_bytes(saved.SerializeToString())
        yield Path(temporary)


def _encoded(column):
    if isinstance(column, np.ndarray | np.generic) and column.dtype != object:
        return column
    return [one.encode() if isinstance(one, str) else one for one in column]


def _load_into(session: tf.compat.v1.Session, folder: Path) -> MetaGraphDef:
    logging = tf.compat.v1.logging
    verbosity = logging.get_verbosity()
    # It warns that programs should no longer load this way. TF Serving does.
    logging.set_verbosity(logging.ERROR)
    try:
        return tf.compat.v1.saved_model.load(session, ["serve"], str(folder))
    finally:
        logging.set_verbosity(verbosity)
