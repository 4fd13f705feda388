"""The signatures of a prefix language model."""

from typing import Any

import tensorflow as tf

from transbeam.pipeline.tokenizers.base.ragged_rows import (
    append_token,
    concatenate_ragged,
    filter_rows,
    is_before,
)
from transbeam.serving.signatures.base.attention_maps import LONGEST
from transbeam.serving.signatures.base.interface import TARGET, TEXT, Endpoint, ids_spec
from transbeam.serving.signatures.causal import CausalTask
from transbeam.serving.signatures.generation.log_likelihood import log_likelihood
from transbeam.serving.signatures.generation.tflite_signatures import (
    phone_calls,
    prefix_endpoints,
)
from transbeam.serving.text_ops.prompts import EncodedPrompt, beginnings
from transbeam.serving.text_ops.text_encoder import right_padded

_INPUTS = ("token_ids", "padding_mask", "prefix_mask")
_SCORED = [
    ids_spec("token_ids"),
    *(ids_spec(n, None) for n in ("length", "prefix_length")),
]


class PrefixTask(CausalTask):
    """The signatures of a prefix language model.

    The prompt is the prefix, with bidirectional attention. The signatures are those of
    `CausalTask` except `embed`, but a score is the conditional log-likelihood of a
    target given its prefix, not that of a whole text.

    - `score`: `text` and `target_text`, string (B,) → `log_likelihood` float32 (B,), in
      nats, of `target_text` and the end of the document, given `text`; `num_tokens`
      int32 (B,), the number of scored tokens; `truncated`. `text` and `target_text` are
      tokenized together, as in a document, and a token that spans both is part of the
      target. If the document is too long its beginning is cut; a target that is too
      long by itself is cut at its end.
    - `score_ids`: `token_ids` int32 (B, T), `length` and `prefix_length` int32 (B,),
      the numbers of all tokens and of prefix tokens → `log_likelihood`, `num_tokens`.
    - `logits_ids`: `token_ids`, `padding_mask` and `prefix_mask` int32 (B, T), 1 for
      the tokens of the prefix → `logits` float32 (B, T, V).

    Args:
        trained: The tokenizer and the model.
    """

    def endpoints(self) -> dict[str, Endpoint]:
        causal = super().endpoints()
        del causal["embed"]  # it reads no prefix
        return {
            **causal,
            "score": Endpoint(self.score_target, [TEXT, TARGET]),
            "score_ids": Endpoint(self.score_target_ids, _SCORED),
            "logits_ids": Endpoint(self.logits_given, [ids_spec(n) for n in _INPUTS]),
        }

    def phone_endpoints(self) -> dict[str, Endpoint]:
        calls, sizes = phone_calls(self.trained)
        # A prompt cannot be read in chunks, so one size is that of the whole cache.
        return prefix_endpoints(calls, sorted({*sizes, calls.slots}))

    def read_for_attention(self, *texts: tf.Tensor, longest: int = LONGEST) -> Any:
        """Reads texts for the signature `attention`; see `AttentionReader`."""
        inputs, truncated = super().read_for_attention(*texts, longest=longest)
        # The whole text is the prefix.
        return {**inputs, "prefix_mask": inputs["padding_mask"]}, truncated

    def score_target(self, text: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `score`."""
        special = self.tokenizer.special
        both: Any = self.tokenizer.tokenize(tf.strings.join([text, target]))
        given = _common(both, self.tokenizer.tokenize(text))
        is_given = is_before(both, given)
        before = beginnings(filter_rows(both, is_given), self.tokenizer)
        after = append_token(filter_rows(both, tf.logical_not(is_given)), special.end)
        cut = after.row_lengths() > self.most
        after = after[:, : self.most]
        room = self.max_length - tf.cast(after.row_lengths(), tf.int32)
        prompts = EncodedPrompt.from_tokens(before, room, self.max_length, special.pad)
        whole = concatenate_ragged(prompts.tokens, after)
        token_ids, length, _ = right_padded(whole, self.max_length, special.pad)
        prefix_length = tf.cast(prompts.tokens.row_lengths(), tf.int32)
        return {
            **self.score_target_ids(token_ids, length, prefix_length),
            "truncated": prompts.truncated | cut,
        }

    def score_target_ids(
        self, token_ids: tf.Tensor, length: tf.Tensor, prefix_length: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The signature `score_ids`."""
        size = tf.shape(token_ids)[1]
        mask = tf.sequence_mask(length, size, dtype=tf.int32)
        prefix = mask * tf.sequence_mask(prefix_length, size, dtype=tf.int32)
        logits = self.logits_given(token_ids, mask, prefix)["logits"]
        return log_likelihood(logits[:, :-1], token_ids[:, 1:], (mask - prefix)[:, 1:])

    def logits_given(self, *inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `logits_ids`."""
        named = dict(zip(_INPUTS, inputs, strict=True))
        return {"logits": self.model(named, training=False)["logits"]}


def _common(whole: tf.RaggedTensor, beginning: tf.RaggedTensor) -> tf.Tensor:
    """Returns the length of the longest common prefix of two rows: int64 (B,)."""
    of_whole = whole.to_tensor(-1)
    of_beginning = beginning.to_tensor(-2, shape=tf.shape(of_whole, tf.int64))
    same: Any = of_whole == of_beginning
    return tf.reduce_sum(tf.math.cumprod(tf.cast(same, tf.int64), axis=1), axis=1)
