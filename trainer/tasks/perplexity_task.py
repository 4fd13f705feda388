"""Perplexity of whole texts, read in sliding windows.

A text that is longer than the model reads is split into windows. Each token is
predicted once, after as many of the tokens before it as its window holds. With the
stride equal to the window, later windows begin without context; a smaller stride gives
every token at least `window - stride` tokens before it, at the cost of more windows.

The first token of a text is predicted after the begin token, or after the end token of
the document before, which only the first window reads. The log-likelihood is divided
by tokens, by words and by bytes of the text ([Radford et al.,
2019](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf),
section 3.1): per word and per byte, models with different vocabularies are comparable.
"""

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from transbeam.configs.base.errors import ConfigError, DataError
from transbeam.configs.cli.progress import Bar
from transbeam.configs.schema.task_file import PerplexityTaskConfig
from transbeam.model.generation.continuation_scores import token_scores
from transbeam.pipeline.accounting.document_accounting import list_reasons
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.records.token_rows import tokenize_texts
from transbeam.pipeline.tokenizers.analysis.bytes_per_piece import piece_bytes
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.trainer.evaluation.bits_per_byte import added_bytes
from transbeam.trainer.metrics.confidence_intervals import intervals
from transbeam.trainer.metrics.text_perplexity import TextPerplexity
from transbeam.trainer.tasks.continuation_scorer import padded
from transbeam.trainer.tasks.questions import read_documents
from transbeam.trainer.tasks.task_results import TaskContext, TaskResult
from transbeam.trainer.tasks.wikitext import detokenize_wikitext

_MOST_LOGITS = 1 << 24  # 64 MB of float32


@dataclass(frozen=True)
class Window:
    """A stretch of a text that the model reads at once.

    Attributes:
        start: Index of the first token that is read; -1 is the token before the text.
        first: Index of the first token that is predicted.
        end: Index after the last token that is predicted; the last token that is read
            is the one before it.
    """

    start: int
    first: int
    end: int


def sliding_windows(length: int, window: int, stride: int) -> list[Window]:
    """Returns the windows of a text, in which each token is predicted once.

    Args:
        length: Number of tokens.
        window: Maximum number of tokens that the model reads.
        stride: Number of tokens that later windows predict; the first predicts as many
            as it reads.

    Example:
    >>> for part in sliding_windows(10, window=4, stride=4):
    ...     print(part)
    Window(start=-1, first=0, end=4)
    Window(start=3, first=4, end=8)
    Window(start=5, first=8, end=10)
    """
    edges = [0, *range(min(window, length), length, stride), length]
    return [
        Window(max(end - window, 0) - 1, first, end)
        for first, end in itertools.pairwise(edges)
    ]


def evaluate_perplexity(context: TaskContext, task: PerplexityTaskConfig) -> TaskResult:
    """Evaluates a task.

    Args:
        context: The model and its tokenizer.
        task: The task.

    Raises:
        ConfigError: The window is longer than the model reads.
        DataError: The source cannot be read, or has no text with a token.
    """
    start = time.monotonic()
    window = task.window or context.max_length
    if window > context.max_length:
        raise ConfigError(
            f"task {task.name!r}: window={window}, and the model reads "
            f"{context.max_length} tokens. Lower it, or leave it out"
        )
    stride = min(task.stride or window, window)
    left_out: Counter[str] = Counter()
    documents = read_documents(task.source, "source", context.config, left_out)
    texts, read, ids = _read_texts(documents, task, context, left_out)
    if not texts:
        raise DataError(
            f"source: no text of the task {task.name!r} has a token: "
            f"{list_reasons(left_out) or 'there are no documents'}"
        )
    windows = [sliding_windows(len(row), window, stride) for row in ids]
    total = sum(map(len, windows))
    with context.console.progress(task.name, total, "windows") as progress:
        nats = -_log_likelihoods(context, ids, windows, progress)
    metric = TextPerplexity(_is_exact(context.tokenizer, read))
    units = [
        (len(row), len(document.text.split()), len(document.text.encode("utf-8")))
        for row, document in zip(ids, texts, strict=True)
    ]
    return TaskResult(
        task=task.name,
        kind=task.kind,
        shots=0,
        units=len(texts),
        scores=intervals(
            metric.statistics(nats, np.array(units)), metric.scores, context.seed
        ),
        left_out=left_out,
        notes=Counter({_begin_note(context.tokenizer): len(texts)}),
        answers=[
            _row(*values) for values in zip(texts, nats.tolist(), units, strict=True)
        ],
        seconds=time.monotonic() - start,
    )


def _read_texts(
    documents: Iterator[Document],
    task: PerplexityTaskConfig,
    context: TaskContext,
    left_out: Counter[str],
) -> tuple[list[Document], list[bytes], list[np.ndarray]]:
    """Returns the documents with tokens, their texts as read, and their ids."""
    given = list(itertools.islice(documents, context.limit))
    texts = [document.text for document in given]
    if task.detokenize == "wikitext":
        texts = [detokenize_wikitext(text) for text in texts]
    read = [text.encode("utf-8") for text in texts]
    rows = tokenize_texts(read, context.tokenizer)
    ids = np.split(rows.ids, rows.row_splits[1:-1]) if given else []
    kept = [number for number, row in enumerate(ids) if len(row)]
    if len(kept) < len(given):
        left_out["a text without tokens"] += len(given) - len(kept)
    return (
        [given[number] for number in kept],
        [read[number] for number in kept],
        [ids[number] for number in kept],
    )


def _is_exact(tokenizer: Tokenizer, texts: Sequence[bytes]) -> bool:
    """Returns whether the tokens of every text decode to exactly that text."""
    table = piece_bytes(tokenizer)
    return table is not None and added_bytes(texts, tokenizer, table).min() >= 0


def _log_likelihoods(
    context: TaskContext,
    ids: Sequence[np.ndarray],
    windows: Sequence[Sequence[Window]],
    progress: Bar,
) -> np.ndarray:
    """Computes the log-likelihood of each text: float64 (N,), in nats."""
    before = _token_before(context.tokenizer)
    each = [(row, part) for row, parts in enumerate(windows) for part in parts]
    # Windows of equal length together: the last ones of texts are shorter.
    each.sort(key=lambda of: of[1].end - of[1].start, reverse=True)
    widest = each[0][1].end - each[0][1].start
    vocabulary = int(context.model.output["logits"].shape[-1])
    at_once = max(1, _MOST_LOGITS // (widest * vocabulary))
    score, found = _compiled(context.model), np.zeros(len(ids))
    for first in range(0, len(each), at_once):
        group = each[first : first + at_once]
        rows = [_with_begin(ids[row], part, before) for row, part in group]
        width = max(map(len, rows)) - 1
        read, mask = padded([row[:-1] for row in rows], width)
        targets, _ = padded([row[1:] for row in rows], width)
        columns = np.arange(width)
        skipped = [[part.first - part.start - 1] for _, part in group]
        wanted = mask * (columns >= np.array(skipped))
        scores = keras.ops.convert_to_numpy(score(read, mask, targets))
        sums = (scores.astype(np.float64) * wanted).sum(axis=1)
        np.add.at(found, [row for row, _ in group], sums)
        progress.advance(len(group))
    return found


def _token_before(tokenizer: Tokenizer) -> int:
    """Returns the token after which a text's first token is predicted."""
    special = tokenizer.special
    before = special.end if special.begin is None else special.begin
    assert before is not None  # decoders need an end token
    return before


def _begin_note(tokenizer: Tokenizer) -> str:
    # Without the token of its training a model's perplexity can be many times higher.
    return f"read after the token {tokenizer.pieces[_token_before(tokenizer)]!r}"


def _with_begin(ids: np.ndarray, part: Window, before: int) -> np.ndarray:
    """Returns the tokens of a window that are read, and the last that is predicted."""
    if part.start >= 0:
        return ids[part.start : part.end]
    return np.insert(ids[: part.end], 0, before)


def _compiled(model: keras.Model) -> Callable[..., Any]:
    """Compiles the log-probabilities of the targets of a batch."""

    def score(token_ids: Any, padding_mask: Any, targets: Any) -> Any:
        inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
        return token_scores(model(inputs, training=False)["logits"], targets)

    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(score)
    import tensorflow as tf

    free = tf.TensorSpec([None, None], "int32")
    traced = tf.function(score, input_signature=[free] * 3, autograph=False)
    return lambda *batch: traced(*map(tf.constant, batch))


def _row(
    document: Document, nats: float, units: tuple[int, int, int]
) -> dict[str, Any]:
    tokens, words, utf8_bytes = units
    return {
        "source": document.source,
        "offset": document.offset,
        "nats": round(nats, 6),
        "perplexity": _finite_exp(nats / tokens),
        "tokens": tokens,
        "words": words,
        "bytes": utf8_bytes,
    }


def _finite_exp(value: float) -> float | None:
    return round(math.exp(value), 6) if value < 700 else None
