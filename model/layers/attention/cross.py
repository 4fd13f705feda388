"""Cross-attention from a decoder to an encoder's output."""

import keras
from keras import ops

from transbeam.model.base.tensor_checks import check_rank, fits
from transbeam.model.layers.attention.full import MultiHeadAttention, row_keys
from transbeam.model.layers.attention.kv_cache import attend_to_cache
from transbeam.model.layers.masks import mask_bias, same_document
from transbeam.model.layers.sequence_info import (
    check_sequence_info,
    packed,
    real_tokens,
)


@keras.saving.register_keras_serializable(package="transbeam")
class CrossAttention(MultiHeadAttention):
    """Attention whose keys and values come from another sequence, the context.

    There are no relative positions, as queries and keys belong to two different
    sequences.

    Shapes: `B` batch, `T` length, `S` length of the context, `D` hidden width.

    Call arguments:
        inputs: float `(B, T, D)`.
        context: float `(B, S, D)`.
        sequence_info: Masks and positions of the inputs; see
            `transbeam.model.layers.sequence_info`.
        context_info: Masks and positions of the context, in the format of
            `sequence_info`. In packed rows a document attends to the context document
            with the same index.

    Returns:
        `(B, T, D)` in the compute dtype.

    Raises:
        ValueError: `inputs` or `context` is not of rank 3, their batch sizes differ,
            `sequence_info` does not fit `inputs`, `context_info` does not fit
            `context`, or only one of the two sequences is packed.

    Example:
    >>> attention = CrossAttention(hidden_dim=4, num_heads=2)
    >>> sequence_info = {"padding_mask": ops.ones((1, 2), dtype="int32")}
    >>> context_info = {"padding_mask": ops.ones((1, 3), dtype="int32")}
    >>> outputs = attention(
    ...     ops.ones((1, 2, 4)), ops.ones((1, 3, 4)), sequence_info, context_info
    ... )
    >>> tuple(outputs.shape)
    (1, 2, 4)

    References:
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.2.3
    """

    def call(self, inputs, context, sequence_info, context_info, training=None):
        check_rank(inputs, 3, f"{self.name}: inputs", "(batch, length, hidden_dim)")
        check_rank(context, 3, f"{self.name}: context", "(batch, length, hidden_dim)")
        check_sequence_info(sequence_info, inputs, self.name)
        check_sequence_info(context_info, context, f"{self.name}: context")
        if not fits(tuple(context.shape[:1]), tuple(inputs.shape[:1])):
            raise ValueError(
                f"{self.name}: context has shape {tuple(context.shape)}; expected "
                f"{inputs.shape[0]} rows, as inputs has"
            )
        if packed(sequence_info) != packed(context_info):
            raise ValueError(
                f"{self.name}: one of the two sequences is packed with documents "
                "(document_ids) and the other is not: sequence_info has "
                f"{sorted(sequence_info)}, context_info has {sorted(context_info)}"
            )

        def row_mask(start, size):
            mask = ops.expand_dims(real_tokens(context_info), 1)  # (B, 1, S)
            if packed(sequence_info):
                ids = sequence_info["document_ids"]
                ids = ops.slice(ids, (0, start), (ops.shape(ids)[0], size))
                same = same_document(ids, context_info["document_ids"])
                mask = ops.logical_and(mask, same)  # (B, size, S)
            return mask

        def row_bias(start, size):
            return mask_bias(row_mask(start, size))

        query, key = self.split(self.query(inputs)), self.split(self.key(context))
        query, key = self.name_activations(query, key)
        query, value = self.scale(query), self.split(self.value(context))
        keys = row_keys(sequence_info, row_mask)
        outputs = self._attend(query, key, value, row_bias, keys, training=training)
        return self.join(outputs)

    def fill_cache(self, context):
        """Computes keys and values of a context, once for all decoding steps.

        Args:
            context: float `(B, S, D)`.

        Returns:
            dict with `key` and `value`, `(B, G, S, K)`.
        """
        parts = {"key": self.key(context), "value": self.value(context)}
        return {
            name: ops.transpose(self.split(part), (0, 2, 1, 3))
            for name, part in parts.items()
        }

    def step(self, inputs, context_info, cache):
        """Attends from new tokens to a context in a cache.

        Args:
            inputs: float `(B, Q, D)`.
            context_info: dict with the `padding_mask` `(B, S)` of the context.
            cache: The result of `fill_cache`.

        Returns:
            `(B, Q, D)`.
        """
        query = self.scale(self.split(self.query(inputs)))
        bias = mask_bias(ops.expand_dims(real_tokens(context_info), 1))
        return self.join(attend_to_cache(query * self.score_scale, cache, bias))
