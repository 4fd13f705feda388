"""Keras's answers: what every exported form is held against.

Each text is asked alone, without padding, and without the code of the signatures.
"""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from serving.trained import Trained


@dataclass(frozen=True)
class Expected:
    """What Keras says of one text.

    Attributes:
        text: The text.
        token_ids: int32 (T,), `[CLS] … [SEP]`, a `[MASK]` being its special piece.
        positions: int32 (M,), where the masks are.
        log_probabilities: float64 (M, V), in nats.
        plain_ids: int32 (T',), the same for `[MASK]` as ordinary text.
        embedding: float32 (D,), of `plain_ids`.
    """

    text: str
    token_ids: np.ndarray
    positions: np.ndarray
    log_probabilities: np.ndarray
    plain_ids: np.ndarray
    embedding: np.ndarray


def expect(trained: Trained, text: str) -> Expected:
    """Asks the Keras model about one text, alone."""
    token_ids = _framed(trained, trained.tokenizer.tokenize_with_masks([text]))
    plain_ids = _framed(trained, trained.tokenizer.tokenize([text]))
    positions = np.flatnonzero(token_ids == trained.tokenizer.mask_id).astype(np.int32)
    logits = trained.model(
        {**_alone(token_ids), "masked_positions": positions[None]}, training=False
    )["logits"]
    vectors = trained.encoder(_alone(plain_ids), training=False)["sequence_output"]
    return Expected(
        text=text,
        token_ids=token_ids,
        positions=positions,
        log_probabilities=log_softmax(np.asarray(logits)[0]),
        plain_ids=plain_ids,
        embedding=np.asarray(vectors)[0].mean(axis=0),
    )


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Log-probabilities in nats, along the last axis, computed in float64.

    Example:
    >>> np.exp(log_softmax(np.array([0.0, np.log(3.0)]))).round(6)
    array([0.25, 0.75])
    """
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _framed(trained: Trained, tokens: tf.RaggedTensor) -> np.ndarray:
    """`[CLS] … [SEP]` for one text, cut to what the model can read."""
    content = tokens.numpy()[0][: trained.config.model.max_sequence_length - 2]
    ends = trained.tokenizer.cls_id, trained.tokenizer.sep_id
    return np.array([ends[0], *content, ends[1]], np.int32)


def _alone(token_ids: np.ndarray) -> dict[str, np.ndarray]:
    return {"token_ids": token_ids[None], "padding_mask": np.ones_like(token_ids)[None]}
