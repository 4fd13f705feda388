"""Hidden states of all layers for the words of texts."""

from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

from transbeam.configs.base.errors import ConfigError
from transbeam.model.inspect.hidden_states import average_words, with_hidden_states
from transbeam.model.stack.layer_stack import LayerStack
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.base.free_shapes import trace_free
from transbeam.trainer.analysis.syntax.word_texts import WordTexts


@dataclass(frozen=True)
class LayerStates:
    """Vectors of words in every layer.

    Attributes:
        layers: Names of the hidden states: the embeddings, then each block.
        states: float32 (L, N, D).
        texts: int64 (N,). The number of each word's text.
        words: int64 (N,). The number of each word in its text.
    """

    layers: tuple[str, ...]
    states: np.ndarray
    texts: np.ndarray
    words: np.ndarray


def list_layers(model: keras.Model) -> tuple[str, ...]:
    """Lists the hidden states of the stack that reads a text, the embeddings first.

    In an encoder-decoder it is the encoder.

    Raises:
        ConfigError: The model reads images.

    Example:
    >>> from transbeam.configs.schema.model import DecoderConfig
    >>> from transbeam.model.decoder import build_decoder
    >>> list_layers(build_decoder(DecoderConfig(num_layers=1, hidden_dim=8), 10))
    ('embeddings', 'decoder_layer_0')
    """
    if not any(name.endswith("token_ids") for name in model.input):
        raise ConfigError(
            "model.patches: the model reads images, which have no words; analyze a "
            "model of texts, or another part"
        )
    prefix = "encoder_" if "encoder_token_ids" in model.input else ""
    blocks = LayerStack.from_model(model, prefix).blocks
    return (f"{prefix}embeddings", *(block.name for block in blocks))


def collect_states(
    context: AnalysisContext, words: WordTexts, label: str
) -> LayerStates:
    """Computes the vectors of all words that have a token.

    The vector of a word is the mean of the vectors of its tokens.

    Args:
        context: The model.
        words: The texts.
        label: What the progress bar says.

    Raises:
        ConfigError: The model reads images.
    """
    layers = list_layers(context.model)
    model = with_hidden_states(context.model)

    def compute(inputs, membership, rows, columns):
        outputs = model(inputs, training=False)
        cells = tf.stack([rows, columns], axis=1)
        return [
            tf.gather_nd(average_words(outputs[name], membership), cells)
            for name in layers
        ]

    found, read = [], None
    batches = words.texts.batches(
        context.model, context.max_tokens, context.config.model.max_sequence_length
    )
    with context.console.progress(label, len(words.texts), "text") as bar:
        for batch in batches:
            membership = words.stack_memberships(batch)
            rows, columns = np.nonzero(membership.any(axis=1))
            arguments = batch.inputs, membership, rows, columns
            read = read or trace_free(compute, *arguments)
            states = read(*arguments)
            # (N, L, D): parts are joined, and put in the texts' order, along words.
            found.append((np.stack(states, axis=1), batch.index[rows], columns))
            bar.advance(len(batch.index))
    states, texts, columns = (
        np.concatenate(parts) for parts in zip(*found, strict=True)
    )
    order = np.lexsort((columns, texts))
    return LayerStates(
        layers, states[order].swapaxes(0, 1), texts[order], columns[order]
    )
