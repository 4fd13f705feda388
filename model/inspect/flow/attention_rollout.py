"""Attention rollout: the share of each input token in a layer's tokens."""

from collections.abc import Iterable, Iterator
from typing import Any

from keras import ops


def mean_with_residual(probabilities: Any, padding_mask: Any = None) -> Any:
    """Averages attention over heads and adds the residual connection.

    A token's output is the sum of its input and of what it attends to, counted equally:
    `(A + I) / 2`, where the mean `A` of the heads has rows that sum to one.

    Args:
        probabilities: float (B, H, T, T). The attention probabilities of a layer.
        padding_mask: int (B, T), 1 for real tokens; None if all tokens are real.

    Returns:
        float32 (B, T, T). Rows sum to one over real tokens; rows and columns of padding
        are 0.

    Example:
    >>> uniform = ops.full((1, 2, 2, 2), 0.5)
    >>> ops.convert_to_numpy(mean_with_residual(uniform)).tolist()
    [[[0.75, 0.25], [0.25, 0.75]]]
    """
    mean = ops.mean(ops.cast(probabilities, "float32"), axis=1)
    mixed = mean + ops.eye(mean.shape[-1], dtype="float32")
    if padding_mask is not None:
        real = ops.cast(padding_mask, "float32")
        # `where`, because the attention of padding may be anything, even NaN.
        is_real = (real[:, :, None] * real[:, None, :]) > 0
        mixed = ops.where(is_real, mixed, 0.0)
    sums = ops.sum(mixed, axis=-1, keepdims=True)
    return mixed / ops.where(sums > 0, sums, 1.0)


def attention_rollout(mixed: Iterable[Any]) -> Iterator[Any]:
    """Yields the attention rollout of each layer, the first layer's first.

    Rollout multiplies the layers' weights along all paths from a token to an input
    token and adds the paths: `R_l = A_l R_(l-1)`, with `A_l` of `mean_with_residual`.
    Only the running product is kept.

    Args:
        mixed: For each layer from the first to the last, float (B, T, T) from
            `mean_with_residual`.

    Yields:
        float (B, T, T): `[b, q, k]` is the share of input token `k` in token `q` after
        the layer. Rows sum to one.

    Example:
    >>> first = ops.convert_to_tensor([[[0.5, 0.5], [0.0, 1.0]]])
    >>> second = ops.convert_to_tensor([[[0.5, 0.5], [0.5, 0.5]]])
    >>> *_, last = attention_rollout([first, second])
    >>> ops.convert_to_numpy(last).tolist()
    [[[0.25, 0.75], [0.25, 0.75]]]

    References:
        - [Abnar & Zuidema, 2020](https://arxiv.org/abs/2005.00928), section 3
    """
    rollout = None
    for layer in mixed:
        rollout = layer if rollout is None else ops.matmul(layer, rollout)
        yield rollout
