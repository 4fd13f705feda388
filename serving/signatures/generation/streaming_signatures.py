"""Signatures that generate one token per call, for continuous batching on a server.

`generate` has its whole loop in the graph, so a new request waits until the loop ends.
The signatures of this module run one iteration of the loop per call; the state of the
loop, including the KV cache, is returned as outputs named `state_…` and passed to the
next call as inputs of the same names. Between two calls a server may concatenate two
states, or keep only some rows of a state.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from transbeam.model.generation import continuous_batching
from transbeam.model.generation.continuous_batching import Running
from transbeam.model.generation.decode_functions import DecodeFunctions
from transbeam.model.generation.logits_processors import RowLogitsProcessor
from transbeam.model.generation.request_batch import RequestBatch
from transbeam.model.kernels.cache_update import updating_in_place
from transbeam.pipeline.tokenizers.base.ragged_rows import select_in_rows
from transbeam.serving.signatures.base.interface import Endpoint
from transbeam.serving.signatures.generation.sampling_params import (
    SPECS,
    SamplingParams,
)
from transbeam.serving.signatures.generation.text_generation import (
    PromptRows,
    TextGenerator,
)

STATE, OTHER = "state_", "other_"
_ROWS = tf.TensorSpec([None], tf.int32, name="rows")


class EncodedPrompts(NamedTuple):
    """Prompts, and the model's decode functions.

    Attributes:
        steps: The model's decode functions.
        prompts: The prompts.
        truncated: bool (B,), whether a text was cut.
        requests: The sampling parameters of each prompt.
    """

    steps: DecodeFunctions
    prompts: PromptRows
    truncated: tf.Tensor
    requests: RequestBatch


class StreamingSignatures:
    """The signatures `stream_begin`, `stream_step`, `stream_join`, `stream_keep`.

    Shapes: `B` texts. The tensors that make up a state are internal and may change.

    - `stream_begin`: the model's texts, and the inputs of `generate` except `stop` → a
      state, and for each text `token_id` int32 (B,), the newest token; `num_tokens`
      int32 (B,), the number of new tokens; `generated_text` string (B,), their text,
      bytes that may end within a character; `ended` bool (B,), whether generation is
      over; `finished` bool (B,), whether it ended at an end token; and `truncated` bool
      (B,).
    - `stream_step`: a state → the state with one more token in each row, and the other
      outputs of `stream_begin` except `truncated`. The buffers of the old state may be
      overwritten.
    - `stream_join`: a state and another state, with names `other_state_…` → both states
      concatenated.
    - `stream_keep`: a state and `rows` int32 (R,), at least one → these rows of the
      state.

    Args:
        writer: The task's decoding loops.
        texts: The text inputs.
        read: `read(params, texts)` reads the inputs `SPECS` for a batch of texts.
        prepare: `prepare(texts, params)` returns the prompts for `stream_begin`.
        example: `example(rows, width)` returns prompts of a given number and length,
            for their shapes.
    """

    def __init__(
        self,
        writer: TextGenerator,
        texts: list[tf.TensorSpec],
        read: Callable[[Any, tf.Tensor], SamplingParams],
        prepare: Callable[[Any, SamplingParams], EncodedPrompts],
        example: Callable[[int, int], EncodedPrompts],
    ):
        self.writer = writer
        self.texts = texts
        self.read = read
        self.prepare = prepare
        self.steps = example(1, 1).steps
        # The decoder of an encoder-decoder starts with one column, whatever the text,
        # but a request that joins later meets states with more columns.
        others = _start(example(2, 2))
        self.form = _Form(
            _start(example(1, 1)), continuous_batching.join(others, others)
        )

    def endpoints(self) -> dict[str, Endpoint]:
        state = self.form.specs(STATE)
        other = self.form.specs(OTHER + STATE)
        return {
            "stream_begin": Endpoint(self.begin, [*self.texts, *SPECS]),
            "stream_step": Endpoint(self.step, state),
            "stream_join": Endpoint(self.join, [*state, *other]),
            "stream_keep": Endpoint(self.keep, [*state, _ROWS]),
        }

    def begin(self, *inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `stream_begin`."""
        texts, params = inputs[: len(self.texts)], inputs[len(self.texts) :]
        prepared = self.prepare(texts, self.read(params, texts[0]))
        return {**self._outputs(_start(prepared)), "truncated": prepared.truncated}

    def step(self, *state: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `stream_step`."""
        with updating_in_place():
            running = continuous_batching.advance(self.steps, self.form.running(state))
        return self._outputs(running)

    def join(self, *states: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `stream_join`."""
        half = len(states) // 2
        both = self.form.running(states[:half]), self.form.running(states[half:])
        return self.form.named(continuous_batching.join(*both))

    def keep(self, *inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `stream_keep`."""
        *state, rows = inputs
        return self.form.named(continuous_batching.keep(self.form.running(state), rows))

    def _outputs(self, running: Running) -> dict[str, tf.Tensor]:
        columns = tf.range(running.columns)[None]
        # A request for no tokens generates one, which is not returned.
        wanted: Any = running.requests.max_new_tokens > 0
        number = tf.where(wanted, running.num_new, 0)
        first = (running.length - running.num_tokens)[:, None]
        new = (running.length - number)[:, None]
        parts = [
            select_in_rows(running.token_ids, (columns >= low) & (columns < up))
            for low, up in ((first, new), (new, running.length))
        ]
        ended, finished = running.ended(self.writer.stop_ids)
        return {
            **self.form.named(running),
            "token_id": running.last[:, 0],
            "num_tokens": number,
            "generated_text": self.writer.text(*parts),
            "ended": ended,
            "finished": finished & wanted,
        }


class _Form:
    """Maps a state to named tensors and back.

    Args:
        one: A state.
        other: Another state, with a different size on each axis whose size is variable.
    """

    def __init__(self, one: Running, other: Running):
        self._structure = _as_dict(one)
        self._names = [
            "_".join(map(str, path))
            for path, _ in keras.tree.flatten_with_path(self._structure)
        ]
        flat = map(keras.tree.flatten, map(_as_dict, (one, other)))
        self._specs = [
            tf.TensorSpec(_common(left.shape, right.shape), left.dtype)
            for left, right in zip(*flat, strict=True)
        ]

    def specs(self, prefix: str) -> list[tf.TensorSpec]:
        """Returns the specs of the state's tensors, with a prefix before each name."""
        return [
            tf.TensorSpec(spec.shape, spec.dtype, name=prefix + name)
            for name, spec in zip(self._names, self._specs, strict=True)
        ]

    def named(self, running: Running) -> dict[str, tf.Tensor]:
        """Converts the state of a running batch to named output tensors."""
        flat = keras.tree.flatten(_as_dict(running))
        return {
            STATE + name: tf.identity(value)
            for name, value in zip(self._names, flat, strict=True)
        }

    def running(self, tensors: Any) -> Running:
        """Converts a signature's input tensors to the state of a running batch."""
        found = keras.tree.pack_sequence_as(self._structure, list(tensors))
        adjustments = RowLogitsProcessor(**found["requests"].pop("adjustments"))
        requests = RequestBatch(**found["requests"], adjustments=adjustments)
        return Running(**{**found, "requests": requests})


def _start(prepared: EncodedPrompts) -> Running:
    """Returns the state after prefill and the first generated tokens."""
    prompts = prepared.prompts
    return continuous_batching.start(
        prepared.steps, prompts.token_ids, prompts.padding_mask, prepared.requests
    )


def _as_dict(running: Running) -> Mapping[str, Any]:
    requests = running.requests
    assert requests.adjustments is not None
    adjustments = requests.adjustments._asdict()
    found = running._asdict()
    found["requests"] = {**requests._asdict(), "adjustments": adjustments}
    return {**found, "length": tf.convert_to_tensor(running.length, tf.int32)}


def _common(one: tf.TensorShape, other: tf.TensorShape) -> list[int | None]:
    pairs = zip(one, other, strict=True)
    return [left if left == right else None for left, right in pairs]
