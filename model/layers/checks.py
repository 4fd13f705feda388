"""What a layer says when it is called with something it cannot read."""


def check_rank(tensor, rank: int, name: str, expected: str) -> None:
    """Refuses a tensor with another number of axes.

    Args:
        tensor: What was given.
        rank: How many axes it must have.
        name: What to call it in the error.
        expected: Its axes, for the error.

    Raises:
        ValueError: It has more axes, or fewer.

    Example:
    >>> import numpy as np
    >>> check_rank(np.ones((2, 3)), 3, "attention: inputs", "(batch, length, width)")
    Traceback (most recent call last):
    ValueError: attention: inputs has shape (2, 3); expected (batch, length, width)
    """
    if len(tensor.shape) != rank:
        shape = tuple(tensor.shape)
        raise ValueError(f"{name} has shape {shape}; expected {expected}")


def check_integers(tensor, name: str) -> None:
    """Refuses ids that are not whole numbers.

    Raises:
        ValueError: The dtype is not an integer one.

    Example:
    >>> import numpy as np
    >>> check_integers(np.ones(2), "token_ids")
    Traceback (most recent call last):
    ValueError: token_ids has dtype float64; expected whole numbers, such as int32
    """
    dtype = str(getattr(tensor.dtype, "name", tensor.dtype))
    if "int" not in dtype:
        raise ValueError(
            f"{name} has dtype {dtype}; expected whole numbers, such as int32"
        )
