"""Beam search with a set of hypotheses per row."""

from typing import Any, NamedTuple

from keras import ops

from transbeam.configs.schema.generation import BeamConfig, GenerationConfig
from transbeam.model.generation.cache_rows import repeat_rows, take_rows
from transbeam.model.generation.decode_functions import DecodeFunctions
from transbeam.model.generation.logits_processors import NEVER, ConfigLogitsProcessors
from transbeam.model.generation.token_buffer import TokenBuffer
from transbeam.model.kernels.cache_update import loop_with_cache


class Finished(NamedTuple):
    """The best finished hypotheses, best first; unused entries have score `NEVER`.

    Attributes:
        token_ids: int32 `(B, K, N)`.
        lengths: int32 `(B, K)`.
        scores: float32 `(B, K)`, length-normalized log-probabilities.
    """

    token_ids: Any
    lengths: Any
    scores: Any

    def better_of(self, others: "Finished") -> "Finished":
        """Merges two sets of hypotheses to the best `K`; ties go to those of `self`."""
        joined = [
            ops.concatenate(pair, axis=1) for pair in zip(self, others, strict=True)
        ]
        scores, indices = ops.top_k(joined[2], ops.shape(self.scores)[1])
        return Finished(pick(joined[0], indices), pick(joined[1], indices), scores)

    def first(self, number: int, pad_token_id: int) -> "Finished":
        """The best `number` hypotheses, each padded with `pad_token_id`."""
        token_ids, lengths, scores = (part[:, :number] for part in self)
        columns = ops.arange(ops.shape(token_ids)[2], dtype="int32")
        written = columns < ops.expand_dims(lengths, 2)
        return Finished(ops.where(written, token_ids, pad_token_id), lengths, scores)


class Searches(NamedTuple):
    """The beam-search parameters of each of `B` rows.

    Attributes:
        max_new_tokens: int32 `(B,)`; 0 generates nothing.
        num_beams: int32 `(B,)`, at least 1.
        length_penalty: float32 `(B,)`.
    """

    max_new_tokens: Any
    num_beams: Any
    length_penalty: Any


def search_beams(
    steps: DecodeFunctions,
    prompt: tuple[Any, Any],
    config: GenerationConfig,
    method: BeamConfig,
) -> dict[str, Any]:
    """Generates with beam search; see `transbeam.model.generation.generate`."""
    one = ops.ones_like(prompt[0][:, 0])
    searches = Searches(
        one * config.max_new_tokens,
        one * method.num_beams,
        ops.cast(one, "float32") * method.length_penalty,
    )
    found = search(
        steps,
        prompt,
        searches,
        config,
        room=config.max_new_tokens,
        width=method.num_beams,
        early_stopping=method.early_stopping,
    )
    return found.first(method.num_results, config.pad_token_id)._asdict()


def search(
    steps: DecodeFunctions,
    prompt: tuple[Any, Any],
    searches: Searches,
    config: GenerationConfig,
    *,
    room: Any,
    width: Any,
    early_stopping: bool,
) -> Finished:
    """Searches for the most likely texts, with per-request parameters for each row.

    At each step the best continuations of all beams are ranked together. Of the `K`
    best continuations, those that end their text become finished hypotheses; the `K`
    best continuations that do not end their text become the next beams. The score of a
    text is the sum of its log-probabilities, after the logits processors, divided by
    its length to the power `length_penalty`; the sum and the length include the token
    that ended the text. `early_stopping` determines when the search of a row is done;
    if it is not done at the length limit, the row's beams are ranked together with its
    finished hypotheses. The search matches Hugging Face's `generate` with
    `early_stopping` true or false.

    Shapes: `B` batch, `K` beams, `N` new tokens, `V` vocabulary.

    Args:
        steps: The model.
        prompt: Ids and mask, int32 `(B, P)`, padded on the left.
        searches: The parameters of each row.
        config: Generation config, of which only the logits processors and stop
            conditions are used, not the method and `max_new_tokens`.
        room: The largest `max_new_tokens`, `N`; an int, or on TensorFlow a tensor.
        width: The largest `num_beams`, `K`; an int, or on TensorFlow a tensor.
        early_stopping: As in `BeamConfig`.

    References:
        - [Wu et al., 2016](https://arxiv.org/abs/1609.08144), section 7 (length)
    """
    batch = ops.shape(prompt[0])[0]
    history = TokenBuffer.allocate(*prompt, room=room)
    logits, cache = steps.prefill(*prompt, ops.shape(history.token_ids)[1])
    history = history.take(ops.repeat(ops.arange(batch, dtype="int32"), width))
    rules = ConfigLogitsProcessors(config, logits.shape[-1])
    step = _Step(rules, searches, room, width, early_stopping)

    finished = Finished(
        ops.zeros((batch, width, room), "int32"),
        ops.zeros((batch, width), "int32"),
        ops.full((batch, width), NEVER, "float32"),
    )
    # All beams start equal, so only the first counts; otherwise each hypothesis would
    # occur K times.
    first = ops.arange(width, dtype="int32")[None] == 0
    sums = ops.broadcast_to(ops.where(first, 0.0, NEVER), (batch, width))
    done = ops.zeros((batch,), "bool")
    logits = ops.repeat(logits, width, axis=0)
    start, _ = step.extend(logits, history, sums, finished, done)

    def go_on(history, sums, finished, done):
        is_open = ops.logical_not(step.is_over(history, done))
        return ops.logical_and(history.num_new < room, ops.any(is_open))

    def body(cache, history, sums, finished, done):
        logits, cache = steps.step(history.last(), cache, history.length - 1)
        state, rows = step.extend(logits[:, 0], history, sums, finished, done)
        return take_rows(cache, rows), state

    state = loop_with_cache(go_on, body, start, repeat_rows(cache, width))
    return step.close(*state)


class _Step:
    """One step of the beam search, and the final ranking."""

    def __init__(self, rules, searches: Searches, room, width, early_stopping: bool):
        self.rules = rules
        self.max_new_tokens = searches.max_new_tokens
        self.num_beams = ops.expand_dims(searches.num_beams, 1)
        self.length_penalty = ops.expand_dims(searches.length_penalty, 1)
        self.room = room
        self.width = width
        self.early_stopping = early_stopping

    def is_over(self, history, done):
        """Marks rows whose search is over: bool `(B,)`."""
        return ops.logical_or(done, history.num_new >= self.max_new_tokens)

    def extend(self, logits, history, sums, finished, done):
        """Appends the next token to every beam.

        Args:
            logits: float32 `(B K, V)`.
            history: The tokens of the beams, `B K` rows.
            sums: float32 `(B, K)`, the beams' log-probabilities.
            finished: The best finished hypotheses so far.
            done: bool `(B,)`, rows whose search is over.

        Returns:
            The updated `history`, `sums`, `finished` and `done`, and the index of each
            beam's previous row: int32 `(B K,)`.
        """
        is_open = ops.logical_not(self.is_over(history, done))[:, None]
        scores, parents, tokens = self._candidates(logits, history, sums)
        rows = flat_rows(parents, self.width)  # (B M,)
        ends = self._ends(tokens, history, rows)  # (B, M)

        candidates = history.take(rows).append(ops.reshape(tokens, [-1]))
        length = ops.cast(candidates.num_new, "float32")
        ended = self._score_texts(candidates, scores, length)
        first = ops.arange(ops.shape(scores)[1], dtype="int32") < self.num_beams
        counts = ops.logical_and(ops.logical_and(ends, first), is_open)
        ended = ended._replace(scores=ops.where(counts, ended.scores, NEVER))
        finished = finished.better_of(ended)
        attainable = scores[:, :1] / length**self.length_penalty
        decided = self._is_done(finished.scores, attainable)
        done = ops.logical_or(done, ops.logical_and(is_open[:, 0], decided))

        best, indices = ops.top_k(ops.where(ends, NEVER, scores), self.width)
        # A row with fewer beams than others has beams that are never selected.
        columns = ops.arange(self.width, dtype="int32")
        best = ops.where(columns < self.num_beams, best, NEVER)
        # Rows whose search is over stay unchanged.
        sums = ops.where(is_open, best, sums)
        parents = ops.where(is_open, pick(parents, indices), columns)
        tokens = ops.where(is_open, pick(tokens, indices), 0)
        rows = flat_rows(parents, self.width)
        history = history.take(rows).append(ops.reshape(tokens, [-1]))
        return (history, sums, finished, done), rows

    def _candidates(self, logits, history, sums):
        """The best continuations of each row: scores, beams and tokens, `(B, M)`."""
        vocabulary_size = logits.shape[-1]
        scores = self.rules.adjust(ops.log_softmax(logits, axis=-1), history)
        scores = ops.reshape(scores, (-1, self.width, vocabulary_size))
        scores = scores + ops.expand_dims(sums, 2)
        scores = ops.reshape(scores, (-1, self.width * vocabulary_size))
        # Enough candidates for `K` beams, even if many of the best end their text.
        stops = set(self.rules.stops.last_tokens.tolist())
        number = self.width * min(1 + len(stops), vocabulary_size)
        scores, indices = ops.top_k(scores, number)
        indices = ops.cast(indices, "int32")
        return scores, indices // vocabulary_size, indices % vocabulary_size

    def _ends(self, tokens, history, rows):
        """Marks candidates that end their texts: bool `(B, M)`."""
        stops = self.rules.stops
        if not len(stops):
            return ops.zeros_like(tokens, dtype="bool")
        about_to_end = stops.about_to_end(history, only_new=True)  # (B K, stops)
        about_to_end = ops.take(about_to_end, rows, axis=0)  # (B M, stops)
        ends = stops.completed_by(ops.reshape(tokens, [-1]), about_to_end)
        return ops.reshape(ends, ops.shape(tokens))

    def _score_texts(self, history, sums, length):
        """Returns complete texts and their scores.

        Args:
            history: `B M` rows.
            sums: float32 `(B, M)`.
            length: float32 scalar or `(B, 1)`, the number of tokens in each text.
        """
        size = (ops.shape(history.token_ids)[0], self.room)
        texts = ops.slice(history.token_ids, (0, history.prompt_length), size)
        # Excluded before the division by the length, which would make the score of a
        # forbidden text look like that of an allowed one.
        possible = sums > NEVER / 2
        scores = sums / ops.maximum(length, 1) ** self.length_penalty
        return Finished(
            ops.reshape(texts, (*ops.shape(sums), self.room)),
            ops.where(possible, ops.cast(length, "int32"), 0),
            ops.where(possible, scores, NEVER),
        )

    def _is_done(self, finished_scores, attainable):
        """Marks rows that need no further search: bool `(B,)`."""
        worst = pick(finished_scores, self.num_beams - 1)
        full = worst > NEVER / 2
        if not self.early_stopping:
            full = ops.logical_and(full, worst >= attainable)
        return full[:, 0]

    def close(self, history, sums, finished, done):
        """The best of the finished texts and of the beams of rows that are not done."""
        length = ops.minimum(history.num_new, self.max_new_tokens)[:, None]
        open_texts = self._score_texts(history, sums, ops.cast(length, "float32"))
        scores = ops.where(ops.expand_dims(done, 1), NEVER, open_texts.scores)
        return finished.better_of(open_texts._replace(scores=scores))


def flat_rows(indices: Any, number: Any) -> Any:
    """Converts `(B, M)` indices within groups of `number` rows to flat `(B M,)`."""
    starts = ops.arange(ops.shape(indices)[0], dtype="int32") * number
    return ops.reshape(ops.cast(indices, "int32") + starts[:, None], [-1])


def pick(x: Any, indices: Any) -> Any:
    """Gathers entries of each row: `(B, M, ...)` at indices `(B, K)` to `(B, K, ...)`.

    Example:
    >>> picked = pick(ops.array([[5, 6], [7, 8]]), ops.array([[1], [0]]))
    >>> ops.convert_to_numpy(picked)
    array([[6],
           [7]], dtype=int32)
    """
    shape = ops.shape(x)
    flat = ops.reshape(x, (-1, *shape[2:]))
    taken = ops.take(flat, flat_rows(indices, shape[1]), axis=0)
    return ops.reshape(taken, (-1, ops.shape(indices)[1], *shape[2:]))
