"""Batch generation by sequence-to-sequence models and by decoders.

Texts are sorted by length and read in batches of equal size, each padded to its
longest text, rounded up. So the generation function is compiled for few shapes, and
short outputs, which mostly belong to short texts, do not wait for long outputs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from transbeam.configs.cli.progress import Bar
from transbeam.configs.loader.compatibility import answer_tokens
from transbeam.configs.schema.generation import ContrastiveConfig, GenerationConfig
from transbeam.configs.schema.objectives.objective import AnswerObjective
from transbeam.configs.schema.objectives.supervised import (
    CompletionConfig,
    DialogueConfig,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.model.generation.generate import generate
from transbeam.model.generation.keras_decode_functions import (
    decoder_steps,
    seq2seq_steps,
)
from transbeam.model.generation.ragged import unpad
from transbeam.pipeline.objectives.base.prompt_truncation import (
    drop_tokens,
    truncate_prompts,
)
from transbeam.pipeline.objectives.base.special_tokens import needed
from transbeam.pipeline.objectives.dialogue import chat_format
from transbeam.pipeline.records.token_rows import (
    TokenRows,
    join_rows,
    tokenize_texts,
)
from transbeam.pipeline.tokenizers.base.interface import Tokenizer

_TEXTS_AT_ONCE = 32
_WIDTHS = 16  # widths are multiples of it


@dataclass(frozen=True)
class Group:
    """A batch of texts of similar length.

    Attributes:
        rows: int64 (B,). Indices of the texts; the last one is repeated to fill up the
            batch.
        real: Number of rows without the repetitions.
        width: Tokens per row, with padding.
    """

    rows: np.ndarray
    real: int
    width: int


def grouped_by_length(lengths: np.ndarray, size: int, most: int) -> list[Group]:
    """Groups texts by length, from the shortest to the longest.

    Args:
        lengths: int (N,). Tokens of each text.
        size: Texts per group; at most the number of all texts is used.
        most: The largest width of a group.

    Example:
    >>> for group in grouped_by_length(np.array([17, 3, 40]), 2, 128):
    ...     print(group.rows, group.real, group.width)
    [1 0] 2 32
    [2 2] 1 48
    """
    order = np.argsort(lengths, kind="stable")
    size = min(size, len(order))
    groups = []
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        longest = int(lengths[rows[-1]])
        width = min(-(-longest // _WIDTHS) * _WIDTHS, most)
        padded = np.pad(rows, (0, size - len(rows)), mode="edge")
        groups.append(Group(padded, len(rows), width))
    return groups


def write_answers(
    texts: Sequence[bytes],
    model: keras.Model,
    tokenizer: Tokenizer,
    config: RunConfig,
    progress: Bar,
) -> list[str]:
    """Generates an output for each text, with the settings of `evaluation`.

    Args:
        texts: Sources or prompts, UTF-8. A text that is too long is truncated.
        model: A model of `build_model` without packing, with its weights.
        tokenizer: The run's tokenizer.
        config: The run.
        progress: The progress bar, which advances by the number of finished texts.

    Returns:
        The generated text for each input, in their order.
    """
    objective = config.objective
    settings = generation_config(config, tokenizer)
    if isinstance(objective, CompletionConfig | DialogueConfig):
        longest = config.model.max_sequence_length - settings.max_new_tokens
        rows = _prompts(texts, tokenizer, objective, longest)
        write, pad_left = decoder_writer(model, settings), True
    else:
        longest = config.data.sequence_length
        rows = _encoded(texts, tokenizer, longest, needed(tokenizer, config, "end"))
        begin = tokenizer.special.decoder_begin
        write, pad_left = seq2seq_writer(model, settings, begin), False
    prompts = Prompts(rows, longest, tokenizer.special.pad, pad_left)
    answers = generate_rows(prompts, write, config.seed, progress)
    written = decode_answers(answers, tokenizer)
    match objective:
        case CompletionConfig():
            separator = objective.separator
        case DialogueConfig():
            separator = chat_format(tokenizer).answer_frame()[0]
        case _:
            return written
    return [text.removeprefix(separator) for text in written]


class Prompts(NamedTuple):
    """Tokenized prompts or sources.

    Attributes:
        rows: The tokens.
        longest: The largest number of tokens of a row.
        pad: The padding id.
        pad_left: Whether rows are padded on the left.
    """

    rows: TokenRows
    longest: int
    pad: int
    pad_left: bool = True


def generate_rows(
    prompts: Prompts,
    write: Callable[..., tuple[Any, Any]],
    seed: int,
    progress: Bar,
) -> list[list[int]]:
    """Generates the new tokens of each prompt.

    Args:
        prompts: The prompts.
        write: Function from ids, mask and seeds to new ids and their numbers, such as
            those of `decoder_writer` and `seq2seq_writer`.
        seed: Seed of the first prompt; the others' seeds follow.
        progress: The progress bar, which advances by the number of finished prompts.
    """
    answers: list[list[int]] = [[] for _ in prompts.rows.lengths]
    groups = grouped_by_length(prompts.rows.lengths, _TEXTS_AT_ONCE, prompts.longest)
    for group in groups:
        ids, mask = _padded(prompts, group)
        seeds = (group.rows + seed).astype(np.int32)
        written, lengths = map(keras.ops.convert_to_numpy, write(ids, mask, seeds))
        for row, new in zip(group.rows[: group.real], unpad(written, lengths)):  # noqa: B905
            answers[row] = new
        progress.advance(group.real)
    return answers


def generation_config(config: RunConfig, tokenizer: Tokenizer) -> GenerationConfig:
    """Generation settings of a run's evaluation."""
    objective, wanted = config.objective, config.evaluation
    assert isinstance(objective, AnswerObjective)
    if isinstance(objective, CompletionConfig | DialogueConfig):
        most = answer_tokens(config)
    else:
        # The first token of the decoder's rows is no answer.
        most = min(objective.decoder_length, config.model.max_sequence_length - 1)
        most = wanted.max_new_tokens or most
    return GenerationConfig(
        method=wanted.method,
        max_new_tokens=most,
        stop_token_ids=(needed(tokenizer, config, "end"), *tokenizer.special.stop),
        pad_token_id=tokenizer.special.pad,
    )


def _encoded(
    texts: Sequence[bytes], tokenizer: Tokenizer, length: int, end: int
) -> TokenRows:
    """Tokenizes texts as in records: truncated to a length, with an end token."""
    rows = tokenize_texts(texts, tokenizer)
    kept = np.minimum(rows.lengths, length - 1)
    splits = np.concatenate([[0], np.cumsum(kept + 1)])
    ids = np.full(splits[-1], end, np.int32)
    for row, (start, count) in enumerate(zip(rows.row_splits[:-1], kept, strict=True)):
        ids[splits[row] : splits[row] + count] = rows.ids[start : start + count]
    return TokenRows(ids, splits)


def _prompts(
    texts: Sequence[bytes],
    tokenizer: Tokenizer,
    config: CompletionConfig | DialogueConfig,
    longest: int,
) -> TokenRows:
    """Tokenizes prompts as in records: truncated to a length, with a begin token."""
    begin, end = tokenizer.special.begin, tokenizer.special.end
    adds_begin = begin not in (None, end)
    rows, most = tokenize_texts(texts, tokenizer), longest - adds_begin
    if isinstance(config, CompletionConfig):
        rows = truncate_prompts(rows, most, config, tokenizer)
    else:
        over = np.maximum(rows.lengths - most, 0)
        rows = drop_tokens(rows, np.zeros_like(over), over)
    return join_rows(begin, rows) if adds_begin and begin is not None else rows


def _padded(prompts: Prompts, group: Group) -> tuple[np.ndarray, np.ndarray]:
    """Padded ids and mask of a group, both int32 (B, width)."""
    rows, _, pad, pad_left = prompts
    lengths = rows.lengths[group.rows, np.newaxis]
    columns = np.arange(group.width) - (group.width - lengths if pad_left else 0)
    mask = (columns >= 0) & (columns < lengths)
    cells = np.where(mask, rows.row_splits[group.rows, np.newaxis] + columns, 0)
    return np.where(mask, rows.ids[cells], pad).astype(np.int32), mask.astype(np.int32)


def seq2seq_writer(
    model: keras.Model, config: GenerationConfig, begin: int
) -> Callable[..., tuple[Any, Any]]:
    """Compiles the function that generates the best output for each encoder input.

    The compiled function takes ids, mask and seeds, and returns ids and lengths, int32
    (B, N) and (B,).

    Args:
        model: An encoder-decoder without packing, with its weights.
        config: The settings.
        begin: The first token that the decoder reads.
    """
    hidden = isinstance(config.method, ContrastiveConfig)

    def write(token_ids, padding_mask, seeds):
        steps = seq2seq_steps(model, token_ids, padding_mask, keep_hidden=hidden)
        prompts = keras.ops.full((token_ids.shape[0], 1), begin, dtype="int32")
        return _best(generate(steps, prompts, config=config, seeds=seeds))

    return _compiled(write)


def decoder_writer(
    model: keras.Model, config: GenerationConfig
) -> Callable[..., tuple[Any, Any]]:
    """Compiles the function that generates the best answer to each prompt."""
    hidden = isinstance(config.method, ContrastiveConfig)

    def write(token_ids, padding_mask, seeds):
        steps = decoder_steps(model, keep_hidden=hidden)
        return _best(
            generate(steps, token_ids, padding_mask, config=config, seeds=seeds)
        )

    return _compiled(write)


def _best(result: Mapping[str, Any]) -> tuple[Any, Any]:
    """The ids and lengths of the best result for each text."""
    ids, lengths = result["token_ids"], result["lengths"]
    if len(ids.shape) == 3:  # several results, the best first
        ids, lengths = ids[:, 0], lengths[:, 0]
    return ids, lengths


def _compiled(write: Callable[..., Any]) -> Callable[..., Any]:
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(write)
    traced = tf.function(write, autograph=False)
    return lambda *arrays: traced(*map(tf.constant, arrays))


def decode_answers(answers: Sequence[Sequence[int]], tokenizer: Tokenizer) -> list[str]:
    """Returns the texts of generated ids, without the special tokens around them."""
    special = tokenizer.special
    silent = {special.pad, special.begin, *special.ends}
    ids = [[token for token in answer if token not in silent] for answer in answers]
    ragged = tf.ragged.constant(ids, dtype=tf.int32, ragged_rank=1)
    texts: list[bytes] = tokenizer.detokenize(ragged).numpy().tolist()
    return [text.decode("utf-8", "replace") for text in texts]
