"""Scores continuations in batches of similar length, each context read once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from transbeam.configs.cli.progress import Bar
from transbeam.model.generation.continuation_scores import continuation_scores
from transbeam.model.generation.keras_decode_functions import (
    decoder_steps,
    seq2seq_steps,
)

_MOST_CONTEXTS = 16
_MOST_LOGITS = 1 << 24  # 64 MB of float32
_WIDTHS = 16  # widths of contexts are multiples of it


@dataclass(frozen=True)
class Continuations:
    """A context and its continuations, as token ids.

    Attributes:
        context: int32 (P,), at least one token.
        texts: The continuations, int32 (Q,) each, of at least one token.
    """

    context: np.ndarray
    texts: Sequence[np.ndarray]

    @property
    def width(self) -> int:
        """The number of tokens of the longest continuation."""
        return max(map(len, self.texts))


class ContinuationScorer:
    """Computes log-likelihoods of continuations by a decoder or an encoder-decoder.

    An encoder-decoder encodes the context, and its decoder predicts the continuation
    after its first token.

    Args:
        model: A decoder or encoder-decoder of `build_model` without packing, with its
            weights.
        first_token: The token with which an encoder-decoder's decoder begins; None for
            a decoder.
        longest: The largest number of tokens of a context; None if any fits.
    """

    def __init__(
        self,
        model: keras.Model,
        first_token: int | None = None,
        longest: int | None = None,
    ):
        self._vocabulary = int(model.output["logits"].shape[-1])
        self._score = _compiled(model, first_token)
        self._is_decoder = first_token is None
        self._longest = longest

    def score(
        self, requests: Sequence[Continuations], progress: Bar
    ) -> list[np.ndarray]:
        """Scores the continuations of each context.

        Args:
            requests: The contexts with their continuations.
            progress: The progress bar, which advances by the number of contexts.

        Returns:
            For each context float64 (continuations,), in nats.
        """
        found: list[np.ndarray] = [np.zeros(0)] * len(requests)
        for group in self._groups(requests):
            scores = self._score_group([requests[number] for number in group])
            for number in group:
                count = len(requests[number].texts)
                found[number], scores = scores[:count], scores[count:]
            progress.advance(len(group))
        return found

    def _groups(self, requests: Sequence[Continuations]) -> Iterator[list[int]]:
        """Yields requests of similar lengths, whose logits fit into memory together."""

        def size(number: int) -> tuple[int, int]:
            request = requests[number]
            return -(-len(request.context) // _WIDTHS), request.width

        group: list[int] = []
        rows = width = 0
        for number in sorted(range(len(requests)), key=size, reverse=True):
            request = requests[number]
            rows, width = rows + len(request.texts), max(width, request.width)
            is_full = len(group) == _MOST_CONTEXTS
            if group and (is_full or rows * width * self._vocabulary > _MOST_LOGITS):
                yield group
                group, rows, width = [], len(request.texts), request.width
            group.append(number)
        if group:
            yield group

    def _score_group(self, requests: Sequence[Continuations]) -> np.ndarray:
        longest = max(len(request.context) for request in requests)
        width = -(-longest // _WIDTHS) * _WIDTHS
        contexts, context_mask = padded(
            [request.context for request in requests],
            min(width, self._longest or width),
            left=self._is_decoder,
        )
        texts = [text for request in requests for text in request.texts]
        width = max(map(len, texts))
        ids, mask = padded(texts, width)
        rows = np.repeat(
            np.arange(len(requests), dtype=np.int32),
            [len(request.texts) for request in requests],
        )
        scores = self._score(contexts, context_mask, rows, ids, mask)
        scores = keras.ops.convert_to_numpy(scores)
        return scores.astype(np.float64).sum(axis=1)


def padded(
    rows: Sequence[np.ndarray], width: int, *, left: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Pads rows of ids with zeros.

    Returns:
        Ids and mask, both int32 (rows, width).

    Example:
    >>> padded([np.array([7, 8]), np.array([9])], 3, left=True)[0].tolist()
    [[0, 7, 8], [0, 0, 9]]
    """
    ids, mask = np.zeros((2, len(rows), width), np.int32)
    for number, row in enumerate(rows):
        where = slice(width - len(row), width) if left else slice(len(row))
        ids[number, where], mask[number, where] = row, 1
    return ids, mask


def _compiled(model: keras.Model, first_token: int | None) -> Callable[..., Any]:
    """Compiles the scores of a batch, for one width of continuations at a time."""

    def score(contexts: Any, context_mask: Any, *texts: Any) -> Any:
        if first_token is None:
            steps = decoder_steps(model)
            return continuation_scores(steps, contexts, context_mask, *texts)
        steps = seq2seq_steps(model, contexts, context_mask)
        shape = (keras.ops.shape(contexts)[0], 1)
        first = keras.ops.full(shape, first_token, dtype="int32")
        return continuation_scores(steps, first, keras.ops.ones_like(first), *texts)

    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(score)
    import tensorflow as tf

    # The other sizes of a batch are free, so few functions are traced.
    by_width: dict[int, Any] = {}

    def compiled(*batch: np.ndarray) -> Any:
        width = batch[-1].shape[1]
        if width not in by_width:
            free, ids = (
                tf.TensorSpec([None, None], "int32"),
                tf.TensorSpec([None, width], "int32"),
            )
            row = tf.TensorSpec([None], "int32")
            by_width[width] = tf.function(
                score, input_signature=[free, free, row, ids, ids], autograph=False
            )
        return by_width[width](*map(tf.constant, batch))

    return compiled
