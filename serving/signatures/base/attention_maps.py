"""The signature `attention`: attention weights for visualization.

Other signatures use fused attention, which never materializes attention weights. While
the signature `attention` is traced, the layers record their attention weights, so that
its graph computes them.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import keras
import tensorflow as tf

from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.model.inspect.attention_maps import attention_probabilities
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.interface import Endpoint
from transbeam.serving.text_ops.mask_tokens import answer_pieces

# Maximum tokens of a row: a text of 512 has sixteen times the weights of one of 128,
# 150 MB for a BERT-base.
LONGEST = 128


class AttentionGroup(NamedTuple):
    """A group of attention maps of a model, such as cross-attention.

    Attributes:
        path: A regular expression for the paths of the layers; its group is the layer's
            number.
        queries: Prefix of the input names of the query tokens.
        keys: Prefix of the input names of the key tokens.
    """

    path: str
    queries: str
    keys: str


_ENCODER, _DECODER = "encoder_", "decoder_"
_OF_ONE = {"attention": AttentionGroup(r"\w+_layer_(\d+)/self_attention", "", "")}
_OF_TWO = {
    "encoder_attention": AttentionGroup(
        r"encoder_layer_(\d+)/self_attention", *[_ENCODER] * 2
    ),
    "decoder_attention": AttentionGroup(
        r"decoder_layer_(\d+)/self_attention", *[_DECODER] * 2
    ),
    "cross_attention": AttentionGroup(
        r"decoder_layer_(\d+)/cross_attention", _DECODER, _ENCODER
    ),
}

Read = Callable[..., tuple[Mapping[str, tf.Tensor], tf.Tensor]]


class AttentionReader(Protocol):
    """Signatures whose texts can be read for attention maps."""

    def read_for_attention(
        self, *texts: tf.Tensor, longest: int = LONGEST
    ) -> tuple[Mapping[str, tf.Tensor], tf.Tensor]:
        """Converts texts to the inputs of the model, with special tokens.

        Args:
            texts: string (B,) each, in the order of the inputs of the signature
                `attention`.
            longest: The maximum number of tokens of a row; a longer text is cut.

        Returns:
            The inputs of the model by name, and bool (B,), whether a text was cut.
        """
        ...


def attention_endpoint(
    trained: TrainedRun, model: keras.Model, texts: Sequence[tf.TensorSpec], read: Read
) -> dict[str, Endpoint]:
    """Returns the signature `attention`, or none if the model lacks full attention.

    Shapes: `B` texts, `L` layers, `H` heads, `T` tokens of the longest text, at most
    `LONGEST`.

    The signature's inputs are texts. The signature's outputs are `tokens` string (B,
    T), the readable pieces, `""` for padding; `token_ids` int32 (B, T); `length` int32
    (B,); `truncated` bool (B,), whether a text was cut; and `attention` float32 (B, L,
    H, T, T): the attention weights of each query token (rows) over key tokens
    (columns). The weights of each row sum to 1, except for padding rows, whose weights
    are 0. For pairs of texts, the outputs include `segment_ids` int32 (B, T): 1 for
    tokens of the second text.

    The outputs of a sequence-to-sequence model are `encoder_tokens` and
    `decoder_tokens`, the token ids and lengths of encoder and decoder,
    `encoder_attention`, `decoder_attention`, and `cross_attention`, the weights of the
    decoder's tokens over the encoder's tokens.

    Args:
        trained: Has the tokenizer.
        model: The Keras model, which takes the inputs that `read` returns.
        texts: The text inputs of the signature.
        read: Converts texts to model inputs of at most `LONGEST` tokens; also returns
            whether each text was truncated.
    """
    if not isinstance(trained.config.model.attention, FullAttentionConfig):
        return {}

    def attention(*columns: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs, truncated = read(*columns)
        with tf.init_scope():  # symbolic tensors have no values to read
            pieces = answer_pieces(trained.tokenizer)
        found = {"truncated": truncated}
        for prefix in ("",) if "token_ids" in inputs else (_ENCODER, _DECODER):
            ids = inputs[f"{prefix}token_ids"]
            mask = inputs[f"{prefix}padding_mask"]
            found[f"{prefix}tokens"] = tf.where(
                mask > 0, tf.gather(tf.constant(pieces), ids), ""
            )
            found[f"{prefix}token_ids"] = ids
            found[f"{prefix}length"] = tf.reduce_sum(mask, axis=1)
        if "segment_ids" in inputs:
            found["segment_ids"] = inputs["segment_ids"]
        return found | attention_maps(model, inputs)

    return {"attention": Endpoint(attention, list(texts))}


def attention_groups(inputs: Collection[str]) -> Mapping[str, AttentionGroup]:
    """Returns the groups of attention maps of a model, by the names of its inputs.

    Example:
    >>> list(attention_groups(["token_ids", "padding_mask"]))
    ['attention']
    """
    return _OF_ONE if "token_ids" in inputs else _OF_TWO


def attention_maps(
    model: keras.Model, inputs: Mapping[str, Any]
) -> dict[str, tf.Tensor]:
    """Stacks the layers' attention weights, named as in the signature `attention`.

    Args:
        model: With full attention.
        inputs: The model's inputs by name, including padding masks.

    Returns:
        Attention weights of `T` query tokens over `S` key tokens, float32 (B, L, H, T,
        S) each, 0 where a token is padding.
    """
    seen = attention_probabilities(model, dict(inputs))
    found = {}
    for name, maps in attention_groups(inputs).items():
        layers = {
            int(match[1]): probabilities
            for path, probabilities in seen.items()
            if (match := re.fullmatch(maps.path, path))
        }
        whole = tf.stack([layers[number] for number in sorted(layers)], axis=1)
        masks = (inputs[f"{side}padding_mask"] for side in maps[1:])
        queries, keys = (tf.cast(mask, whole.dtype) for mask in masks)
        real = queries[:, :, tf.newaxis] * keys[:, tf.newaxis]  # (B, T, S)
        found[name] = whole * real[:, tf.newaxis, tf.newaxis]
    return found
