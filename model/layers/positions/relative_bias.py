"""T5's relative position bias: a learned number per head and bucket of distances."""

import keras
import numpy as np
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.base.initializers import (
    InitializerLike,
    initializer_or_normal,
)
from transbeam.model.base.tensor_checks import check_rank
from transbeam.model.layers.base_layer import ConfiguredLayer, add_embeddings
from transbeam.model.layers.positions.score_bias import keys_ahead, score_spec


@keras.saving.register_keras_serializable(package="transbeam")
class RelativeBias(ConfiguredLayer):
    """Computes a score bias for each pair of tokens from the bucket of their distance.

    Small distances have a bucket each; larger ones share buckets of growing width. The
    biases are the weight of `RelativeBiasTable`, one table for all layers of a stack.

    The buckets of all distances are computed once, in NumPy. So the graph needs no
    logarithm per pair, and rounding differences of logarithms between machines cannot
    change a bucket's boundary.

    Shapes: `H` heads, `Q` queries, `S` keys.

    Args:
        num_buckets: int. Number of buckets.
        max_distance: int. Distances of at least this value share the last bucket.
        bidirectional: bool. If true, half of the buckets are for keys after the query,
            as in an encoder. If false, all buckets are for keys before the query, and
            later keys, which a decoder masks, count as distance 0.

    Call arguments:
        query_positions: int `(..., Q)`.
        key_positions: int `(..., S)`; the leading axes broadcast with those of
            `query_positions`.
        bias_table: float32 `(num_buckets, H)`. Blocks and attention layers pass the
            table in float32, also under half-precision policies, so that the biases
            equal those in a decoder's `step`.

    Returns:
        float32 `(..., H, Q, S)` for every dtype policy, to be added to the scores.

    Raises:
        ConfigError: `num_buckets` or `max_distance` is too small to form buckets.
        ValueError: Positions are not integers, or the table does not have the shape
            `(num_buckets, H)`.

    Example:
    >>> bias = RelativeBias(num_buckets=4, max_distance=8, bidirectional=True)
    >>> table = ops.array([[0.0], [1.0], [2.0], [3.0]])  # one head
    >>> positions = ops.arange(3)
    >>> ops.convert_to_numpy(bias(positions, positions, table))
    array([[[0., 3., 3.],
            [1., 0., 3.],
            [1., 1., 0.]]], dtype=float32)

    Masking: the Keras mask is ignored.

    References:
        - [Raffel et al., 2020](https://arxiv.org/abs/1910.10683), section 2.1, and
          `_relative_position_bucket` in its code, which defines the buckets
    """

    def __init__(
        self,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        **kwargs,
    ):
        super().__init__(autocast=False, **kwargs)  # the table stays float32
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.bidirectional = bidirectional
        # From the largest distance before the query to the largest after it.
        self.farthest_ahead = max_distance if bidirectional else 0
        self.buckets = relative_buckets(
            np.arange(-max_distance, self.farthest_ahead + 1),
            num_buckets,
            max_distance,
            bidirectional,
        )

    def call(self, query_positions, key_positions, bias_table):
        expected = f"(num_buckets={self.num_buckets}, heads)"
        check_rank(bias_table, 2, f"{self.name}: bias_table", expected)
        if bias_table.shape[0] not in (None, self.num_buckets):
            raise ValueError(
                f"{self.name}: bias_table has shape {tuple(bias_table.shape)}; "
                f"expected {expected}"
            )
        ahead = keys_ahead(query_positions, key_positions, self.name)  # (..., Q, S)
        rows = ops.clip(ahead, -self.max_distance, self.farthest_ahead)
        # First for the few distances, then gathered for all pairs.
        table = ops.take(ops.cast(bias_table, "float32"), self.buckets, axis=0)
        bias = ops.take(table, rows + self.max_distance, axis=0)  # (..., Q, S, H)
        return ops.moveaxis(bias, -1, -3)  # (..., H, Q, S)

    def compute_output_spec(self, query_positions, key_positions, bias_table):
        return score_spec(query_positions, key_positions, bias_table.shape[-1])


@keras.saving.register_keras_serializable(package="transbeam")
class RelativeBiasTable(ConfiguredLayer):
    """Holds the weights of `RelativeBias`, for all layers of a stack.

    Args:
        num_buckets: int. Number of buckets.
        num_heads: int. `H`.
        embeddings_initializer: Keras initializer of the table; None for BERT's.
        seed: int or None. Seed of the initial table.

    Call arguments:
        inputs: Any tensor. The values of this tensor are not used; it only connects the
            table to a functional model.

    Returns:
        float32 `(num_buckets, H)` for every dtype policy.

    Example:
    >>> table = RelativeBiasTable(num_buckets=32, num_heads=8)
    >>> tuple(table(ops.ones((1, 3))).shape)
    (32, 8)

    Masking: the Keras mask is ignored.

    References:
        - [Raffel et al., 2020](https://arxiv.org/abs/1910.10683), section 2.1
    """

    def __init__(
        self,
        num_buckets: int,
        num_heads: int,
        embeddings_initializer: InitializerLike = None,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_buckets = num_buckets
        self.num_heads = num_heads
        self.embeddings_initializer = initializer_or_normal(embeddings_initializer)
        self.seed = seed

    def build(self, inputs_shape):
        self.embeddings = add_embeddings(
            self, self.num_buckets, self.num_heads, "embeddings", autocast=False
        )

    def call(self, inputs):
        return ops.cast(self.embeddings, "float32")

    def compute_output_spec(self, inputs):
        shape = (self.num_buckets, self.num_heads)
        return keras.KerasTensor(shape, dtype="float32")


def relative_buckets(
    ahead: np.ndarray,
    num_buckets: int = 32,
    max_distance: int = 128,
    bidirectional: bool = True,
) -> np.ndarray:
    """Computes the bucket of each distance.

    In each direction, the first half of the buckets hold a single distance each. The
    remaining buckets divide the distances up to `max_distance` in equal steps of the
    logarithm.

    Args:
        ahead: int. Key position minus query position.
        num_buckets: See `RelativeBias`.
        max_distance: See `RelativeBias`.
        bidirectional: See `RelativeBias`.

    Returns:
        int32, of the shape of `ahead`, in `[0, num_buckets)`.

    Raises:
        ConfigError: The number of buckets or the maximum distance is too small to form
            buckets.

    Example:
    >>> relative_buckets(np.array([0, -7, -8, -11, -12, -500, 1, 500]))
    array([ 0,  7,  8,  8,  9, 15, 17, 31], dtype=int32)
    """
    side = num_buckets // 2 if bidirectional else num_buckets
    single = side // 2
    if single < 1 or max_distance <= single:
        raise ConfigError(
            f"num_buckets={num_buckets} and max_distance={max_distance} leave no room "
            f"for ranges; max_distance must be more than {max(single, 1)}, and "
            f"num_buckets at least {4 if bidirectional else 2}"
        )
    distance = np.abs(ahead) if bidirectional else np.maximum(-ahead, 0)
    # In float32, as T5 computes it.
    share = np.log(np.maximum(distance, single).astype("float32") / np.float32(single))
    share = share / np.float32(np.log(max_distance / single)) * (side - single)
    far = np.minimum(single + share.astype("int32"), side - 1)
    bucket = np.where(distance < single, distance, far)
    return (bucket + np.where(bidirectional & (ahead > 0), side, 0)).astype("int32")
