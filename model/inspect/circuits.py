"""Circuits of attention heads: what they compute with, as products of matrices.

Vectors are rows, so that `x @ W` is a projection. A head scores a pair of tokens by the
bilinear form `W_Q W_K^T` (its QK circuit) and moves `x @ W_V W_O` from one token to the
other (its OV circuit). Both are `D x D` matrices of rank `K` or less, and are never
computed here: norms and eigenvalues follow from `K x K` products of their factors.

In blocks with `norm.placement: pre` the gain of the norm in front of the head, and the
mean that it subtracts, are folded into the matrices; all readers of the residual stream
subtract the mean, so that what is written is centered, too. In other blocks norms are
left out. With rotary positions the QK circuit is that of a token with itself.

References:
    - [Elhage et al., 2021](https://transformer-circuits.pub/2021/framework/index.html)
"""

from dataclasses import dataclass

import keras
import numpy as np

from transbeam.configs.base.errors import ConfigError
from transbeam.model.inspect.linear_head import LinearHead, fold_norm, read_kernel
from transbeam.model.layers.attention.base_attention import Attention
from transbeam.model.layers.block import TransformerBlock
from transbeam.model.layers.norms import LayerNormalization
from transbeam.model.stack.layer_stack import LayerStack


@dataclass(frozen=True)
class HeadWeights:
    """The matrices of the heads of an attention layer.

    Shapes: `H` query heads, `D` hidden width, `K` head width.

    Attributes:
        query: float32 `(H, D, K)`.
        key: float32 `(H, D, K)`: of the key-value head that the query head uses.
        value: float32 `(H, D, K)`, like `key`.
        output: float32 `(H, K, D)`.
    """

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    output: np.ndarray

    @property
    def qk(self) -> tuple[np.ndarray, np.ndarray]:
        """The factors `(H, D, K)` and `(H, K, D)` of the QK circuits."""
        return self.query, self.key.swapaxes(-1, -2)

    @property
    def ov(self) -> tuple[np.ndarray, np.ndarray]:
        """The factors `(H, D, K)` and `(H, K, D)` of the OV circuits."""
        return self.value, self.output


def read_head_weights(model: keras.Model, prefix: str = "") -> dict[str, HeadWeights]:
    """Reads the matrices of the heads of all self-attention layers of a stack.

    Cross-attention is left out: it reads from two residual streams.

    Args:
        model: A model of `transbeam.model`.
        prefix: `"encoder_"` or `"decoder_"` in an encoder-decoder.

    Returns:
        The matrices by the path of their layer, from the first block to the last.

    Raises:
        ConfigError: The model has no such stack, or a layer is quantized or has an
            adapter.

    Example:
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.model.encoder import build_encoder
    >>> encoder = build_encoder(EncoderConfig(num_layers=1, hidden_dim=8), 10)
    >>> weights = read_head_weights(encoder)["encoder_layer_0/self_attention"]
    >>> weights.query.shape, weights.output.shape
    ((4, 8, 2), (4, 2, 8))
    """
    blocks = LayerStack.from_model(model, prefix).blocks
    if not blocks:
        raise ConfigError(f"{model.name} has no blocks {prefix}layer_0, …")
    return {block.self_attention.path: _read_block(block) for block in blocks}


def _read_block(block: TransformerBlock) -> HeadWeights:
    layer = block.self_attention
    assert isinstance(layer, Attention)
    norm = block.self_attention_norm if block.norm_placement == "pre" else None
    shared = layer.num_heads // layer.num_key_value_heads

    def read(projection: keras.layers.Layer) -> np.ndarray:  # (heads, D, K)
        kernel = fold_norm(read_kernel(projection), norm)
        return kernel.reshape(len(kernel), -1, layer.head_dim).swapaxes(0, 1)

    # Query head `h` uses the keys and values of head `h // shared`.
    key, value = (
        read(projection).repeat(shared, axis=0)
        for projection in (layer.key, layer.value)
    )
    output = read_kernel(layer.output_projection)
    if isinstance(norm, LayerNormalization):
        output = output - output.mean(axis=1, keepdims=True)
    output = output.reshape(layer.num_heads, layer.head_dim, -1)
    return HeadWeights(read(layer.query), key, value, output)


def compute_singular_values(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Computes the singular values of products, from small matrices.

    Args:
        left: `(..., D, K)`.
        right: `(..., K, D)`.

    Returns:
        float64 `(..., min(D, K))`, the largest first; further ones are 0.

    Example:
    >>> left, right = np.array([[3.0], [0.0]]), np.array([[0.0, 2.0]])
    >>> compute_singular_values(left, right)
    array([6.])
    """
    small = _triangle(left) @ _triangle(right.swapaxes(-1, -2)).swapaxes(-1, -2)
    return np.linalg.svd(small, compute_uv=False)


def _triangle(factor: np.ndarray) -> np.ndarray:
    """Replaces a factor `(..., D, K)` by a small one with the same inner products."""
    return np.asarray(np.linalg.qr(factor.astype("float64"), mode="r"))


def compute_eigenvalues(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Computes the eigenvalues of products that may differ from 0.

    They are those of the reversed product, which is small.

    Args:
        left: `(..., D, K)`.
        right: `(..., K, D)`.

    Returns:
        complex128 `(..., K)`, in no order.

    Example:
    >>> left, right = np.array([[3.0], [1.0]]), np.array([[1.0, 2.0]])
    >>> compute_eigenvalues(left, right).real
    array([5.])
    """
    return np.linalg.eigvals((right @ left).astype("complex128"))


def compute_copying_score(eigenvalues: np.ndarray) -> np.ndarray:
    """Computes the sum of eigenvalues, divided by the sum of their absolute values.

    With an eigenvalue that is positive a head raises the logits of a combination of
    tokens when it attends to them. The score is 1 if all are positive, and -1 if all
    are negative. It is a summary, which Elhage et al. call imperfect: a matrix with
    positive eigenvalues may raise other tokens more.

    Args:
        eigenvalues: complex `(..., K)` of real matrices.

    Returns:
        float64 `(...)`; 0 where all eigenvalues are 0.

    Example:
    >>> compute_copying_score(np.array([[3.0, -1.0], [1j, -1j]]))
    array([0.5, 0. ])

    References:
        - [Elhage et al., 2021](https://transformer-circuits.pub/2021/framework/index.html),
          "Summarizing OV/QK Matrices"
    """
    total = np.abs(eigenvalues).sum(axis=-1)
    return np.real(eigenvalues).sum(axis=-1) / np.where(total > 0, total, 1)


def read_vocabulary_circuit(model: keras.Model) -> np.ndarray:
    """Computes the unembedding times the embedding, summed over the vocabulary.

    With the reversed product of `W_E` and `W_U` around an OV circuit,
    `W_E W_V W_O W_U`, a `V x V` matrix, has the eigenvalues of
    `W_O (W_U W_E) W_V`, a `K x K` matrix.

    Args:
        model: A decoder or an encoder-decoder.

    Returns:
        float32 `(D, D)`: `W_U W_E`, with the final norm folded into `W_U`, and without
        the biases and norms of the embeddings.

    Raises:
        ConfigError: See `LinearHead.from_model`.
    """
    head = LinearHead.from_model(model)
    layers = {layer.name: layer for layer in model.layers}
    embedding = layers["token_embedding"]
    table = read_kernel(embedding, "embeddings")[: embedding.vocabulary_size]
    product = head.table.T @ table
    if head.projection is not None:
        product = head.projection @ product
    if "embedding_projection" in layers:
        product = product @ read_kernel(layers["embedding_projection"])
    norm = layers.get("final_norm", layers.get("decoder_final_norm"))
    return fold_norm(product, norm)


def compute_copying_scores(
    weights: HeadWeights, vocabulary_circuit: np.ndarray
) -> np.ndarray:
    """Computes the copying score of each head's circuit from tokens to logits.

    Args:
        weights: The heads' matrices.
        vocabulary_circuit: The result of `read_vocabulary_circuit`.

    Returns:
        float64 `(H,)`.
    """
    value, output = weights.ov
    eigenvalues = compute_eigenvalues(value, output @ vocabulary_circuit)
    return compute_copying_score(eigenvalues)


def compute_composition_scores(
    earlier: HeadWeights, later: HeadWeights
) -> dict[str, np.ndarray]:
    """Computes how strongly later heads read what earlier heads write.

    The score is `|L R| / (|L| |R|)` with Frobenius norms, where `L` is the OV circuit
    of the earlier head, and `R` is the later head's QK circuit (Q-composition), its
    transpose (K-composition) or its OV circuit (V-composition). It is at most 1; see
    `compute_composition_baseline` for what unrelated heads have.

    Args:
        earlier: The matrices of heads of a layer.
        later: Those of a later layer, with the same residual stream.

    Returns:
        float64 `(earlier heads, later heads)` for `"q"`, `"k"` and `"v"`; 0 where a
        circuit is 0.

    Example:
    >>> def heads(query, key, value, output):
    ...     return HeadWeights(*(np.array([x]) for x in (query, key, value, output)))
    >>> one = np.eye(2)
    >>> first = heads(one, one, [[1.0, 2.0], [0.0, 0.0]], one)
    >>> second = heads([[0.0, 1.0], [3.0, 0.0]], one, one, one)
    >>> scores = compute_composition_scores(first, second)
    >>> {kind: round(float(score[0, 0]), 3) for kind, score in scores.items()}
    {'q': 0.86, 'k': 0.51, 'v': 0.707}

    References:
        - [Elhage et al., 2021](https://transformer-circuits.pub/2021/framework/index.html),
          "Attention heads compose"
    """
    query, key = later.qk
    readers = {
        "q": (query, key),
        "k": (key.swapaxes(-1, -2), query.swapaxes(-1, -2)),
        "v": later.ov,
    }
    value, output = earlier.ov
    start, written = _triangle(value), _norm(value, output)
    scores = {}
    for kind, (left, right) in readers.items():
        # |A B C D| of tall A and wide D is that of their triangles, all K x K.
        end = _triangle(right.swapaxes(-1, -2)).swapaxes(-1, -2)
        between = output[:, None] @ left[None]  # (earlier, later, K, K)
        norms = np.linalg.norm(start[:, None] @ between @ end[None], axis=(-2, -1))
        whole = written[:, None] * _norm(left, right)[None]
        scores[kind] = norms / np.where(whole > 0, whole, 1)
    return scores


def _norm(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Computes the Frobenius norm of products `(..., D, K)` with `(..., K, D)`."""
    return np.linalg.norm(compute_singular_values(left, right), axis=-1)


def compute_composition_baseline(width: int) -> float:
    """Returns the composition score of unrelated circuits, in the root mean square.

    If one circuit is rotated at random, the mean square of the score is `1 / D`,
    whatever the circuits' ranks and singular values.

    Args:
        width: `D`.

    Example:
    >>> compute_composition_baseline(64)
    0.125
    """
    return width**-0.5
