"""Decoding loops of models that answer prompts."""

import re

import tensorflow as tf

from transbeam.configs.schema.evaluation import EvaluationConfig
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.serving.signatures.generation.text_generation import TextGenerator
from transbeam.serving.text_ops.prompts import written_text


class AnswerGenerator(TextGenerator):
    """Generates answers, which are texts of their own and do not continue a prompt.

    Args:
        tokenizer: As in `TextGenerator`.
        evaluation: As in `TextGenerator`.
        max_new_tokens: As in `TextGenerator`.
        seed: As in `TextGenerator`.
        separator: The text between prompt and answer, such as a space, which is not
            part of the answer.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        evaluation: EvaluationConfig,
        max_new_tokens: int,
        seed: int,
        separator: str,
    ):
        super().__init__(tokenizer, evaluation, max_new_tokens, seed)
        self.separator = separator

    def text(self, before: tf.RaggedTensor, new: tf.RaggedTensor) -> tf.Tensor:
        """Detokenizes answers, without the separator: string (B,)."""
        text = self.tokenizer.detokenize(written_text(new, self.tokenizer))
        if not self.separator:
            return text
        return tf.strings.regex_replace(text, f"^{re.escape(self.separator)}", "")
