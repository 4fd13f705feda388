"""y = x / 2 + offset: TF Serving's own example, with a signature of each kind.

Beside them some that show what a server does to a batch.
"""

from pathlib import Path
from typing import Any

import tensorflow as tf

VECTOR = [None]
v1: Any = tf.compat.v1


def save_half_plus(folder: Path, offset: float = 2.0, *, slow: bool = True) -> Path:
    """Writes a version, whose folder must be new.

    Args:
        folder: Of the version.
        offset: Half plus what.
        slow: Whether with the signature that takes as long as one likes.
    """
    model = HalfPlus(offset)
    signatures = model.signatures()
    if not slow:
        del signatures["slow"]
    tf.saved_model.save(model, str(folder), signatures=signatures)
    updater = v1.saved_model.signature_def_utils.MethodNameUpdater(str(folder))
    for method in ("regress", "classify"):
        name = f"tensorflow/serving/{method}"
        updater.replace_method_name(f"{method}_x_to_y", name, tags="serve")
    updater.save()
    return folder


def save_of_tensorflow_1(folder: Path) -> Path:
    """Writes a version as TensorFlow 1 did: all signatures read one placeholder."""
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
    return folder


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
        """How many rows it was run with; fails where a text is `poison`."""
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

    def slow(self, turns: Any) -> Any:
        """Takes some microseconds a turn."""
        most = tf.reduce_max(turns)
        done = tf.while_loop(lambda n: n < most, lambda n: [n + 1], [tf.constant(0)])
        return {"done": tf.fill(tf.shape(turns), done[0])}

    def signatures(self) -> dict[str, Any]:
        floats = tf.TensorSpec(VECTOR, tf.float32, name="x")
        texts = tf.TensorSpec(VECTOR, tf.string, name="text")
        examples = tf.TensorSpec(VECTOR, tf.string, name="inputs")
        scale = tf.TensorSpec(VECTOR, tf.int32, name="scale")
        matrix = tf.TensorSpec([None, None], tf.int32, name="matrix")
        turns = tf.TensorSpec(VECTOR, tf.int32, name="turns")
        made = {
            "serving_default": (self.one, [floats]),
            "two": (self.two, [floats, scale]),
            "regress_x_to_y": (self.regress, [examples]),
            "classify_x_to_y": (self.classify, [examples]),
            # As `tf.saved_model.save` writes it: for Predict, by what it says.
            "regress_plainly": (self.regress, [examples]),
            "rows": (self.rows, [texts]),
            "codes": (self.codes, [texts]),
            "sums": (self.sums, [matrix]),
            "total": (self.total, [floats]),
            "slow": (self.slow, [turns]),
        }
        return {
            name: tf.function(function, input_signature=specs).get_concrete_function()
            for name, (function, specs) in made.items()
        }

    def _of_examples(self, inputs: Any) -> Any:
        features = {"x": tf.io.FixedLenFeature([1], tf.float32)}
        return self.one(tf.io.parse_example(inputs, features)["x"])["y"]
