"""The signatures of a language model that answers prompts."""

from typing import Any

import tensorflow as tf

from transbeam.configs.base.templates import template_parts
from transbeam.configs.loader.compatibility import answer_tokens
from transbeam.configs.schema.objectives.supervised import CompletionConfig
from transbeam.configs.schema.objectives.traits import input_names
from transbeam.pipeline.objectives.base.prompt_truncation import TemplateWords
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.answer import AnswerTask
from transbeam.serving.signatures.base.attention_maps import attention_endpoint
from transbeam.serving.signatures.base.interface import SECOND_TEXT, TEXT, Endpoint
from transbeam.serving.signatures.generation.generate_signatures import Prompt
from transbeam.serving.text_ops.prompt_truncation import truncate_prompts
from transbeam.serving.text_ops.prompts import EncodedPrompt, beginnings

_FIELDS = {"text": TEXT, "second_text": SECOND_TEXT}


class CompletionTask(AnswerTask):
    """The signatures of a language model that answers prompts.

    The signatures are those of `AnswerTask`, with these differences:

    - The inputs are the fields of the template `objective.prompt`: `text`,
      `second_text`, or both. The template is part of the graph.
    - A prompt that is too long is cut as in the records, so that it leaves room for
      `evaluation.max_new_tokens` new tokens (64 by default; at most half of the model's
      maximum length); `truncated` says so.
    - `tokenize`: the inputs → `token_ids`, `length` of the prompt that is generated
      from; `truncated`.

    Args:
        trained: The tokenizer and the model.
    """

    def __init__(self, trained: TrainedRun):
        objective = trained.config.objective
        assert isinstance(objective, CompletionConfig)
        self.objective = objective
        super().__init__(trained)
        self.words = TemplateWords.from_config(objective, trained.tokenizer)
        self.longest_prompt = self.max_length - answer_tokens(trained.config)

    @property
    def separator(self) -> str:
        return self.objective.separator

    @property
    def texts(self) -> list[tf.TensorSpec]:
        return [_FIELDS[name] for name in input_names(self.objective)]

    def endpoints(self) -> dict[str, Endpoint]:
        return {
            **super().endpoints(),
            "tokenize": Endpoint(self.tokenize_prompt, self.texts),
            **attention_endpoint(
                self.trained, self.model, self.texts, self.read_for_attention
            ),
        }

    def from_texts(self, texts: Any) -> tuple[Prompt, tf.Tensor]:
        most = tf.fill(tf.shape(texts[0]), self.longest_prompt)
        prompts = self.encode(texts, most)
        room = self.max_length - tf.reduce_sum(prompts.padding_mask, axis=1)
        given = Prompt(prompts.token_ids, prompts.padding_mask, prompts.tokens, room)
        return given, prompts.truncated

    def tokenize_prompt(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `tokenize`."""
        most = tf.fill(tf.shape(texts[0]), self.longest_prompt)
        prompts = self.encode(texts, most)
        return {
            "token_ids": prompts.tokens.to_tensor(self.tokenizer.special.pad),
            "length": tf.cast(prompts.tokens.row_lengths(), tf.int32),
            "truncated": prompts.truncated,
        }

    def _beginnings(self, *texts: tf.Tensor) -> tf.RaggedTensor:
        return beginnings(self._read(texts), self.tokenizer)

    def _read(self, texts: Any) -> tf.RaggedTensor:
        """Fills the template and tokenizes the prompts."""
        named = dict(zip((spec.name for spec in self.texts), texts, strict=True))
        parts: list[Any] = []
        for plain, field in template_parts(self.objective.prompt_template):
            parts += [plain] if field is None else [plain, named[field]]
        return self.tokenizer.tokenize(tf.strings.join(parts))

    def encode(self, texts: Any, most: tf.Tensor) -> EncodedPrompt:
        """Reads prompts and cuts them to a number of tokens, int32 (B,)."""
        tokens, special = self._read(texts), self.tokenizer.special
        frame = int(special.begin not in (None, special.end))
        side = self.objective.too_long
        shorter, truncated = truncate_prompts(
            tokens, most - frame, self.words, from_start=side == "truncate_start"
        )
        encoded = EncodedPrompt.from_tokens(
            beginnings(shorter, self.tokenizer), most, self.max_length, special.pad
        )
        return encoded._replace(truncated=encoded.truncated | truncated)
