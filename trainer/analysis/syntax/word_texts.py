"""Texts whose words are known, and the attention between these words."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from transbeam.configs.base.errors import ConfigError, DataError
from transbeam.configs.schema.model import Seq2SeqModelConfig
from transbeam.model.inspect.word_attention import (
    find_most_attended,
    read_word_attention,
    word_layers,
    word_membership,
)
from transbeam.trainer.analysis.base.analysis_context import (
    AnalysisContext,
    AnalyzedTexts,
    TextBatch,
)
from transbeam.trainer.analysis.base.text_reading import (
    Row,
    find_frame,
    make_row,
)


class HeadName(NamedTuple):
    """A head: the path of its layer, and its index from 0."""

    layer: str
    head: int


@dataclass(frozen=True)
class WordTexts:
    """Tokenized texts with the words that their tokens are parts of.

    Attributes:
        texts: The texts that fit into the model, with special tokens.
        memberships: bool (T, W) of each text; special tokens are parts of no word.
        kept: The number of each text among those that were given.
        skipped: Number of texts that do not fit, or have no token.
    """

    texts: AnalyzedTexts
    memberships: tuple[np.ndarray, ...]
    kept: tuple[int, ...]
    skipped: int

    def stack_memberships(self, batch: TextBatch) -> np.ndarray:
        """Returns the memberships of a batch, padded with zeros: float32 (B, T, W)."""
        parts = [self.memberships[number] for number in batch.index]
        width = batch.inputs[_token_ids(batch.inputs)].shape[1]
        shape = (len(parts), width, max(part.shape[1] for part in parts))
        stacked = np.zeros(shape, np.float32)
        for row, part in zip(stacked, parts, strict=True):
            row[: part.shape[0], : part.shape[1]] = part
        return stacked


class WordMaps(NamedTuple):
    """Attention between the words of a batch; `H` are the heads of all layers.

    Attributes:
        index: The texts' numbers, int64 (B,).
        words: float32 (B, H, W, W), the result of `merge_words`.
        to: int32 (B, H, W), the word to which a word attends most.
        by: int32 (B, H, W), the word that attends most to a word.
    """

    index: np.ndarray
    words: np.ndarray
    to: np.ndarray
    by: np.ndarray


def tokenize_words(
    context: AnalysisContext,
    texts: Sequence[str],
    offsets: Sequence[Sequence[tuple[int, int]]],
    name: str,
) -> WordTexts:
    """Tokenizes texts whose words are known; texts longer than the model are skipped.

    In an encoder-decoder the texts are those of the encoder.

    Args:
        context: The model and its tokenizer.
        texts: The texts.
        offsets: Start and end of the words of each text, in characters.
        name: The name of the texts.

    Raises:
        DataError: No text fits into the model.
    """
    config = context.config.model
    before, after = find_frame(config, context.tokenizer)
    longest = config.max_sequence_length - len(before) - len(after)
    rows, memberships, kept = [], [], []
    tokenized = context.tokenizer.tokenize_with_offsets(texts)
    for number, (tokens, words) in enumerate(zip(tokenized, offsets, strict=True)):
        if not 0 < len(tokens.ids) <= longest:
            continue
        member = word_membership(tokens.offsets, words)
        framed = np.pad(member, ((len(before), len(after)), (0, 0)))
        rows.append(_side_row(context, [*before, *tokens.ids, *after]))
        memberships.append(framed)
        kept.append(number)
    if not rows:
        raise DataError(
            f"{name}: none of its {len(texts)} texts has 1 to {longest} tokens, which "
            "is what the model reads"
        )
    return WordTexts(
        AnalyzedTexts(name, tuple(rows)),
        tuple(memberships),
        tuple(kept),
        len(texts) - len(kept),
    )


def list_heads(model: keras.Model) -> list[HeadName]:
    """Lists the heads whose weights are of tokens; those of `read_word_attention`.

    Raises:
        ConfigError: The model has no such head, or reads images.
    """
    if not any(name.endswith("token_ids") for name in model.input):
        raise ConfigError(
            "model.patches: the model reads images, and the roles of heads are those "
            "between words; analyze a model of texts, or another part"
        )
    heads = [
        HeadName(layer.path, head)
        for layer in word_layers(model)
        for head in range(layer.num_heads)
    ]
    if not heads:
        raise ConfigError(
            "model.attention: attention between words needs weights of tokens, which "
            "low-rank and kernel attention do not have; use another kind of attention"
        )
    return heads


def make_word_reader(model: keras.Model) -> Callable[[Any, Any], Any]:
    """Makes a function of inputs and memberships, which is traced once.

    Returns:
        A function that returns what `WordMaps` has but the index.
    """
    layers = dict.fromkeys(name.layer for name in list_heads(model))

    members = tf.TensorSpec((None, None, None), tf.float32)

    @tf.function(autograph=False, input_signature=[specify_inputs(model), members])
    def read(inputs, membership):
        found = read_word_attention(model, inputs, membership)
        words = ops.concatenate([found[layer] for layer in layers], axis=1)
        return words, *find_most_attended(words, membership)

    return read


def specify_inputs(model: keras.Model) -> dict[str, tf.TensorSpec]:
    """Returns the inputs of a traced function, of any number of texts and tokens."""
    return {name: tf.TensorSpec((None, None), tf.int32) for name in model.input}


def read_word_maps(
    context: AnalysisContext,
    words: WordTexts,
    read: Callable[[Any, Any], Any],
    label: str,
) -> Iterator[WordMaps]:
    """Yields the attention between words, batch by batch.

    Args:
        context: The model.
        words: The texts.
        read: The result of `make_word_reader`.
        label: What the progress bar says.
    """
    batches = words.texts.batches(
        context.model, context.max_tokens, context.config.model.max_sequence_length
    )
    with context.console.progress(label, len(words.texts), "text") as bar:
        for batch in batches:
            found = read(batch.inputs, words.stack_memberships(batch))
            yield WordMaps(batch.index, *(part.numpy() for part in found))
            bar.advance(len(batch.index))


def _side_row(context: AnalysisContext, token_ids: list[int]) -> Row:
    config, special = context.config.model, context.tokenizer.special
    if not isinstance(config, Seq2SeqModelConfig):
        return make_row(token_ids, config)
    # The encoder does not depend on the decoder's input, which must not be empty.
    first = special.pad if special.end is None else special.end
    return {
        "encoder_token_ids": np.array(token_ids, np.int32),
        "decoder_token_ids": np.array([first], np.int32),
    }


def _token_ids(inputs: dict[str, np.ndarray]) -> str:
    return "token_ids" if "token_ids" in inputs else "encoder_token_ids"
