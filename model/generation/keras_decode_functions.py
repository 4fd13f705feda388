"""Builds `DecodeFunctions` from a built Keras model."""

from typing import Any

import keras
from keras import ops

from transbeam.model.generation.cached_forward import (
    CachedForward,
    find_encoder,
    find_prefix_mask,
)
from transbeam.model.generation.decode_functions import DecodeFunctions
from transbeam.model.stack.layer_stack import LayerStack


def decoder_steps(
    decoder: keras.Model, *, keep_hidden: bool = False
) -> DecodeFunctions:
    """Builds the decode functions of a decoder.

    Args:
        decoder: A model of `build_decoder` without packing, with its weights. With a
            `prefix`, attention within each prompt is bidirectional.
        keep_hidden: If true, hidden states are cached, as `contrastive` needs.

    Raises:
        ValueError: The model lacks logits, has inputs other than those of an unpacked
            model, or has an attention without a cache.

    Example:
    >>> from transbeam.configs.schema.generation import GenerationConfig
    >>> from transbeam.configs.schema.model import DecoderConfig
    >>> from transbeam.model.decoder import build_decoder
    >>> from transbeam.model.generation.generate import generate
    >>> decoder = build_decoder(
    ...     DecoderConfig(num_layers=1, hidden_dim=8), vocabulary_size=10
    ... )
    >>> config = GenerationConfig(max_new_tokens=4)
    >>> result = generate(decoder_steps(decoder), ops.array([[1, 2]]), config=config)
    >>> tuple(result["token_ids"].shape)
    (1, 4)
    """
    _check(decoder, {"token_ids", "padding_mask", *find_prefix_mask(decoder)})
    walk = CachedForward(decoder, LayerStack.from_model(decoder), keep_hidden)
    return walk.steps(walk.prefill)


def seq2seq_steps(
    model: keras.Model,
    encoder_token_ids: Any,
    encoder_padding_mask: Any,
    *,
    keep_hidden: bool = False,
) -> DecodeFunctions:
    """Builds the decode functions of an encoder-decoder for some source texts.

    The source is encoded once, in `prefill`. The prompts are the first tokens of the
    decoder, such as the begin-of-text token.

    Args:
        model: A model of `build_seq2seq` without packing, with its weights.
        encoder_token_ids: int32 `(B, S)`, the texts.
        encoder_padding_mask: int32 `(B, S)`, 0 for padding.
        keep_hidden: As in `decoder_steps`.

    Raises:
        ValueError: As in `decoder_steps`.
    """
    names = ("encoder_token_ids", "encoder_padding_mask")
    _check(model, {*names, "decoder_token_ids", "decoder_padding_mask"})
    walk = CachedForward(model, LayerStack.from_model(model, "decoder_"), keep_hidden)
    encoder = find_encoder(model)

    def prefill(token_ids, padding_mask, slots):
        given = (encoder_token_ids, encoder_padding_mask)
        texts = {
            name: ops.cast(x, "int32") for name, x in zip(names, given, strict=True)
        }
        mask = texts["encoder_padding_mask"]
        context = encoder(texts)
        return walk.prefill(token_ids, padding_mask, slots, context, mask)

    return walk.steps(prefill)


def _check(model: keras.Model, expected: set[str]) -> None:
    if not isinstance(model.output, dict) or "logits" not in model.output:
        raise ValueError(
            f"{model.name}: it has no logits; only a decoder says which token is next"
        )
    names = {tensor.name for tensor in model.inputs}
    if names != expected:
        raise ValueError(
            f"{model.name}: its inputs are {sorted(names)}; expected "
            f"{sorted(expected)}: build it again for writing, with packed=False, and "
            "load the weights"
        )
