"""y = x / 2 + offset: TF Serving's own example, with a signature of each kind.

Beside them some that show what a server does to a batch, and one that answers when a
test lets it.
"""

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tests.harness.stages import copy_of, stage

VECTOR = [None]
BEGUN = "-begun"
v1: Any = tf.compat.v1


def save_half_plus(folder: Path, offset: float = 2.0, *, held: bool = True) -> Path:
    """Writes a version, whose folder must be new.

    Args:
        folder: Of the version.
        offset: Half plus what.
        held: Whether with the signature that takes as long as one likes.
    """
    name = f"half_plus-{offset:g}{'' if held else '-at-once'}"
    return copy_of(stage(name, lambda made: _write(made, offset, held=held)), folder)


def folder_of_half_plus_two() -> Path:
    """A model's folder, with version 123; to be read."""
    return stage("half_plus_two", lambda made: _write(made / "123", 2.0))


def save_of_tensorflow_1(folder: Path) -> Path:
    """Writes a version as TensorFlow 1 did: all signatures read one placeholder."""
    return copy_of(stage("half_plus-of-tensorflow-1", _write_of_tensorflow_1), folder)


class Held:
    """A question that is answered when a test lets it, or when it takes too long.

    Attributes:
        body: The question.
        inputs: The same, as a tensor.
        answer: To it.
    """

    def __init__(self, file: Path):
        self.file = file
        self.body = {"signature_name": "held", "instances": [str(file)]}
        self.inputs = {"file": np.array([str(file).encode()], object)}
        self.answer = {"predictions": [str(file)]}

    @property
    def is_run(self) -> bool:
        """Returns whether the model has started to run the request."""
        return self.file.with_name(f"{self.file.name}{BEGUN}").exists()

    def let(self) -> None:
        """Lets it be answered."""
        self.file.touch()


def _write(folder: Path, offset: float, *, held: bool = True) -> None:
    model = HalfPlus(offset)
    signatures = model.signatures()
    if not held:
        del signatures["held"]
    tf.saved_model.save(model, str(folder), signatures=signatures)
    updater = v1.saved_model.signature_def_utils.MethodNameUpdater(str(folder))
    for method in ("regress", "classify"):
        name = f"tensorflow/serving/{method}"
        updater.replace_method_name(f"{method}_x_to_y", name, tags="serve")
    updater.save()


def _write_of_tensorflow_1(folder: Path) -> None:
    # A builder of TensorFlow 1 insists on making the folder.
    folder.rmdir()
    info = v1.saved_model.build_tensor_info
    methods = v1.saved_model.signature_constants
    with v1.Graph().as_default(), v1.Session() as session:
        half = v1.get_variable("half", initializer=0.5, use_resource=False)
        examples = v1.placeholder(tf.string, [None], name="tf_example")
        features = {"x": tf.io.FixedLenFeature([1], tf.float32)}
        y = half * tf.io.parse_example(examples, features)["x"] + 2.0
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(folder))
        made = {
            "regress_x_to_y": ("outputs", methods.REGRESS_METHOD_NAME),
            "classify_x_to_y": ("scores", methods.CLASSIFY_METHOD_NAME),
        }
        signatures = {
            name: v1.saved_model.build_signature_def(
                {"inputs": info(examples)}, {output: info(y)}, method
            )
            for name, (output, method) in made.items()
        }
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()


class HalfPlus(tf.Module):
    def __init__(self, offset: float):
        super().__init__()
        self.half = tf.Variable(0.5)
        self.offset = tf.Variable(offset)

    def one(self, x: Any) -> Any:
        return {"y": self.half * x + self.offset}

    def two(self, x: Any, scale: Any) -> Any:
        y = tf.cast(scale, tf.float32) * self.one(x)["y"]
        return {"y": y, "as_text": tf.strings.as_string(scale)}

    def regress(self, inputs: Any) -> Any:
        return {"outputs": self._of_examples(inputs)}

    def classify(self, inputs: Any) -> Any:
        scores = self._of_examples(inputs)
        return {"classes": tf.fill(tf.shape(scores), "y"), "scores": scores}

    def rows(self, text: Any) -> Any:
        """Number of rows it was run with; fails where a text is `poison`."""
        good = tf.reduce_all(tf.not_equal(text, "poison"))
        with tf.control_dependencies([tf.debugging.Assert(good, ["poison"])]):
            length = tf.strings.length(text)
        return {"length": length, "rows": tf.fill(tf.shape(text), tf.size(text))}

    def codes(self, text: Any) -> Any:
        """As wide as the longest text, filled up with -1."""
        found = tf.strings.unicode_decode(text, "UTF-8")
        return {"codes": found.to_tensor(-1)}

    def sums(self, matrix: Any) -> Any:
        return {"sums": tf.reduce_sum(matrix, 1)}

    def total(self, x: Any) -> Any:
        """One number, whatever there is: nothing to cut up."""
        return {"total": tf.reduce_sum(x)}

    def held(self, file: Any) -> Any:
        """Makes a file beside each, and answers when they are all there."""
        begun = tf.map_fn(lambda name: _touch(name + BEGUN), file)

        def is_missing(names: Any) -> Any:
            return tf.size(tf.io.matching_files(names)) < tf.size(names)

        with tf.control_dependencies([begun]):
            names = tf.identity(file)
        [found] = tf.while_loop(is_missing, lambda names: [names + ""], [names])
        return {"found": found}

    def signatures(self) -> dict[str, Any]:
        floats = tf.TensorSpec(VECTOR, tf.float32, name="x")
        column = tf.TensorSpec([None, 1], tf.float32, name="x")
        texts = tf.TensorSpec(VECTOR, tf.string, name="text")
        examples = tf.TensorSpec(VECTOR, tf.string, name="inputs")
        scale = tf.TensorSpec(VECTOR, tf.int32, name="scale")
        matrix = tf.TensorSpec([None, None], tf.int32, name="matrix")
        files = tf.TensorSpec(VECTOR, tf.string, name="file")
        made = {
            "serving_default": (self.one, [floats]),
            # As in TF Serving's own example, whose clients send plain numbers.
            "column": (self.one, [column]),
            "two": (self.two, [floats, scale]),
            "regress_x_to_y": (self.regress, [examples]),
            "classify_x_to_y": (self.classify, [examples]),
            # As `tf.saved_model.save` writes it: for Predict, by what it says.
            "regress_plainly": (self.regress, [examples]),
            "rows": (self.rows, [texts]),
            "codes": (self.codes, [texts]),
            "sums": (self.sums, [matrix]),
            "total": (self.total, [floats]),
            "held": (self.held, [files]),
        }
        return {
            name: tf.function(function, input_signature=specs).get_concrete_function()
            for name, (function, specs) in made.items()
        }

    def _of_examples(self, inputs: Any) -> Any:
        features = {"x": tf.io.FixedLenFeature([1], tf.float32)}
        return self.one(tf.io.parse_example(inputs, features)["x"])["y"]


def _touch(file: Any) -> Any:
    with tf.control_dependencies([tf.io.write_file(file, "")]):
        return tf.identity(file)
