"""Beam search: several beginnings of each text, of which the likeliest whole wins."""

from typing import Any, NamedTuple

from keras import ops

from configs.generation import BeamConfig, GenerationConfig
from model.generation.caches import repeat_rows, take_rows
from model.generation.history import History
from model.generation.interface import Steps
from model.generation.processors import NEVER, Rules
from model.kernels.cache_update import loop_with_cache


class Finished(NamedTuple):
    """The best texts that have ended, best first; scores are `NEVER` where none is.

    Attributes:
        token_ids: int32 `(B, K, N)`.
        lengths: int32 `(B, K)`.
        scores: float32 `(B, K)`, log-probability by length.
    """

    token_ids: Any
    lengths: Any
    scores: Any

    def better_of(self, others: "Finished") -> "Finished":
        """The best `K` of both; of equal ones those that were there before."""
        joined = [
            ops.concatenate(pair, axis=1) for pair in zip(self, others, strict=True)
        ]
        scores, places = ops.top_k(joined[2], self.scores.shape[1])
        return Finished(pick(joined[0], places), pick(joined[1], places), scores)


def search_beams(
    steps: Steps, prompt: tuple[Any, Any], config: GenerationConfig, method: BeamConfig
) -> dict[str, Any]:
    """Writes on with beam search; see `model.generation.generate`.

    At each step the beams' best continuations are ranked together. Those among the
    first `K` that end their text are finished, and the best `K` others are the next
    beams. A text is judged by the sum of its log-probabilities, as the rules left
    them, by its length to the power `length_penalty`, the token that ended it included
    in both. A row is done as `early_stopping` says; if it is not when the tokens run
    out, its beams are judged with the finished. These are the semantics of Hugging
    Face's `generate` with `early_stopping` true or false.

    Shapes: `B` batch, `K` beams, `N` new tokens, `V` vocabulary.

    References:
        - [Wu et al., 2016](https://arxiv.org/abs/1609.08144), section 7 (length)
    """
    batch = ops.shape(prompt[0])[0]
    beams, num_new = method.num_beams, config.max_new_tokens
    history = History.of(*prompt, room=num_new)
    logits, cache = steps.prefill(*prompt, ops.shape(history.token_ids)[1])
    history = history.take(ops.repeat(ops.arange(batch, dtype="int32"), beams))
    search = _Search(Rules(config, logits.shape[-1]), method, num_new)

    finished = Finished(
        ops.zeros((batch, beams, num_new), "int32"),
        ops.zeros((batch, beams), "int32"),
        ops.full((batch, beams), NEVER, "float32"),
    )
    # All beams begin alike; only the first counts, or each would be there K times.
    first = ops.arange(beams, dtype="int32")[None] == 0
    sums = ops.broadcast_to(ops.where(first, 0.0, NEVER), (batch, beams))
    done = ops.zeros((batch,), "bool")
    logits = ops.repeat(logits, beams, axis=0)
    start, _ = search.extend(logits, history, sums, finished, done)

    def go_on(history, sums, finished, done):
        room = history.num_new < num_new
        return ops.logical_and(room, ops.logical_not(ops.all(done)))

    def body(cache, history, sums, finished, done):
        logits, cache = steps.step(history.last(), cache, history.length - 1)
        state, rows = search.extend(logits[:, 0], history, sums, finished, done)
        return take_rows(cache, rows), state

    state = loop_with_cache(go_on, body, start, repeat_rows(cache, beams))
    return _results(search.close(*state), config, method)


class _Search:
    """One step of the search, and its end."""

    def __init__(self, rules: Rules, method: BeamConfig, num_new: int):
        self.rules = rules
        self.method = method
        self.num_new = num_new

    def extend(self, logits, history, sums, finished, done):
        """Gives every beam its next token.

        Args:
            logits: float32 `(B K, V)`.
            history: What the beams have written, `B K` rows.
            sums: float32 `(B, K)`, their log-probabilities.
            finished: The best texts that have ended.
            done: bool `(B,)`, rows that are not searched any more.

        Returns:
            The last four anew, and from which rows the beams come: int32 `(B K,)`.
        """
        beams = self.method.num_beams
        scores, parents, tokens = self._candidates(logits, history, sums)
        rows = flat_rows(parents, beams)  # (B M,)
        ends = self._ends(tokens, history, rows)  # (B, M)

        candidates = history.take(rows).append(ops.reshape(tokens, [-1]))
        ended = self._judge(candidates, scores)
        first = ops.expand_dims(ops.arange(scores.shape[1]) < beams, 0)
        counts = ops.logical_and(ends, first)
        counts = ops.logical_and(counts, ops.logical_not(ops.expand_dims(done, 1)))
        ended = ended._replace(scores=ops.where(counts, ended.scores, NEVER))
        finished = finished.better_of(ended)

        length = ops.cast(history.num_new + 1, "float32")
        attainable = scores[:, 0] / length**self.method.length_penalty
        done = ops.logical_or(done, self._is_done(finished.scores, attainable))

        sums, places = ops.top_k(ops.where(ends, NEVER, scores), beams)
        tokens = pick(tokens, places)
        rows = flat_rows(pick(parents, places), beams)
        history = history.take(rows).append(ops.reshape(tokens, [-1]))
        return (history, sums, finished, done), rows

    def _candidates(self, logits, history, sums):
        """The best continuations of each row: scores, beams and tokens, `(B, M)`."""
        beams, vocabulary_size = self.method.num_beams, logits.shape[-1]
        scores = self.rules.adjust(ops.log_softmax(logits, axis=-1), history)
        scores = ops.reshape(scores, (-1, beams, vocabulary_size))
        scores = scores + ops.expand_dims(sums, 2)
        # However many of the best end a text, there are enough others.
        number = beams * (1 + len(set(self.rules.stops.last_tokens.tolist())))
        scores = ops.reshape(scores, (-1, beams * vocabulary_size))
        scores, places = ops.top_k(scores, min(number, beams * vocabulary_size))
        places = ops.cast(places, "int32")
        return scores, places // vocabulary_size, places % vocabulary_size

    def _ends(self, tokens, history, rows):
        """Which candidates end their texts: bool `(B, M)`."""
        stops = self.rules.stops
        if not len(stops):
            return ops.zeros_like(tokens, dtype="bool")
        about_to_end = stops.about_to_end(history, only_new=True)  # (B K, stops)
        about_to_end = ops.take(about_to_end, rows, axis=0)  # (B M, stops)
        ends = stops.completed_by(ops.reshape(tokens, [-1]), about_to_end)
        return ops.reshape(ends, (-1, tokens.shape[1]))

    def _judge(self, history, sums):
        """Whole texts and their scores; `sums` is `(B, M)`, the history `B M` rows."""
        number = sums.shape[1]
        size = (ops.shape(history.token_ids)[0], self.num_new)
        texts = ops.slice(history.token_ids, (0, history.prompt_length), size)
        length = ops.cast(history.num_new, "float32")
        # Divided by its length, what may not be written would look like a bad text.
        possible = sums > NEVER / 2
        scores = sums / length**self.method.length_penalty
        return Finished(
            ops.reshape(texts, (-1, number, self.num_new)),
            ops.where(possible, history.num_new, 0),
            ops.where(possible, scores, NEVER),
        )

    def _is_done(self, finished_scores, attainable):
        """Rows in which nothing better is looked for: bool `(B,)`."""
        worst = finished_scores[:, -1]
        full = worst > NEVER / 2
        if self.method.early_stopping:
            return full
        return ops.logical_and(full, worst >= attainable)

    def close(self, history, sums, finished, done):
        """The best of what is finished, and of the beams of rows that are not done."""
        open_texts = self._judge(history, sums)
        scores = ops.where(ops.expand_dims(done, 1), NEVER, open_texts.scores)
        return finished.better_of(open_texts._replace(scores=scores))


def _results(finished, config, method):
    best = Finished(*(part[:, : method.num_results] for part in finished))
    columns = ops.arange(config.max_new_tokens, dtype="int32")
    kept = columns < ops.expand_dims(best.lengths, 2)
    token_ids = ops.where(kept, best.token_ids, config.pad_token_id)
    return {"token_ids": token_ids, "lengths": best.lengths, "scores": best.scores}


def flat_rows(places: Any, number: int) -> Any:
    """Places `(B, M)` among `number` of each row, as rows of all: int32 `(B M,)`."""
    starts = ops.arange(ops.shape(places)[0], dtype="int32") * number
    return ops.reshape(ops.cast(places, "int32") + starts[:, None], [-1])


def pick(x: Any, places: Any) -> Any:
    """Some of each row's entries: `(B, M, ...)` at `(B, K)` to `(B, K, ...)`.

    Example:
    >>> picked = pick(ops.array([[5, 6], [7, 8]]), ops.array([[1], [0]]))
    >>> ops.convert_to_numpy(picked)
    array([[6],
           [7]], dtype=int32)
    """
    shape = x.shape[2:]
    flat = ops.reshape(x, (-1, *shape))
    taken = ops.take(flat, flat_rows(places, x.shape[1]), axis=0)
    return ops.reshape(taken, (-1, places.shape[1], *shape))
