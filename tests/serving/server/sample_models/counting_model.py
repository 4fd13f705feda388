"""A model that writes numbers: after "3" come 4, 5, 6 and so on.

A text that comes to a multiple of ten has ended by itself, and at 13 everything fails.
Its signature `generate` repeats what it was asked.
"""

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from tests.harness.stages import copy_of, stage
from transbeam.serving.export.saved_model_writer import write_defaults
from transbeam.serving.server.models.warmup_requests import FILE
from transbeam.serving.server.streaming.stream_requests import BEGIN, JOIN, KEEP, STEP

TOKENS = 5  # where nothing is wished
UNLUCKY = 13
_STATE = {
    "state_number": tf.int32,
    "state_new": tf.int32,
    "state_most": tf.int32,
    "state_said": tf.string,
}
_WISHES = {"text": tf.string, "max_new_tokens": tf.int32, "seed": tf.int32}
_GENERATE = {**_WISHES, "stop": tf.string}
_LEFT_OUT = {"max_new_tokens": -1, "seed": 7, "stop": ""}


def save_counting(folder: Path) -> Path:
    """Writes a version, whose folder must be new."""
    return copy_of(stage("counting", _write), folder)


def _write(folder: Path) -> None:
    model = Counting()
    tf.saved_model.save(model, str(folder), signatures=model.signatures())
    write_defaults(folder, {"generate": _LEFT_OUT})


def warm_up(folder: Path) -> None:
    """Puts a request into a version that it is warmed up with."""
    log = prediction_log_pb2.PredictionLog()
    request = log.predict_log.request
    request.model_spec.signature_name = BEGIN
    for name, dtype in _WISHES.items():
        value = np.array(["3" if dtype is tf.string else 2], dtype.as_numpy_dtype)
        request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    (folder / FILE).parent.mkdir()
    with tf.io.TFRecordWriter(str(folder / FILE)) as writer:
        writer.write(log.SerializeToString())


class Counting(tf.Module):
    def one_more(self, x: Any) -> Any:
        return {"y": x + 1.0}

    def begin(self, text: Any, max_new_tokens: Any, seed: Any) -> Any:
        most = tf.where(max_new_tokens == 0, TOKENS, max_new_tokens)
        number = tf.strings.to_number(text, tf.int32)
        nothing = tf.fill(tf.shape(text), "")
        told = self.step(number, 0 * seed, most, nothing)
        return {**told, "truncated": tf.strings.length(text) > 5}

    def step(self, number: Any, new: Any, most: Any, said: Any) -> Any:
        number, new = number + 1, new + 1
        lucky = tf.reduce_all(number != UNLUCKY)
        with tf.control_dependencies([tf.debugging.Assert(lucky, ["unlucky"])]):
            said = said + " " + tf.strings.as_string(number)
        finished = number % 10 == 0
        state = dict(zip(_STATE, (number, new, most, said), strict=True))
        return {
            **state,
            "token_id": tf.identity(number),
            "num_tokens": tf.identity(new),
            "generated_text": tf.identity(said),
            "ended": finished | (new >= most),
            "finished": finished,
        }

    def generate(self, text: Any, *wishes: Any) -> Any:
        """Repeats what was asked, in one line."""
        said = ["max_new_tokens: found -5, and that is no number"]
        fine = tf.reduce_all(wishes[0] >= -1)
        with tf.control_dependencies([tf.debugging.Assert(fine, said)]):
            numbers = [tf.strings.as_string(number) for number in wishes[:2]]
        return {"generated_text": tf.strings.join([text, *numbers, wishes[2]], "|")}

    def join(self, *states: Any) -> Any:
        half = len(states) // 2
        pairs = zip(_STATE, states[:half], states[half:], strict=True)
        return {name: tf.concat([one, other], axis=0) for name, one, other in pairs}

    def keep(self, *inputs: Any) -> Any:
        *state, rows = inputs
        return {
            name: tf.gather(values, rows)
            for name, values in zip(_STATE, state, strict=True)
        }

    def signatures(self) -> dict[str, Any]:
        wishes, state = _specs(_WISHES), _specs(_STATE)
        others = _specs({f"other_{name}": dtype for name, dtype in _STATE.items()})
        made = {
            "serving_default": (self.one_more, _specs({"x": tf.float32})),
            "generate": (self.generate, _specs(_GENERATE)),
            BEGIN: (self.begin, wishes),
            STEP: (self.step, state),
            JOIN: (self.join, [*state, *others]),
            KEEP: (self.keep, [*state, *_specs({"rows": tf.int32})]),
        }
        return {
            name: tf.function(function, input_signature=specs).get_concrete_function()
            for name, (function, specs) in made.items()
        }


def _specs(dtypes: dict[str, Any]) -> list[tf.TensorSpec]:
    return [tf.TensorSpec([None], dtype, name=name) for name, dtype in dtypes.items()]
