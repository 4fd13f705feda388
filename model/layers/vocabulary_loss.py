"""The loss over a large vocabulary, without all its logits at once."""

import keras
from keras import ops

from model.layers.checks import check_integers, check_rank

# What is added to the score of a row past the vocabulary. Its exponential is 0, and
# it is finite, so that no infinity less an infinity becomes a NaN.
NEVER = -1e30


def chunked_cross_entropy(vectors, table, target_ids, bias, *, equation, chunk_tokens):
    """Nats that each target costs, some tokens at a time.

    Logits are made for one chunk of tokens, reduced to a few numbers per token, and
    forgotten; the backward pass makes them again. That is a fourth product beside the
    three of the plain way. What is kept does not grow with tokens times vocabulary.

    Both passes are scans because a scan does one step after the other; TensorFlow
    would run ten steps of a `keras.ops.fori_loop` at a time.

    Shapes: `N` tokens, `D` hidden width, `V` rows of the table.

    Args:
        vectors: float `(N, D)`; the products run in its dtype.
        table: `(V, D)` or `(D, V)`, in the dtype of `vectors`; a tensor, no variable.
        target_ids: int `(N,)` in `[0, V)`.
        bias: float32 `(V,)`, added to the logits, or None.
        equation: `"vd"` or `"dv"`, the axes of `table`.
        chunk_tokens: int. Most tokens whose logits there are at a time.

    Returns:
        Two float32 `(N,)`: the cross-entropy, which has gradients to `vectors`,
        `table` and `bias`; and 1 where the target was the first guess, else 0.

    Example:
    >>> vectors, table = ops.array([[0.0], [2.0]]), ops.array([[0.0], [1.0]])
    >>> loss, correct = chunked_cross_entropy(
    ...     vectors, table, ops.array([1, 1]), None, equation="vd", chunk_tokens=1
    ... )
    >>> ops.convert_to_numpy(loss).round(4), ops.convert_to_numpy(correct)
    (array([0.6931, 0.1269], dtype=float32), array([0., 1.], dtype=float32))
    """
    number, width = ops.shape(vectors)
    num_chunks = number // chunk_tokens + 1  # of equal size, and never none
    size = -(-number // num_chunks)
    padding = num_chunks * size - number
    num_rows = ops.shape(table)[equation.index("v")]

    def in_chunks(x):  # from (N,) or (N, D) to (chunks, size) or (chunks, size, D)
        x = ops.pad(x, ((0, padding), *((0, 0) for _ in x.shape[1:])))
        return ops.reshape(x, (num_chunks, size, *x.shape[1:]))

    def in_one(x):  # and back
        return ops.reshape(x, (num_chunks * size, *x.shape[2:]))[:number]

    def logits_of(x, table, bias):
        logits = ops.cast(ops.einsum(f"nd,{equation}->nv", x, table), "float32")
        return logits if bias is None else logits + bias

    @ops.custom_gradient
    def cross_entropy(vectors, table, target_ids, bias=None):
        x, targets = in_chunks(vectors), in_chunks(ops.cast(target_ids, "int32"))

        def forward(_, index):
            logits = logits_of(x[index], table, bias)
            # Of the one highest score come its value and its place, in one pass.
            highest, guess = ops.top_k(logits, 1)
            rest = ops.sum(ops.exp(logits - highest), axis=-1)
            log_sum = ops.log(rest) + highest[:, 0]
            wanted = targets[index]
            score = ops.take_along_axis(logits, wanted[:, None], axis=-1)[:, 0]
            correct = ops.cast(ops.equal(guess[:, 0], wanted), "float32")
            result = (log_sum - score, correct, log_sum)
            return result, result

        # The one thing to scan over: with several of unknown number, Keras fails.
        indices = ops.arange(num_chunks)
        # On TensorFlow, what a step returns must look like what it hands on.
        nothing = (ops.zeros((size,), "float32"),) * 3
        _, (loss, correct, log_sum) = ops.scan(forward, nothing, indices)

        def gradient(*arguments, upstream=None):
            # TensorFlow gives the gradient of each result, JAX a tuple of them.
            upstream = in_chunks(keras.tree.flatten((arguments, upstream))[0])

            def backward(gradients, index):
                to_vectors, to_table, to_bias = gradients
                logits = logits_of(x[index], table, bias)
                errors = ops.exp(logits - log_sum[index][:, None])
                errors = errors - ops.one_hot(targets[index], num_rows)
                errors = errors * upstream[index][:, None]  # (size, V)
                to_bias = to_bias + ops.sum(errors, axis=0)
                errors = ops.cast(errors, x.dtype)
                to_chunk = ops.einsum(f"nv,{equation}->nd", errors, table)
                to_vectors = ops.slice_update(to_vectors, (index * size, 0), to_chunk)
                update = ops.einsum(f"nv,nd->{equation}", errors, x[index])
                to_table = to_table + ops.cast(update, "float32")
                return (to_vectors, to_table, to_bias), None

            empty = (
                ops.zeros((num_chunks * size, width), vectors.dtype),
                ops.zeros(ops.shape(table), "float32"),
                ops.zeros((num_rows,), "float32"),
            )
            (to_vectors, to_table, to_bias), _ = ops.scan(backward, empty, indices)
            to_inputs = (
                to_vectors[:number],
                ops.cast(to_table, table.dtype),
                ops.zeros_like(target_ids),
            )
            return to_inputs if bias is None else (*to_inputs, to_bias)

        return (in_one(loss), in_one(correct)), gradient

    # JAX wants all that is read to be an argument, and arguments to be floats. Every
    # id below 16 million is a float32.
    inputs = (vectors, table, ops.cast(target_ids, "float32"))
    return cross_entropy(*inputs) if bias is None else cross_entropy(*inputs, bias)


@keras.saving.register_keras_serializable(package="transbeam")
class VocabularyLoss(keras.layers.Layer):
    """What each target costs, and whether it was the first guess.

    For 50,000 words, the logits of 32 rows of 128 tokens fill 800 MB, and their
    gradient as much again. Here they are made chunk by chunk, and made again for the
    gradient; value and gradients are those of the plain way.

    Shapes: `B` batch, `T` tokens, `D` hidden width, `V` vocabulary.

    Args:
        vocabulary_size: int. `V`. The table may have more rows; they have no share.
        chunk_tokens: int. Most tokens whose logits there are at a time.
        transposed: bool. Whether the table is `(D, V)`, as a dense kernel is; else it
            is `(V, D)`, as an embedding is.

    Call arguments:
        inputs: float `(B, T, D)`.
        table: float `(V, D)` or `(D, V)`, a tensor or another layer's weight.
        target_ids: int `(B, T)` in `[0, V)`. Where nothing is asked, any of them: give
            that token no weight in the sum.
        bias: float `(V,)`, added to the logits; or None.

    Returns:
        A dict of two float32 `(B, T)`: `cross_entropy`, in nats, and `correct`, 1
        where it was the first guess, else 0. The product with the table runs in
        the compute dtype, all else in float32.

    Raises:
        ValueError: when a rank or a width is another, or the ids are not whole numbers.

    Example:
    >>> loss = VocabularyLoss(vocabulary_size=10)
    >>> table, targets = ops.zeros((10, 4)), ops.array([[3, 7, 0]])
    >>> result = loss(ops.ones((1, 3, 4)), table, targets)
    >>> ops.convert_to_numpy(result["cross_entropy"]).round(4)  # log 10
    array([[2.3026, 2.3026, 2.3026]], dtype=float32)

    Masking: none. A Keras mask on the inputs is not read, and Keras warns of it.

    References:
        - [Chen et al., 2016](https://arxiv.org/abs/1604.06174), section 4.1
          (recomputing in the backward pass)
    """

    def __init__(
        self,
        vocabulary_size: int,
        chunk_tokens: int = 512,
        transposed: bool = False,
        **kwargs,
    ):
        # Keras would round the bias to the compute dtype on its way in.
        super().__init__(autocast=False, **kwargs)
        self.vocabulary_size = vocabulary_size
        self.chunk_tokens = chunk_tokens
        self.transposed = transposed

    def call(self, inputs, table, target_ids, bias=None):
        self.check(inputs, table, target_ids)
        batch, length, hidden_dim = ops.shape(inputs)
        vectors = ops.reshape(inputs, (batch * length, hidden_dim))
        loss, correct = chunked_cross_entropy(
            ops.cast(vectors, self.compute_dtype),
            ops.cast(table, self.compute_dtype),
            ops.reshape(target_ids, (batch * length,)),
            self.row_bias(table, bias),
            equation="dv" if self.transposed else "vd",
            chunk_tokens=self.chunk_tokens,
        )
        return {
            "cross_entropy": ops.reshape(loss, (batch, length)),
            "correct": ops.reshape(correct, (batch, length)),
        }

    def row_bias(self, table, bias):
        """The bias of all rows of the table: those past the vocabulary never win."""
        num_extra = table.shape[self.transposed] - self.vocabulary_size
        if not num_extra:
            return None if bias is None else ops.cast(bias, "float32")
        if bias is None:
            bias = ops.zeros((self.vocabulary_size,), "float32")
        return ops.pad(
            ops.cast(bias, "float32"), ((0, num_extra),), constant_values=NEVER
        )

    def check(self, inputs, table, target_ids) -> None:
        """Refuses what does not fit together."""
        check_rank(inputs, 3, f"{self.name}: inputs", "(batch, length, hidden_dim)")
        check_rank(target_ids, 2, f"{self.name}: target_ids", "(batch, length)")
        check_integers(target_ids, f"{self.name}: target_ids")
        shape, width, least = tuple(table.shape), inputs.shape[-1], self.vocabulary_size
        check_rank(table, 2, f"{self.name}: table", "two axes")
        rows, columns = reversed(shape) if self.transposed else shape
        if rows < least or columns not in (width, None):
            expected = f"({width}, V)" if self.transposed else f"(V, {width})"
            raise ValueError(
                f"{self.name}: table has shape {shape}; expected {expected} with V at "
                f"least vocabulary_size={least}"
            )

    def compute_output_spec(self, inputs, table, target_ids, bias=None):
        return {
            name: keras.KerasTensor(target_ids.shape, dtype="float32")
            for name in ("cross_entropy", "correct")
        }

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "chunk_tokens": self.chunk_tokens,
            "transposed": self.transposed,
        }
