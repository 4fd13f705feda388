"""The signatures of a language model that replies in conversations."""

from typing import Any

import tensorflow as tf

from transbeam.pipeline.objectives.dialogue import chat_format
from transbeam.pipeline.tokenizers.base.ragged_rows import append_token
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.answer import AnswerTask
from transbeam.serving.text_ops.prompts import EncodedPrompt


class DialogueTask(AnswerTask):
    """The signatures of a language model that replies in conversations.

    The signatures are those of `AnswerTask`. A prompt, `text`, is a conversation as the
    chat template renders it, up to the beginning of the reply and without spaces at its
    end; the special tokens of the template are read as such. The template lies beside
    the model, `assets.extra/chat_template.jinja`.

    Args:
        trained: The tokenizer and the model.
    """

    def __init__(self, trained: TrainedRun):
        opening, closing = chat_format(trained.tokenizer).answer_frame()
        self._opening, self._closing = opening, closing
        super().__init__(trained)

    @property
    def separator(self) -> str:
        return self._opening

    def encode(self, texts: Any, most: tf.Tensor) -> EncodedPrompt:
        tokens, pad = self._beginnings(*texts), self.tokenizer.special.pad
        return EncodedPrompt.from_tokens(tokens, most, self.max_length, pad)

    def encode_answers(self, answers: tf.Tensor) -> tf.RaggedTensor:
        texts = tf.strings.join([self._opening, answers, self._closing])
        tokens, special = self.tokenizer.tokenize(texts), self.tokenizer.special
        ends = tuple(self.tokenizer.pieces[end] for end in special.ends)
        if self._closing.endswith(ends):
            return tokens
        return append_token(tokens, special.end)
