"""Who may look at whom. True means *may attend*, everywhere.

A mask stays boolean, `(B, 1, T)` or `(B, T, T)`, until the softmax needs a number.
"""

from keras import ops

# What a forbidden score loses. A trained model's scores lie apart by a hundred and
# more, so a key that is 60 below by decree can still be the best of its row: it must
# be far more, and less than the 65,504 at which float16 ends. Added rather
# than put in place of the score: the softmax ignores a common shift of a row, and so
# must the mask. An export with int8 activations will need a way of its own: this
# constant stretches their range until all real scores fall into one step of it.
FORBIDDEN = -1e4


def padding_attention_mask(padding_mask):
    """Lets every token look at every real one.

    Args:
        padding_mask: int or bool `(B, T)`, 1 for a real token.

    Returns:
        bool `(B, 1, T)`, the same for all queries.

    Example:
    >>> ops.convert_to_numpy(padding_attention_mask(ops.array([[1, 1, 0]])))
    array([[[ True,  True, False]]])
    """
    return ops.expand_dims(ops.not_equal(padding_mask, 0), axis=1)


def document_attention_mask(document_ids):
    """Lets every token look at those of its own document.

    Args:
        document_ids: int `(B, T)`, numbering the documents packed into a row from
            1; 0 is padding, which sees nothing and is seen by none.

    Returns:
        bool `(B, T, T)`: query by key.

    Example:
    >>> mask = document_attention_mask(ops.array([[1, 2, 0]]))
    >>> ops.convert_to_numpy(mask)[0].astype(int)
    array([[1, 0, 0],
           [0, 1, 0],
           [0, 0, 0]])
    """
    queries = ops.expand_dims(document_ids, axis=2)  # (B, T, 1)
    keys = ops.expand_dims(document_ids, axis=1)  # (B, 1, T)
    return ops.logical_and(ops.equal(queries, keys), ops.not_equal(keys, 0))


def attention_bias(attention_mask):
    """Turns a mask into what is added to the scores of all heads.

    A query that may see nothing has the same amount taken from all its scores:
    its softmax stays finite, and its answer means nothing.

    Args:
        attention_mask: bool `(B, 1, T)` or `(B, T, T)`.

    Returns:
        float32 `(B, 1, 1, T)` or `(B, 1, T, T)`: 0 where the mask is true.

    Example:
    >>> ops.convert_to_numpy(attention_bias(ops.array([[[True, False]]]))).tolist()
    [[[[0.0, -10000.0]]]]
    """
    return ops.expand_dims(ops.where(attention_mask, 0.0, FORBIDDEN), axis=1)
