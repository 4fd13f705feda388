"""Kernel attention (Performer, linear attention): products of features."""

import random

import keras
import numpy as np
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.base.initializers import derive_seed
from transbeam.model.layers.attention.base_attention import Attention
from transbeam.model.layers.attention.chunked_linear_attention import (
    LOWEST,
    NOTHING,
    Sums,
    attend_by_exponents,
    attend_in_chunks,
)
from transbeam.model.layers.attention.document_masks import (
    DocumentMasks,
    document_max,
    read_documents,
)


def orthogonal_features(
    num_features: int, width: int, seed: int | None = None
) -> np.ndarray:
    """Draws normally distributed vectors that are orthogonal in groups of `width`.

    Args:
        num_features: Number of vectors.
        width: Their width.
        seed: Random seed; with None, every call draws different vectors.

    Returns:
        float32 `(num_features, width)`.

    Example:
    >>> rows = orthogonal_features(2, 2, seed=1)
    >>> abs(float(rows[0] @ rows[1])) < 1e-6
    True
    """
    generator = np.random.default_rng(seed)
    groups = -(-num_features // width)
    normal = generator.normal(size=(groups, width, width))
    rows, upper = np.linalg.qr(normal)
    # The QR factorization fixes the signs; these make all directions equally likely.
    rows = rows * np.sign(np.diagonal(upper, axis1=1, axis2=2))[:, np.newaxis]
    rows = np.swapaxes(rows, 1, 2).reshape(-1, width)[:num_features]
    lengths = np.linalg.norm(generator.normal(size=(num_features, width)), axis=1)
    return (rows * lengths[:, np.newaxis]).astype("float32")


FEATURE_MAPS = ("softmax", "relu", "elu")
# Added to relu features, so that no similarity is zero.
RELU_EPSILON = 1e-3
# Lower bound of the sum of weights, as the gradient divides by its square.
TINY = 1e-18


@keras.saving.register_keras_serializable(package="transbeam")
class KernelAttention(Attention):
    """Attention by feature products, linear in time and memory (Performer).

    The similarity of a query and a key is a product of their features. So features
    times values can be summed over the keys first, and each query is multiplied with
    the sums: a decoder caches these sums instead of the keys.

    The softmax's exponential is approximated by products of random features `exp(w q -
    |q|^2 / 2)` for normal vectors `w`: the estimate is unbiased, and its variance
    decreases with the number of features, and further because the vectors are
    orthogonal. The features are shifted in log space so that the largest one a query
    attends to is 1. The shift cancels out, and prevents sums from vanishing or
    overflowing.

    Shapes: as in `Attention`, and `F` features.

    Args:
        feature_map: `"softmax"`; `"relu"` of random projections; or `"elu"`: `elu + 1`
            of the elements of queries and keys, without scaling or randomness.
        num_features: int. `F` for `"softmax"` and `"relu"`; ignored for `"elu"`, where
            `F` is `K`.
        seed: int or None. With None a seed is drawn and stored in the config, so that
            the loaded layer has the same features.

    The other arguments, the call arguments and the errors are those of `Attention`;
    there are no probabilities for dropout or inspection, and no scores for a
    `score_bias`.

    Raises:
        ConfigError: An argument is not supported by kernel attention.

    Example:
    >>> attention = KernelAttention(hidden_dim=4, num_heads=2, num_features=8)
    >>> sequence_info = {"padding_mask": ops.ones((1, 5), dtype="int32")}
    >>> tuple(attention(ops.ones((1, 5, 4)), sequence_info).shape)
    (1, 5, 4)

    References:
        - [Choromanski et al., 2021](https://arxiv.org/abs/2009.14794), lemma 1 and
          sections 2.3 and 2.4
        - [Katharopoulos et al., 2020](https://arxiv.org/abs/2006.16236), equation 7
          (elu)
    """

    def __init__(
        self,
        hidden_dim: int,
        num_heads: int,
        *,
        feature_map: str = "softmax",
        num_features: int = 256,
        seed: int | None = None,
        **kwargs,
    ):
        seed = random.randrange(2**31) if seed is None else seed
        super().__init__(hidden_dim, num_heads, seed=seed, **kwargs)
        if feature_map not in FEATURE_MAPS:
            raise ConfigError(
                f"{self.name}: feature_map={feature_map!r}; known here: {FEATURE_MAPS}"
            )
        if num_features < 1:
            raise ConfigError(
                f"{self.name}: num_features={num_features} must be at least 1"
            )
        if self.dropout or self.score_bias is not None:
            raise ConfigError(
                f"{self.name}: dropout={self.dropout} and score_bias need scores of "
                "pairs of tokens, and kernel attention makes none"
            )
        self.feature_map = feature_map
        self.num_features = num_features
        self.random_features = orthogonal_features(
            num_features, self.head_dim, derive_seed(seed, "random_features")
        )

    def scale(self, query):
        """Returns queries unscaled: queries and keys are scaled equally, later."""
        return query

    def attend(self, query, key, value, sequence_info, training=None):
        documents = read_documents(sequence_info, ops.shape(query)[1], self.name)
        heads = query, key, with_ones(value)
        if self.causal:
            outputs, _ = self._attend_before(*heads, documents.ids, documents.packed)
            return self._mean(outputs)
        return self._mean(self._attend_both_ways(*heads, documents))

    def _attend_both_ways(self, query, key, value, documents: DocumentMasks):
        """Bidirectional attention over documents: `(B, T, H, K + 1)`."""
        query, key = self._features(query, key, documents)
        if documents.packed:
            return attend_in_chunks(query, key, value, documents.ids, causal=False)[0]
        batch, length, heads, features = ops.shape(query)
        groups = key.shape[2]
        sums = ops.einsum("btgf,btgv->bgfv", key, value)
        query = ops.reshape(query, (batch, length, groups, heads // groups, features))
        outputs = ops.einsum("btgrf,bgfv->btgrv", query, sums)
        return ops.reshape(outputs, (batch, length, heads, self.head_dim + 1))

    def _attend_before(self, query, key, value, ids, packed: bool, cache=None):
        """Causal attention: `(B, T, H, K + 1)`, and the cache."""
        if self.feature_map == "softmax":
            log_query, log_key = self._log_features(query, key)
            before = None if cache is None else Sums(**cache)
            outputs, sums = attend_by_exponents(
                log_query, log_key, value, ids, packed=packed, before=before
            )
            return outputs, sums._asdict()
        query, key = self._plain_features(query, key, ops.not_equal(ids, 0))
        outputs, sums = attend_in_chunks(
            query,
            key,
            value,
            ids if packed else None,
            causal=True,
            sums=None if cache is None else cache["sums"],
        )
        return outputs, {"sums": sums}

    def _mean(self, outputs):
        """Divides the weighted sums of values by the sums of weights: `(B, T, H, K)`.

        Args:
            outputs: float32 `(B, T, H, K + 1)`.
        """
        # For a query without keys both are zero.
        total = ops.maximum(outputs[..., -1:], TINY)
        return ops.cast(outputs[..., :-1] / total, self.compute_dtype)

    def _excited(self, x):
        """Computes random projections of queries or keys.

        Args:
            x: `(B, T, heads, K)`.

        Returns:
            float32 `(B, T, heads, F)`, and the scaled `x` in float32.
        """
        # The scale 1 / sqrt(K) is split equally between queries and keys.
        scale = self.head_dim**-0.25 if self.scale_scores else 1.0
        x = ops.cast(x, "float32") * scale
        return ops.tensordot(x, self.random_features.T, axes=1), x

    def _log_features(self, query, key):
        """Computes the logarithms of the softmax features.

        Args:
            query: `(B, T, H, K)`.
            key: `(B, T, G, K)`.

        Returns:
            float32 `(B, T, H, F)` and `(B, T, G, F)`.
        """
        # The norm of a query is the same for all of its features and cancels out.
        log_query, _ = self._excited(query)
        excited, key = self._excited(key)
        return log_query, excited - ops.sum(ops.square(key), -1, keepdims=True) / 2.0

    def _features(self, query, key, documents: DocumentMasks):
        """Computes features of queries and keys; those of padding are zero.

        Args:
            query: `(B, T, H, K)`.
            key: `(B, T, G, K)`.
            documents: `DocumentMasks`.

        Returns:
            float32 `(B, T, H, F)` and `(B, T, G, F)`.
        """
        real = ops.not_equal(documents.ids, 0)
        if self.feature_map != "softmax":
            return self._plain_features(query, key, real)
        log_query, log_key = self._log_features(query, key)
        log_key = ops.where(_marks(real), log_key, NOTHING)
        peak = _peaks(log_key, documents)
        # Queries are multiplied by the factor that keys are divided by.
        shared = self.num_heads // self.num_key_value_heads
        log_query = log_query + ops.repeat(peak, shared, axis=2)
        highest = ops.max(log_query, axis=-1, keepdims=True, initial=LOWEST)
        log_query = log_query - ops.stop_gradient(highest)
        return ops.exp(log_query), ops.exp(log_key - peak)

    def _plain_features(self, query, key, real):
        """Computes the relu or elu features; those of padding keys are zero.

        Args:
            query: `(B, T, H, K)`.
            key: `(B, T, G, K)`.
            real: bool `(B, T)`.
        """
        if self.feature_map == "relu":
            query, key = (
                ops.relu(self._excited(x)[0]) + RELU_EPSILON for x in (query, key)
            )
        else:
            query, key = (ops.elu(ops.cast(x, "float32")) + 1.0 for x in (query, key))
        return query, ops.where(_marks(real), key, 0.0)

    def make_cache(self, batch_size, length):
        """Makes an empty cache, whose size does not depend on the sequence length.

        Returns:
            dict of float32 tensors: `sums` `(B, G, F, K + 1)`; and for softmax features
            `peak` `(B, G, F)`, the largest logarithm of each key feature.
        """
        groups = self.num_key_value_heads
        features = self.head_dim if self.feature_map == "elu" else self.num_features
        shape = (batch_size, groups, features)
        cache = {"sums": ops.zeros((*shape, self.head_dim + 1), "float32")}
        if self.feature_map == "softmax":
            cache["peak"] = ops.full(shape, LOWEST, "float32")
        return cache

    def step(self, inputs, sequence_info, cache, index):
        """Attends from each new token to itself and earlier ones, by the cached sums.

        Args:
            inputs: float `(B, Q, D)`, the new tokens.
            sequence_info: As in `MultiHeadAttention.step`.
            cache: The cache of `make_cache`, with `index` tokens in it.
            index: int32 scalar, the number of tokens in the cache, the same for all
                rows.

        Returns:
            `(B, Q, D)`, and the cache with the new tokens in it.
        """
        query, key, value = self.project(inputs, sequence_info["position_ids"])
        batch, length = ops.shape(inputs)[:2]
        real = ops.slice(sequence_info["padding_mask"], (0, index), (batch, length))
        outputs, cache = self._attend_before(
            query, key, with_ones(value), real, packed=False, cache=cache
        )
        return self.join(self._mean(outputs)), cache


def _peaks(log_key, documents: DocumentMasks):
    """Computes the largest logarithm of each feature over the keys of a document.

    Args:
        log_key: float32 `(B, T, G, F)`.
        documents: `DocumentMasks`.

    Returns:
        float32 `(B, T, G, F)`, or `(B, 1, G, F)` if rows are single documents.
    """
    # The shift cancels out, so it needs no gradient.
    log_key = ops.maximum(ops.stop_gradient(log_key), LOWEST)
    if not documents.packed:
        return ops.max(log_key, axis=1, keepdims=True, initial=LOWEST)
    return document_max(log_key, documents)


def _marks(real):
    return ops.expand_dims(ops.expand_dims(real, 2), 3)  # (B, T, 1, 1)


def with_ones(value):
    """Appends a 1 to each value; the weighted sum of the 1s is the sum of the weights.

    Args:
        value: `(B, T, G, K)`.

    Returns:
        float32 `(B, T, G, K + 1)`.
    """
    value = ops.cast(value, "float32")
    return ops.concatenate([value, ops.ones_like(value[..., :1])], axis=-1)
