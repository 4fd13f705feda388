"""Weights of an encoder as those of an encoder-decoder.

An encoder-decoder that is initialized with a pretrained encoder learns from far fewer
examples than one from random weights. Its encoder becomes that encoder, and its decoder
is initialized with the same blocks. The attention to the encoder's output, which an
encoder does not have, is initialized with the encoder's last self-attention: the block
whose keys and values are nearest to that output.

References:
    - [Rothe et al., 2020](https://arxiv.org/abs/1907.12461) (BERT2BERT)
    - [Zhang et al., 2025](https://arxiv.org/abs/2504.06225) (attention to the
      encoder initialized with self-attention)
"""

import re
from collections.abc import Iterable, Mapping

import numpy as np

from transbeam.model.base.weight_paths import is_head

_TOKENS = "token_embedding/"
_POSITIONS = "position_embedding/embeddings"
_SEGMENTS = "segment_embedding/embeddings"
_ENCODER = "encoder_"
_DECODER = "decoder_"
_DISTANCES = "decoder_relative_bias/"
_BLOCK = re.compile(r"(?:en|de)coder_layer_(\d+)/(.+)")


def as_encoder_weights(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Renames an encoder's weights to their paths in an encoder-decoder.

    An encoder-decoder has no segments: the vector of the first segment is added to the
    vector of each position.

    Args:
        weights: Values by path.

    Example:
    >>> found = as_encoder_weights(
    ...     {
    ...         "position_embedding/embeddings": np.array([[1.0], [2.0]]),
    ...         "segment_embedding/embeddings": np.array([[0.5], [9.0]]),
    ...         "encoder_layer_0/feedforward_norm/gamma": np.ones(1),
    ...         "embeddings_norm/gamma": np.ones(1),
    ...     }
    ... )
    >>> sorted(found)[:2]
    ['encoder_embeddings_norm/gamma', 'encoder_layer_0/feedforward_norm/gamma']
    >>> found["encoder_position_embedding/embeddings"].tolist()
    [[1.5], [2.5]]
    """
    values = dict(weights)
    segments = values.pop(_SEGMENTS, None)
    if segments is not None and _POSITIONS in values:
        values[_POSITIONS] = values[_POSITIONS] + segments[:1]
    return {
        path if path.startswith((_TOKENS, _ENCODER)) else _ENCODER + path: value
        for path, value in values.items()
        if not is_head(path)
    }


def is_of_decoder(path: str) -> bool:
    """Returns whether a weight of an encoder-decoder is none of its encoder's.

    Example:
    >>> is_of_decoder("decoder_layer_0/cross_attention/query/kernel")
    True
    >>> is_of_decoder("token_embedding/embeddings")
    False
    """
    return not path.startswith((_TOKENS, _ENCODER))


def as_decoder_weights(
    encoder: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Selects an encoder's weights to initialize a decoder with.

    The blocks of a shorter decoder are taken evenly, from the first to the last of the
    encoder; a decoder of one block takes the first.

    Args:
        encoder: Values by their paths in the encoder-decoder, of `as_encoder_weights`.
        shapes: Shapes of the encoder-decoder's weights, by path.

    Returns:
        Values by path. Left out are weights that the encoder does not have, or has in
        another shape, and biases by distance, which count distances in one direction in
        a decoder and in both in an encoder.

    Example:
    >>> encoder = {
    ...     "encoder_embeddings_norm/gamma": np.array(5.0),
    ...     "encoder_layer_0/self_attention/query/kernel": np.array(0.0),
    ...     "encoder_layer_1/self_attention/query/kernel": np.array(1.0),
    ... }
    >>> shapes = {
    ...     "decoder_embeddings_norm/gamma": (),
    ...     "decoder_layer_0/self_attention/query/kernel": (),
    ...     "decoder_layer_0/cross_attention/query/kernel": (),
    ...     "decoder_layer_0/cross_attention/query/bias": (),
    ... }
    >>> [value.item() for value in as_decoder_weights(encoder, shapes).values()]
    [5.0, 0.0, 1.0]
    """
    last = _number_of_blocks(encoder) - 1
    blocks = _number_of_blocks(path for path in shapes if path.startswith(_DECODER))
    found = {}
    for path, shape in shapes.items():
        if not path.startswith(_DECODER) or path.startswith(_DISTANCES):
            continue
        origin = _ENCODER + path.removeprefix(_DECODER)
        if in_block := _BLOCK.fullmatch(path):
            number, rest = int(in_block[1]), in_block[2]
            place = round(number * last / max(blocks - 1, 1))
            if rest.startswith("cross_attention"):
                place, rest = last, rest.replace("cross_attention", "self_attention", 1)
            origin = f"encoder_layer_{place}/{rest}"
        if origin in encoder and encoder[origin].shape == shape:
            found[path] = encoder[origin]
    return found


def _number_of_blocks(paths: Iterable[str]) -> int:
    return len({block[1] for path in paths if (block := _BLOCK.fullmatch(path))})
