"""The softmax as a product of features, so that no token is compared with another."""

import random

import keras
from keras import ops

from configs.errors import ConfigError
from model.layers.attention.base import Attention
from model.layers.attention.carried import attend_in_chunks
from model.layers.attention.documents import Documents, flat_index, read_places
from model.layers.attention.orthogonal import orthogonal_features
from model.seeds import derive_seed

FEATURE_MAPS = ("softmax", "relu", "elu")
# What a relu feature has when nothing excites it: no token may be like none at all.
RELU_EPSILON = 1e-3
# The logarithm of a feature of padding, and the lowest that one is measured against.
NOTHING, LOWEST = -1e30, -1e20
# The smallest sum of weights; a gradient has one over its square.
TINY = 1e-18


@keras.saving.register_keras_serializable(package="transbeam")
class KernelAttention(Attention):
    """Attention by features: work and memory grow with the length (Performer).

    The similarity of a query and a key is a product of features of each. So the keys
    can be summed up first, features times values, and each query read off the sums: a
    decoder keeps the sums and not the keys.

    The exponential of a product has random features whose products come near to it on
    average, the nearer the more there are: `exp(w q - |q|^2 / 2)` for normal vectors
    `w`, here orthogonal ones, which are nearer still. What is added in the exponent is
    chosen for each feature and document such that the largest is one. It cancels out,
    and no sum is empty or overflows.

    Shapes: as in `Attention`, and `F` features.

    Args:
        feature_map: `"softmax"`; `"relu"` of random projections; or `"elu"`, `elu + 1`
            of each number of a query and a key, without scaling or randomness.
        num_features: int. `F` of `"softmax"` and `"relu"`; `"elu"` has `K`.
        seed: int or None. None draws one, which the config keeps: the layer must have
            the same features when it is loaded.

    The other arguments, the call arguments and the errors are those of `Attention`;
    there are no probabilities to drop or to look at, and no scores for a `score_bias`.

    Raises:
        ConfigError: Arguments that this kind cannot serve.

    Example:
    >>> attention = KernelAttention(hidden_dim=4, num_heads=2, num_features=8)
    >>> places = {"padding_mask": ops.ones((1, 5), dtype="int32")}
    >>> tuple(attention(ops.ones((1, 5, 4)), places).shape)
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
        """Leaves queries as they are: queries and keys are scaled alike, later."""
        return query

    def attend(self, query, key, value, places, training=None):
        documents = read_places(places, ops.shape(query)[1], self.name)
        real = ops.not_equal(documents.ids, 0)
        log_key = self._log_features(key, real)
        peak = None if log_key is None else _peaks(log_key, documents)
        query, key = self._features(query, key, real, log_key, peak)
        value = with_ones(value)
        if documents.packed or self.causal:
            ids = documents.ids if documents.packed else None
            outputs, _ = attend_in_chunks(query, key, value, ids, causal=self.causal)
            return self._mean(outputs)
        batch, length, heads, features = ops.shape(query)
        groups = key.shape[2]
        sums = ops.einsum("btgf,btgv->bgfv", key, value)
        query = ops.reshape(query, (batch, length, groups, heads // groups, features))
        outputs = ops.einsum("btgrf,bgfv->btgrv", query, sums)
        return self._mean(ops.reshape(outputs, (batch, length, heads, -1)))

    def _mean(self, outputs):
        """Divides the sums of values by those of ones: `(B, T, H, K)`.

        Args:
            outputs: float32 `(B, T, H, K + 1)`.
        """
        # Where a query sees nothing, both are zero.
        total = ops.maximum(outputs[..., -1:], TINY)
        return ops.cast(outputs[..., :-1] / total, self.compute_dtype)

    def _excited(self, x):
        """Random projections of queries or keys, and what they are projections of.

        Args:
            x: `(B, T, heads, K)`.

        Returns:
            float32 `(B, T, heads, F)`, and the scaled `x` in float32.
        """
        # Half of 1 / sqrt(K) each for queries and keys: both are of one size.
        scale = self.head_dim**-0.25 if self.scale_scores else 1.0
        x = ops.cast(x, "float32") * scale
        return ops.tensordot(x, self.random_features.T, axes=1), x

    def _log_features(self, key, real):
        """Logarithms of the softmax features of keys; None for other features.

        Args:
            key: `(B, T, G, K)`.
            real: bool `(B, T)`, which keys are not padding.

        Returns:
            float32 `(B, T, G, F)`.
        """
        if self.feature_map != "softmax":
            return None
        excited, key = self._excited(key)
        lengths = ops.sum(ops.square(key), axis=-1, keepdims=True) / 2.0
        return ops.where(_marks(real), excited - lengths, NOTHING)

    def _features(self, query, key, real, log_key, peak):
        """Features of queries and keys; padding's are zero.

        Args:
            query: `(B, T, H, K)`.
            key: `(B, T, G, K)`.
            real: bool `(B, T)`, which keys are not padding.
            log_key: As `_log_features` gives it.
            peak: float32 `(B, 1|T, G, F)`, what to take from it; queries get it back.

        Returns:
            float32 `(B, T, H, F)` and `(B, T, G, F)`.
        """
        if self.feature_map == "softmax":
            # A query's length is the same for all of its features: it cancels out.
            excited, _ = self._excited(query)
            log_query = excited + ops.repeat(peak, self._shared, axis=2)
            highest = ops.max(log_query, axis=-1, keepdims=True)
            log_query = log_query - ops.stop_gradient(highest)
            return ops.exp(log_query), ops.exp(log_key - peak)
        if self.feature_map == "relu":
            query, key = (
                ops.relu(self._excited(x)[0]) + RELU_EPSILON for x in (query, key)
            )
        else:
            query, key = (ops.elu(ops.cast(x, "float32")) + 1.0 for x in (query, key))
        return query, ops.where(_marks(real), key, 0.0)

    @property
    def _shared(self) -> int:
        return self.num_heads // self.num_key_value_heads

    def make_cache(self, batch_size, length):
        """Empty sums of keys and values, however many there will be.

        Returns:
            dict of float32 tensors: `sums` `(B, G, F, K + 1)` and `peak`
            `(B, 1, G, F)`, the largest logarithm of each feature of a key.
        """
        groups = self.num_key_value_heads
        features = self.head_dim if self.feature_map == "elu" else self.num_features
        shape = (batch_size, groups, features, self.head_dim + 1)
        return {
            "sums": ops.zeros(shape, "float32"),
            "peak": ops.full((batch_size, 1, groups, features), LOWEST, "float32"),
        }

    def step(self, inputs, places, cache, index):
        """Attends from new tokens to all before them, by their sums.

        Args:
            inputs: float `(B, Q, D)`, the new tokens.
            places: As in `MultiHeadAttention.step`.
            cache: As `make_cache` gives it, with `index` tokens in it.
            index: int32 scalar, the same for all rows.

        Returns:
            `(B, Q, D)`, and the cache with the new tokens in it.
        """
        query, key, value = self.project(inputs, places["position_ids"])
        batch, length = ops.shape(inputs)[:2]
        real = ops.slice(places["padding_mask"], (0, index), (batch, length))
        real = ops.not_equal(real, 0)
        log_key = self._log_features(key, real)
        peak, sums = cache["peak"], cache["sums"]
        if log_key is not None:
            peak = ops.maximum(peak, ops.max(log_key, axis=1, keepdims=True))
            smaller = ops.exp(cache["peak"] - peak)  # (B, 1, G, F)
            sums = sums * ops.expand_dims(smaller[:, 0], -1)
        query, key = self._features(query, key, real, log_key, peak)
        outputs, sums = attend_in_chunks(
            query, key, with_ones(value), causal=True, sums=sums
        )
        return self.join(self._mean(outputs)), {"sums": sums, "peak": peak}

    def get_config(self):
        return {
            **super().get_config(),
            "feature_map": self.feature_map,
            "num_features": self.num_features,
        }


def _peaks(log_key, documents: Documents):
    """The largest logarithm of each feature among the keys of a token's document.

    Args:
        log_key: float32 `(B, T, G, F)`.
        documents: `Documents`.

    Returns:
        float32 `(B, T, G, F)`, or `(B, 1, G, F)` when rows are single documents.
    """
    # What is chosen cancels out: it needs no gradient.
    log_key = ops.maximum(ops.stop_gradient(log_key), LOWEST)
    if not documents.packed:
        return ops.max(log_key, axis=1, keepdims=True)
    batch, length, groups, features = ops.shape(log_key)
    starts = ops.expand_dims(documents.starts, 0)
    tokens = ops.reshape(flat_index(starts, batch, length), (-1,))
    rows = ops.reshape(log_key, (batch * length, groups * features))
    peaks = ops.segment_max(rows, tokens, batch * length)
    peaks = ops.take(peaks, tokens, axis=0)
    return ops.reshape(peaks, (batch, length, groups, features))


def _marks(real):
    return ops.expand_dims(ops.expand_dims(real, 2), 3)  # (B, T, 1, 1)


def with_ones(value):
    """Adds a number that is always one, whose sum is that of the weights.

    Args:
        value: `(B, T, G, K)`.

    Returns:
        float32 `(B, T, G, K + 1)`.
    """
    value = ops.cast(value, "float32")
    return ops.concatenate([value, ops.ones_like(value[..., :1])], axis=-1)
