"""The signatures of a model trained by span corruption."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from transbeam.serving.signatures.base.interface import Endpoint
from transbeam.serving.signatures.generation.sampling_params import after
from transbeam.serving.signatures.seq2seq import Seq2SeqTask
from transbeam.serving.text_ops.sentinels import (
    sentinel_literals,
    sentinel_texts,
    tokenize_with_gaps,
)

_WITH_FILLS = ("serving_default", "generate", "search")


class SpanCorruptionTask(Seq2SeqTask):
    """The signatures of a model trained by span corruption.

    The signatures are those of `Seq2SeqTask`: the text contains the sentinels
    `<extra_id_0>`, `<extra_id_1>`, …, and the output repeats each sentinel, followed by
    the text that replaces it. The `target_text` of `score` has the format of this
    output. Signatures that generate from a text have two more outputs:

    - `gaps`: string (B, G), the sentinels of a text, in their order, padded with `""`.
      Sentinels that were cut off or are not in the vocabulary are omitted from `gaps`.
    - `fills`: string (B, G), the text for each sentinel; `""` if the output has none.

    Each signature of this class that takes texts parses a literal such as
    `<extra_id_0>` as a special token; signatures of other classes do not. The text
    between two sentinels is tokenized separately: it never begins with a piece that
    continues a word.

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
        def call(text: tf.Tensor, *params: tf.Tensor) -> dict[str, Any]:
            written = function(text, *params)
            # If a check fails its error alone is reported; see `after`.
            token_ids = self.tokenize(*after(written["length"], text))["token_ids"]
            answer = written["token_ids"], written["length"]
            fills = sentinel_texts(self.tokenizer, token_ids, *answer)
            return {
                "gaps": sentinel_literals(self.tokenizer, token_ids),
                "fills": fills,
                **written,
            }

        return call
