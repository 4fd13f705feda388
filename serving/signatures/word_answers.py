"""Outputs of signatures that predict tags of words, and the entities in the tags."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, assert_never

import tensorflow as tf

from transbeam.configs.base.bio_tags import EntityTags, marks_entities
from transbeam.configs.schema.evaluation import EvaluationConfig
from transbeam.configs.schema.objectives.objective import (
    TokenChoiceObjective,
    WordsObjective,
)
from transbeam.pipeline.tokenizers.base.ragged_rows import row_of_each, split_rows
from transbeam.serving.text_ops.utf8_characters import Characters
from transbeam.serving.text_ops.word_split import SplitWords


class WordAnswer(Protocol):
    """Converts the outputs of a model at each word to the outputs of its signatures.

    Attributes:
        dtypes: The dtypes of the tensors that `read` returns.
    """

    dtypes: Sequence[tf.DType]

    def read(self, outputs: Mapping[str, Any]) -> list[tf.Tensor]:
        """Converts the model outputs at N words, (N, ...), to answers, (N,) each."""
        ...

    def word_outputs(
        self, words: tf.RaggedTensor, answers: Sequence[tf.Tensor]
    ) -> dict[str, tf.RaggedTensor]:
        """Returns the outputs with an entry for each word."""
        ...

    def text_outputs(
        self, text: tf.Tensor, words: SplitWords, answers: Sequence[tf.Tensor]
    ) -> dict[str, tf.RaggedTensor]:
        """Returns further outputs of `serving_default`."""
        ...


class TagAnswer:
    """Converts model outputs to the tag of each word, and to the entities in the tags.

    Shapes: `B` texts, `W` words, `E` entities of the text with most entities.

    - `tags` string (B, W), and `scores` float32 (B, W), the probabilities of the tags.
    - If the tags mark entities, signatures on texts also return `entities` and
      `entity_types` string (B, E), `entity_starts` and `entity_ends` int32 (B, E),
      offsets in code points.

    Args:
        labels: Names of the tags, by id.
        strict: Whether to drop entities that are invalid in the tagging scheme.
    """

    dtypes: Sequence[tf.DType] = (tf.int64, tf.float32)

    def __init__(self, labels: tuple[str, ...], strict: bool):
        self.labels, self.strict = labels, strict

    def read(self, outputs: Mapping[str, Any]) -> list[tf.Tensor]:
        probabilities = tf.nn.softmax(outputs["logits"])  # (N, C)
        best = tf.argmax(probabilities, axis=1)
        return [best, tf.reduce_max(probabilities, axis=1)]

    def word_outputs(
        self, words: tf.RaggedTensor, answers: Sequence[tf.Tensor]
    ) -> dict[str, tf.RaggedTensor]:
        best, scores = answers
        return {
            "tags": words.with_values(tf.gather(self.labels, best)),
            "scores": words.with_values(scores),
        }

    def text_outputs(
        self, text: tf.Tensor, words: SplitWords, answers: Sequence[tf.Tensor]
    ) -> dict[str, tf.RaggedTensor]:
        if not marks_entities(self.labels):
            return {}
        tags = EntityTags(self.labels)
        return entities(text, words, answers[0], tags, strict=self.strict)


def make_word_answer(
    objective: WordsObjective, evaluation: EvaluationConfig
) -> WordAnswer:
    """Makes the output converter of an objective with an answer for each word."""
    if isinstance(objective, TokenChoiceObjective):
        return TagAnswer(objective.labels, evaluation.strict_entities)
    assert_never(objective)


def entities(
    text: tf.Tensor,
    words: SplitWords,
    tag_ids: tf.Tensor,
    tags: EntityTags,
    *,
    strict: bool = False,
) -> dict[str, tf.RaggedTensor]:
    """Extracts the entities that word tags mark, by the rules of CoNLL's shared tasks.

    Args:
        text: string (B,).
        words: The words of the texts, N in total.
        tag_ids: int64 (N,).
        tags: The tagging scheme: the meaning of each tag id.
        strict: Whether to drop entities that are invalid in the tagging scheme.

    Returns:
        `entities`, `entity_types`, `entity_starts` and `entity_ends`, each (B, None).
    """
    types = tf.gather(tags.type_of, tag_ids)
    opens, closes = (tf.gather(each, tag_ids) for each in (tags.opens, tags.closes))
    text_of = row_of_each(words.texts)
    first = changes(text_of)
    after_close = tf.concat([closes[:1], closes[:-1]], axis=0)
    inside: Any = types >= 0
    begin = inside & (first | opens | after_close | changes(types))
    goes_on: Any = tf.concat([(inside & ~begin)[1:], tf.zeros_like(first[:1])], axis=0)
    end = inside & ~goes_on
    first_words, last_words = tf.where(begin), tf.where(end)
    if strict:
        right = tf.gather_nd(opens, first_words)
        if any(tags.closes):
            right &= tf.gather_nd(closes, last_words)
        first_words, last_words = first_words[right], last_words[right]
    starts = tf.gather_nd(words.starts.values, first_words)
    ends = tf.gather_nd(words.ends.values, last_words)
    of = tf.gather_nd(text_of, first_words)
    lengths = tf.math.unsorted_segment_sum(tf.ones_like(of), of, words.texts.nrows())

    def per_text(values: Any) -> tf.RaggedTensor:
        return split_rows(values, lengths)

    spans = Characters.from_texts(text).stretches(of, starts, ends)
    return {
        "entities": per_text(spans),
        "entity_types": per_text(
            tf.gather(tags.types, tf.gather_nd(types, first_words))
        ),
        "entity_starts": per_text(starts),
        "entity_ends": per_text(ends),
    }


def changes(values: tf.Tensor) -> tf.Tensor:
    """Returns whether each value differs from the previous one: bool (N,)."""
    changed = values[1:] != values[:-1]
    return tf.concat([tf.ones_like(values[:1], tf.bool), changed], axis=0)
