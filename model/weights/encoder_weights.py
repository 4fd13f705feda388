"""Weights of an encoder as those of an encoder-decoder's encoder.

An encoder-decoder whose encoder is initialized with a pretrained encoder learns from
far fewer examples than one from random weights. Its decoder and the attention to the
encoder are new.

References:
    - [Rothe et al., 2020](https://arxiv.org/abs/1907.12461) (BERT2RND)
"""

from collections.abc import Mapping

import numpy as np

from transbeam.model.base.weight_paths import is_head

_TOKENS = "token_embedding/"
_POSITIONS = "position_embedding/embeddings"
_SEGMENTS = "segment_embedding/embeddings"
_ENCODER = "encoder_"


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
