"""Signatures that write one token at a time, for a server that lets requests join.

`generate` keeps its whole loop in the graph, so who comes while it runs has to wait for
its end. Here each turn of the loop is a call, and what it is about, the keys and values
of each layer among it, goes out as outputs named `state_…` and comes in again as inputs
of the same names. Between two calls a server may put two states together, or keep some
of the rows.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from transbeam.model.generation import continuous_batching
from transbeam.model.generation.continuous_batching import Running
from transbeam.model.generation.decode_functions import DecodeFunctions
from transbeam.model.generation.request_batch import RequestBatch
from transbeam.model.generation.row_logits_processors import RowLogitsProcessor
from transbeam.model.kernels.cache_update import updating_in_place
from transbeam.pipeline.tokenizers.base.ragged_rows import chosen_in_rows
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
    """Prompts, and the model that reads them.

    Attributes:
        steps: The model.
        prompts: What is written on from.
        truncated: bool (B,), whether not all of a text is read.
        requests: What each of them asks for.
    """

    steps: DecodeFunctions
    prompts: PromptRows
    truncated: tf.Tensor
    requests: RequestBatch


class StreamingSignatures:
    """The signatures `stream_begin`, `stream_step`, `stream_join`, `stream_keep`.

    Shapes: `B` texts. A state has no form that a client could rely on.

    - `stream_begin`: the model's texts, and what `generate` takes but for `stop` → a
      state, and of each text what is told of it: `token_id` int32 (B,), the newest;
      `num_tokens` int32 (B,), how many are new; `generated_text` string (B,), what they
      say, bytes that may end amid a character; `ended` bool (B,), whether the text is
      over; `finished` bool (B,), whether by itself; and `truncated` bool (B,).
    - `stream_step`: a state → the state with one more token in each row, and what is
      told of it. What is kept of the old one may be written over.
    - `stream_join`: a state and another one, named `other_state_…` → both in one.
    - `stream_keep`: a state and `rows` int32 (R,), one at least → these rows of it.

    Args:
        writer: The task's.
        texts: The inputs that are text.
        read: `read(wishes, texts)` reads the inputs `SPECS` of so many texts.
        prepare: `prepare(texts, wishes)` gives what `stream_begin` begins with.
        example: `example(rows, width)` gives prompts of so many tokens, for their
            shapes.
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
        # A decoder beside an encoder begins with one column, whatever the text; but who
        # joins later finds more.
        others = _begun(example(2, 2))
        self.form = _Form(
            _begun(example(1, 1)), continuous_batching.join(others, others)
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
        texts, wishes = inputs[: len(self.texts)], inputs[len(self.texts) :]
        prepared = self.prepare(texts, self.read(wishes, texts[0]))
        return {**self._told(_begun(prepared)), "truncated": prepared.truncated}

    def step(self, *state: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `stream_step`."""
        with updating_in_place():
            running = continuous_batching.advance(self.steps, self.form.running(state))
        return self._told(running)

    def join(self, *states: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `stream_join`."""
        half = len(states) // 2
        both = self.form.running(states[:half]), self.form.running(states[half:])
        return self.form.named(continuous_batching.join(*both))

    def keep(self, *inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `stream_keep`."""
        *state, rows = inputs
        return self.form.named(continuous_batching.keep(self.form.running(state), rows))

    def _told(self, running: Running) -> dict[str, tf.Tensor]:
        columns = tf.range(running.columns)[None]
        # Who wants none has one all the same, and leaves without it.
        wanted: Any = running.requests.max_new_tokens > 0
        number = tf.where(wanted, running.num_new, 0)
        first = (running.length - running.num_tokens)[:, None]
        new = (running.length - number)[:, None]
        parts = [
            chosen_in_rows(running.token_ids, (columns >= low) & (columns < up))
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
    """How a state lies in named tensors.

    Args:
        one: A state.
        other: Another with other sizes, wherever sizes may differ.
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
        """Of all tensors, in their order."""
        return [
            tf.TensorSpec(spec.shape, spec.dtype, name=prefix + name)
            for name, spec in zip(self._names, self._specs, strict=True)
        ]

    def named(self, running: Running) -> dict[str, tf.Tensor]:
        """A state as outputs."""
        flat = keras.tree.flatten(_as_dict(running))
        return {
            STATE + name: tf.identity(value)
            for name, value in zip(self._names, flat, strict=True)
        }

    def running(self, tensors: Any) -> Running:
        """The state in tensors that come in."""
        found = keras.tree.pack_sequence_as(self._structure, list(tensors))
        adjustments = RowLogitsProcessor(**found["requests"].pop("adjustments"))
        requests = RequestBatch(**found["requests"], adjustments=adjustments)
        return Running(**{**found, "requests": requests})


def _begun(prepared: EncodedPrompts) -> Running:
    """The state after the first tokens."""
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
