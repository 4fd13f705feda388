"""The signatures of an extractive question answering model."""

from typing import Any, NamedTuple

import tensorflow as tf

from transbeam.configs.schema.objectives.supervised import SpanQAConfig
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.attention_maps import LONGEST, attention_endpoint
from transbeam.serving.signatures.base.interface import Endpoint, ids_spec
from transbeam.serving.text_ops.char_offsets import CharSpan, character_spans
from transbeam.serving.text_ops.doc_stride import TextWindows
from transbeam.serving.text_ops.row_blocks import in_blocks
from transbeam.serving.text_ops.text_encoder import TextEncoder

QUESTION = tf.TensorSpec([None], tf.string, name="question")
CONTEXT = tf.TensorSpec([None], tf.string, name="context")

# The score of impossible spans, such as an answer in an empty text.
NEVER = -1e30


class BestSpans(NamedTuple):
    """The best span of each row.

    Attributes:
        first: int32 (R,), the first position of the span.
        last: int32 (R,), the last position of the span, inclusive.
        score: float32 (R,), the sum of the start and end logits.
    """

    first: tf.Tensor
    last: tf.Tensor
    score: tf.Tensor


class SpanAnswers(NamedTuple):
    """The best answers of R windows.

    Attributes:
        first: int32 (R,), the index of the answer's first token in the text.
        last: int32 (R,), the index of the answer's last token in the text.
        score: float32 (R,), the sum of the start and end logits.
        none: float32 (R,), the no-answer score.
    """

    first: tf.Tensor
    last: tf.Tensor
    score: tf.Tensor
    none: tf.Tensor


class SpanQATask:
    """The signatures of an extractive question answering model.

    A text that is too long for the model is split into overlapping windows, as in the
    training records; the answer with the highest score of all windows is returned.

    Shapes: `B` questions, `T` tokens of the longest row.

    - `serving_default`: `question` and `context`, string (B,) → `answer` string (B,),
      the best span of the context; `start` and `end` int32 (B,), its offsets in code
      points; `score` float32 (B,), the sum of its start and end logits;
      `no_answer_score` float32 (B,), the minimum over windows of the sum of the start
      and end logits at the first position. A model trained with unanswerable questions
      predicts no answer if `no_answer_score` exceeds `score`; an export with a
      no-answer threshold then returns the answer `""` itself, if `no_answer_score`
      exceeds `score` by more than the threshold. `truncated` bool (B,), whether the
      question was cut. For an empty context the answer is `""` and its score -1e30.
    - `read_ids`: ids, a window per row → `start_logits` and `end_logits` float32 (B,
      T).
    - `tokenize`: `question` and `context` → `token_ids` int32 (B, T) and `length` (B,),
      of the context alone; `question_ids`, `question_length`.
    - `attention`: `question` and `context`, cut to one window → attention weights; see
      `attention_endpoint`.

    Args:
        trained: The tokenizer and the model.
    """

    methods = {}

    def __init__(self, trained: TrainedRun):
        objective = trained.config.objective
        assert isinstance(objective, SpanQAConfig)
        self.objective = objective
        self.trained = trained
        self.tokenizer = trained.tokenizer
        self.model = trained.model
        self.max_length = min(
            trained.config.data.sequence_length,
            trained.config.model.max_sequence_length,
        )
        self.longest_answer = trained.config.evaluation.max_answer_length
        self.id_inputs = [
            name
            for name in ("token_ids", "padding_mask", "segment_ids")
            if name in trained.model.input
        ]

    def endpoints(self) -> dict[str, Endpoint]:
        ids = [ids_spec(name) for name in self.id_inputs]
        return {
            "serving_default": Endpoint(self.answer, [QUESTION, CONTEXT]),
            "read_ids": Endpoint(self.read_ids, ids),
            "tokenize": Endpoint(self.tokenize, [QUESTION, CONTEXT]),
            **attention_endpoint(
                self.trained, self.model, [QUESTION, CONTEXT], self.read_for_attention
            ),
        }

    def phone_endpoints(self) -> dict[str, Endpoint]:
        ids = [ids_spec(name, 1, None) for name in self.id_inputs]
        return {"read_ids": Endpoint(self.read_ids, ids)}

    def answer(self, question: tf.Tensor, context: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `serving_default`."""
        # Replaces invalid UTF-8, so that offsets count whole characters.
        context = tf.strings.unicode_transcode(context, "UTF-8", "UTF-8")
        questions, texts = (
            self.tokenizer.tokenize(question),
            self.tokenizer.tokenize(context),
        )
        batch = tf.shape(context)[0]
        found, text = self._best_in_windows(self.windows(questions, texts))
        # The smallest no-answer score of all windows; on ties the first window wins.
        none = tf.math.unsorted_segment_min(found.none, text, batch)
        score = tf.math.unsorted_segment_max(found.score, text, batch)
        rows = tf.range(tf.size(found.score))
        is_best = found.score >= tf.gather(score, text)
        best = tf.math.unsorted_segment_min(
            tf.where(is_best, rows, tf.size(rows)), text, batch
        )
        stretch = CharSpan(
            tf.gather(found.first, best), tf.gather(found.last, best) + 1
        )
        exists = score > NEVER / 2
        threshold = self.trained.calibration.no_answer_threshold
        some = exists if threshold is None else exists & (none - score <= threshold)
        nothing = tf.zeros([batch], tf.int32)
        stretch = CharSpan(*(tf.where(some, edge, nothing) for edge in stretch))
        places = character_spans(context, texts, stretch, self.tokenizer)
        places = CharSpan(*(tf.where(some, edge, nothing) for edge in places))
        span = tf.strings.substr(
            context, places.begin, places.end - places.begin, unit="UTF8_CHAR"
        )
        return {
            "answer": span,
            "start": places.begin,
            "end": places.end,
            "score": tf.where(exists, score, NEVER),
            "no_answer_score": none,
            "truncated": questions.row_lengths() > self.objective.max_question_length,
        }

    def read_ids(self, *inputs: tf.Tensor) -> dict[str, Any]:
        """The signature `read_ids`."""
        named = dict(zip(self.id_inputs, inputs, strict=True))
        return self.model(named, training=False)

    def tokenize(self, question: tf.Tensor, context: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `tokenize`."""
        pad = self.tokenizer.special.pad
        found = {}
        for name, column in (("token", context), ("question", question)):
            tokens = self.tokenizer.tokenize(column)
            length = "length" if name == "token" else "question_length"
            found[f"{name}_ids"] = tokens.to_tensor(pad)
            found[length] = tf.cast(tokens.row_lengths(), tf.int32)
        return found

    def read_for_attention(self, *texts: tf.Tensor, longest: int = LONGEST) -> Any:
        """Reads texts for the signature `attention`; see `AttentionReader`."""
        encoder = TextEncoder(self.tokenizer, self.max_length).shorter(longest)
        encoded = encoder.pair(*map(self.tokenizer.tokenize, texts))
        inputs = {name: getattr(encoded, name) for name in self.id_inputs}
        return inputs, encoded.truncated

    def _best_in_windows(self, windows: TextWindows) -> tuple[SpanAnswers, tf.Tensor]:
        """Returns each window's best answer, and the index of the window's text."""

        def read(begin: tf.Tensor, end: tf.Tensor) -> list[tf.Tensor]:
            rows = windows.rows(begin, end)
            logits = self.read_ids(*(getattr(rows, name) for name in self.id_inputs))
            start, end = logits["start_logits"], logits["end_logits"]
            best = best_spans(start, end, rows.inside, self.longest_answer)
            edges = best.first + rows.to_text, best.last + rows.to_text
            return [*edges, best.score, start[:, 0] + end[:, 0]]

        count = tf.size(windows.text)
        dtypes = [tf.int32, tf.int32, tf.float32, tf.float32]
        found = in_blocks(count, windows.longest, read, dtypes)
        return SpanAnswers(*found), windows.text

    def windows(
        self, questions: tf.RaggedTensor, texts: tf.RaggedTensor
    ) -> TextWindows:
        """Splits texts into windows, each with its question.

        Args:
            questions: int32 (B, None), the tokens of the questions.
            texts: int32 (B, None), the tokens of the texts.
        """
        return TextWindows.from_texts(
            questions,
            texts,
            self.tokenizer.special,
            length=self.max_length,
            stride=self.objective.stride,
            longest_question=self.objective.max_question_length,
        )


def best_spans(
    start: tf.Tensor, end: tf.Tensor, inside: tf.Tensor, longest: int
) -> BestSpans:
    """Finds each row's best span of at most `longest` tokens, where `inside` is true.

    Of spans with equal scores, the shortest is returned; of equally short spans, the
    first.

    Args:
        start: float32 (R, T), the start logits.
        end: float32 (R, T), the end logits.
        inside: bool (R, T), true at the positions that a span may include, which are
            contiguous.
        longest: The maximum number of tokens in a span.

    Example:
    >>> start, end = tf.constant([[9.0, 0, 1, 0]]), tf.constant([[9.0, 5, 0, 2]])
    >>> inside = tf.constant([[False, True, True, True]])
    >>> [int(part[0]) for part in best_spans(start, end, inside, 1)]
    [1, 1, 5]
    """
    start = tf.where(inside, start, NEVER)
    end = tf.where(inside, end, NEVER)
    length = tf.shape(start)[1]
    padded = tf.pad(end, [[0, 0], [0, longest - 1]], constant_values=NEVER)
    places = tf.range(longest)[:, None] + tf.range(length)[None]  # (N, T)
    total = start[:, None] + tf.gather(padded, places, axis=1)  # (R, N, T)
    flat = tf.reshape(total, [tf.shape(start)[0], longest * length])
    best: Any = tf.argmax(flat, axis=1, output_type=tf.int32)
    first = best % length
    return BestSpans(first, first + best // length, tf.reduce_max(flat, axis=1))
