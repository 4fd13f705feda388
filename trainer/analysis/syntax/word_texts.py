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
from transbeam.model.adaptation.head_pruning import attention_layers
from transbeam.model.inspect.attention_maps import attention_probabilities
from transbeam.model.inspect.word_attention import (
    find_most_attended,
    merge_words,
    word_membership,
)
from transbeam.model.layers.attention.cross import CrossAttention
from transbeam.model.layers.attention.full import MultiHeadAttention
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
    """Lists the heads whose weights are from each token to each token of one text.

    In an encoder-decoder these are the encoder's.

    Raises:
        ConfigError: The model has no such head, or reads images.
    """
    if not any(name.endswith("token_ids") for name in model.input):
        raise ConfigError(
            "model.patches: the model reads images, and the roles of heads are those "
            "between words; analyze a model of texts, or another part"
        )
    heads = [
        HeadName(path, head)
        for path, layer in attention_layers(model).items()
        if isinstance(layer, MultiHeadAttention)
        and not isinstance(layer, CrossAttention)
        and not (_is_encoder_decoder(model) and path.startswith("decoder"))
        for head in range(layer.num_heads)
    ]
    if not heads:
        raise ConfigError(
            "model.attention: attention between words needs weights from each token to "
            "each token, which full attention has; this model has other kinds only"
        )
    return heads


def make_word_reader(model: keras.Model) -> Callable[[Any, Any], Any]:
    """Traces the computation of word maps from inputs and memberships."""
    layers = dict.fromkeys(name.layer for name in list_heads(model))

    @tf.function(autograph=False, reduce_retracing=True)
    def read(inputs, membership):
        maps = attention_probabilities(model, inputs)
        # Layer by layer, so that one layer's token maps exist at a time.
        words = [merge_words(maps[layer], membership) for layer in layers]
        words = ops.concatenate(words, axis=1)
        return words, *find_most_attended(words, membership)

    return read


def read_word_maps(
    context: AnalysisContext, words: WordTexts, label: str
) -> Iterator[WordMaps]:
    """Yields the attention between words, batch by batch.

    Args:
        context: The model.
        words: The texts.
        label: What the progress bar says.
    """
    read = make_word_reader(context.model)
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


def _is_encoder_decoder(model: keras.Model) -> bool:
    return "encoder_token_ids" in model.input
