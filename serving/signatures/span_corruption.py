"""What stands in each gap of a text."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from transbeam.serving.signatures.base.interface import Endpoint
from transbeam.serving.signatures.generation.sampling_params import after
from transbeam.serving.signatures.seq2seq import Seq2SeqTask
from transbeam.serving.text_ops.sentinels import fills_of, names_of, tokenize_with_gaps

_WITH_FILLS = ("serving_default", "generate", "search")


class SpanCorruptionTask(Seq2SeqTask):
    """The signatures of a model that was trained by span corruption.

    They are those of `Seq2SeqTask`: the text has gaps, written `<extra_id_0>`,
    `<extra_id_1>`, …, and the answer has each of them with what stands there behind it,
    which is also how `score` reads a `target_text`. Where it is written from a text
    there are two outputs more:

    - `gaps`: string (B, G), how the gaps of a text are written, in their order, and
      `""` after the last one. What was cut off, or is no special piece, is not there.
    - `fills`: string (B, G), what stands in each of them; `""` where the answer says
      nothing.

    Here, and only here, such a literal is a special piece. What stands between two gaps
    is tokenized alone: a piece that continues a word does not follow one.

    Args:
        trained: The tokenizer and the model.
    """

    def endpoints(self) -> dict[str, Endpoint]:
        endpoints = super().endpoints()
        for name in _WITH_FILLS:
            function, inputs = endpoints[name]
            endpoints[name] = Endpoint(self._with_fills(function), inputs)
        return endpoints

    def read(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return tokenize_with_gaps(self.tokenizer, texts)

    def _with_fills(self, function: Callable[..., Mapping[str, Any]]) -> Callable:
        def call(text: tf.Tensor, *wishes: tf.Tensor) -> dict[str, Any]:
            written = function(text, *wishes)
            # A refusal is told of alone; see `after`.
            asked = self.tokenize(*after(written["length"], text))["token_ids"]
            answer = written["token_ids"], written["length"]
            fills = fills_of(self.tokenizer, asked, *answer)
            return {"gaps": names_of(self.tokenizer, asked), "fills": fills, **written}

        return call
