"""Low-rank attention (Linformer): keys and values are projected to a few vectors."""

import keras
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.base.initializers import seeded
from transbeam.model.layers.attention.attended_keys import ProjectedKeys
from transbeam.model.layers.attention.base_attention import Attention
from transbeam.model.layers.attention.document_masks import (
    DocumentMasks,
    read_documents,
)
from transbeam.model.layers.attention.local_attention import mask_scores
from transbeam.model.layers.masks import softmax


@keras.saving.register_keras_serializable(package="transbeam")
class LowRankAttention(Attention):
    """Attention to `rank` projections of all keys and values (Linformer).

    The cost is linear in the length. A projection is a weighted sum with a learned
    weight for each position, shared by all heads. As there is one weight per position,
    the maximum length is fixed.

    In a packed row each document is projected separately. At most `max_documents`
    documents are supported, and the cost is proportional to this number; the outputs of
    a row with more documents are NaN.

    Shapes: as in `Attention`; `P` positions, `r` projections, `M` documents.

    Args:
        max_sequence_length: int. `P`.
        rank: int. `r`.
        share_key_value: bool. If true, keys and values share one projection.
        max_documents: int. `M`, the largest number of documents in a packed row.

    The other arguments, the call arguments and the errors are those of `Attention`;
    `rotary` and `score_bias` are not supported, as a projection has no position.
    The layer `probabilities` is called with `(B, H, T, r)`, and with `(B, H, T, M r)`
    for packed rows.

    Raises:
        ConfigError: An argument is invalid for low-rank attention.
        ValueError: There are more tokens than `max_sequence_length`.

    Example:
    >>> attention = LowRankAttention(4, 2, max_sequence_length=8, rank=3)
    >>> sequence_info = {"padding_mask": ops.ones((1, 5), dtype="int32")}
    >>> tuple(attention(ops.ones((1, 5, 4)), sequence_info).shape)
    (1, 5, 4)

    References:
        - [Wang et al., 2020](https://arxiv.org/abs/2006.04768), equation 7; the weights
          are shared by heads, as in section 4
    """

    not_causal = "a sum mixes what comes before a token with what comes after it"

    def __init__(
        self,
        hidden_dim: int,
        num_heads: int,
        *,
        max_sequence_length: int = 512,
        rank: int = 256,
        share_key_value: bool = False,
        max_documents: int = 8,
        **kwargs,
    ):
        super().__init__(hidden_dim, num_heads, **kwargs)
        if self.rotary is not None or self.score_bias is not None:
            raise ConfigError(
                f"{self.name}: rotary and score_bias need keys that stand at one "
                "place, and low rank attention sums up keys of many"
            )
        if not 1 <= rank <= max_sequence_length or max_documents < 1:
            raise ConfigError(
                f"{self.name}: rank={rank} must be from 1 to max_sequence_length="
                f"{max_sequence_length}, and max_documents={max_documents} at least 1"
            )
        self.max_sequence_length = max_sequence_length
        self.rank = rank
        self.share_key_value = share_key_value
        self.max_documents = max_documents

    def build(self, inputs_shape):
        super().build(inputs_shape)
        self.key_summary = self._summary("key_summary")
        if not self.share_key_value:
            self.value_summary = self._summary("value_summary")

    def _summary(self, name):
        return self.add_weight(
            name=name,
            shape=(self.max_sequence_length, self.rank),
            initializer=seeded(self.kernel_initializer, self.seed, name),
        )

    def attend(self, query, key, value, sequence_info, training=None):
        batch, length, heads, width = ops.shape(query)
        if isinstance(length, int) and length > self.max_sequence_length:
            raise ValueError(
                f"{self.name}: inputs has {length} tokens; expected at most "
                f"max_sequence_length={self.max_sequence_length}, for which there are "
                "weights"
            )
        documents = read_documents(sequence_info, length, self.name)
        groups, shared = key.shape[2], heads // key.shape[2]
        keys = self._sum_up(key, self.key_summary, documents)  # (B, S, G, K)
        weights = self.key_summary if self.share_key_value else self.value_summary
        values = self._sum_up(value, weights, documents)

        query = ops.reshape(query, (batch, length, groups, shared, width))
        scores = ops.einsum("btgrk,bsgk->bgrts", query, keys)
        scores = ops.reshape(scores, (batch, heads, length, keys.shape[1]))
        scores = mask_scores(scores, self._own_sums(documents))

        def attended():
            real = ops.not_equal(documents.ids, 0)
            real = ops.reshape(real, (batch, 1, length, 1))
            visible = ops.logical_and(real, self._own_sums(documents))
            shape = (batch, 1, length, keys.shape[1])
            return ProjectedKeys(ops.broadcast_to(visible, shape))

        probabilities = self.record_and_drop(softmax(scores), attended, training)
        probabilities = ops.reshape(
            probabilities, (batch, groups, shared, length, keys.shape[1])
        )
        outputs = ops.einsum("bgrts,bsgk->btgrk", probabilities, values)
        outputs = ops.reshape(outputs, (batch, length, heads, width))
        return self._spoil_crowded_rows(outputs, documents)

    def _sum_up(self, x, summary, documents: DocumentMasks):
        """Projects each document: `(B, T, G, K)` to `(B, S, G, K)`.

        `S` is `r`. In packed rows `S` is `M r`: each of the `M` documents is projected
        separately, and the projections are concatenated in the order of the documents.
        """
        batch, length, groups, width = ops.shape(x)
        x = ops.reshape(x, (batch, length, groups * width))
        summary = ops.cast(summary, x.dtype)
        if documents.aligned:
            real = ops.cast(ops.not_equal(documents.ids, 0), x.dtype)
            x = x * ops.expand_dims(real, 2)
            # `ops.slice` fails if the row is too long; indexing returns fewer rows.
            weights = ops.slice(summary, (0, 0), (length, self.rank))  # (T, r)
        else:
            weights = ops.take(summary, documents.positions, axis=0)  # (B, T, r)
            mine = ops.cast(self._membership(documents), x.dtype)  # (B, T, M)
            weights = ops.expand_dims(mine, 3) * ops.expand_dims(weights, 2)
            weights = ops.reshape(weights, (batch, length, mine.shape[2] * self.rank))
        sums = ops.matmul(ops.swapaxes(weights, -1, -2), x)
        return ops.reshape(sums, (batch, weights.shape[-1], groups, width))

    def _membership(self, documents: DocumentMasks):
        """Computes one-hot document membership of tokens: bool `(B, T, M)`.

        Padding belongs to no document.
        """
        most = self.max_documents if documents.packed else 1
        numbers = ops.arange(1, most + 1, dtype="int32")
        return ops.equal(ops.expand_dims(documents.ids, 2), numbers)

    def _own_sums(self, documents: DocumentMasks):
        """Marks the projections that each token may attend to.

        The mask broadcasts to `(B, H, T, S)`.
        """
        if documents.aligned:
            return True
        own = ops.repeat(self._membership(documents), self.rank, axis=2)
        return ops.expand_dims(own, 1)

    def _spoil_crowded_rows(self, outputs, documents: DocumentMasks):
        if not documents.packed:
            return outputs
        crowded = ops.any(documents.ids > self.max_documents, axis=1)
        crowded = ops.reshape(crowded, (-1, 1, 1, 1))
        nan = ops.cast(float("nan"), outputs.dtype)
        return ops.where(crowded, nan, outputs)
