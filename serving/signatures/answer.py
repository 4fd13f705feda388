"""The signatures that all models have which answer prompts."""

from typing import Any

import tensorflow as tf

from transbeam.pipeline.tokenizers.base.ragged_rows import (
    append_token,
    concatenate_ragged,
)
from transbeam.serving.signatures.base.interface import TARGET, Endpoint, ids_spec
from transbeam.serving.signatures.causal import CausalTask
from transbeam.serving.signatures.generation.answer_generation import AnswerGenerator
from transbeam.serving.signatures.generation.log_likelihood import log_likelihood
from transbeam.serving.text_ops.prompts import EncodedPrompt
from transbeam.serving.text_ops.text_encoder import right_padded

_SCORED = [
    ids_spec("token_ids"),
    *(ids_spec(name, None) for name in ("length", "prefix_length")),
]


class AnswerTask(CausalTask):
    """The signatures of a decoder that answers prompts.

    The signatures are those of `CausalTask`, with these differences:

    - There is no `embed`.
    - `generated_text` is the answer, without the spaces that separate it from the
      prompt.
    - `score`: the inputs and `target_text`, an answer → `log_likelihood` float32 (B,),
      in nats, of the answer and its end token, given the prompt; `num_tokens` int32
      (B,), the number of scored tokens; `truncated`. An answer that is too long by
      itself is cut at its end.
    - `score_ids`: `token_ids` int32 (B, T), `length` and `prefix_length` int32 (B,),
      the numbers of all tokens and of those of the prompt → `log_likelihood` and
      `num_tokens`.

    Args:
        trained: The tokenizer and the model.
    """

    @property
    def separator(self) -> str:
        """The spaces between a prompt and its answer."""
        raise NotImplementedError

    def encode(self, texts: Any, most: tf.Tensor) -> EncodedPrompt:
        """Reads prompts and cuts them to a number of tokens, int32 (B,)."""
        raise NotImplementedError

    def encode_answers(self, answers: tf.Tensor) -> tf.RaggedTensor:
        """Tokenizes answers as they follow prompts, with their end: (B, None)."""
        texts = tf.strings.join([self.separator, answers])
        tokens = self.tokenizer.tokenize(texts)
        return append_token(tokens, self.tokenizer.special.end)

    def make_writer(self, max_new_tokens: int) -> AnswerGenerator:
        config = self.trained.config
        return AnswerGenerator(
            self.tokenizer,
            config.evaluation,
            max_new_tokens,
            config.seed,
            self.separator,
        )

    def endpoints(self) -> dict[str, Endpoint]:
        causal = super().endpoints()
        del causal["embed"]  # it is of texts, not of prompts
        return {
            **causal,
            "score": Endpoint(self.score_answer, [*self.texts, TARGET]),
            "score_ids": Endpoint(self.score_answer_ids, _SCORED),
        }

    def score_answer(self, *inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `score`."""
        *texts, target = inputs
        after = self.encode_answers(target)
        cut = after.row_lengths() > self.most
        after = after[:, : self.most]
        most = self.max_length - tf.cast(after.row_lengths(), tf.int32)
        prompts = self.encode(texts, most)
        whole = concatenate_ragged(prompts.tokens, after)
        token_ids, length, _ = right_padded(
            whole, self.max_length, self.tokenizer.special.pad
        )
        prefix_length = tf.cast(prompts.tokens.row_lengths(), tf.int32)
        return {
            **self.score_answer_ids(token_ids, length, prefix_length),
            "truncated": prompts.truncated | cut,
        }

    def score_answer_ids(
        self, token_ids: tf.Tensor, length: tf.Tensor, prefix_length: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The signature `score_ids`."""
        size = tf.shape(token_ids)[1]
        mask, given = (
            tf.sequence_mask(each, size, dtype=tf.int32)
            for each in (length, prefix_length)
        )
        logits = self.logits_ids(token_ids, mask)["logits"]
        is_answer = mask * (1 - given)
        return log_likelihood(logits[:, :-1], token_ids[:, 1:], is_answer[:, 1:])
