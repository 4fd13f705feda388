"""Classes of tokens, for the share of attention that each class receives."""

import unicodedata
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf

from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.vocabulary import CONTINUATION

TOKEN_CLASSES = ("begin", "end", "special", "punctuation", "rare", "content")


def classify_pieces(
    tokenizer: Tokenizer,
    rows: Iterable[Mapping[str, np.ndarray]],
    rare_quantile: float = 0.1,
) -> np.ndarray:
    """Assigns the pieces that occur in some texts to `TOKEN_CLASSES`.

    - `begin` and `end`: the tokenizer's tokens before and after a document, such as
      `[CLS]` and `[SEP]`.
    - `special`: all special pieces, `begin` and `end` among them.
    - `punctuation`: pieces of which all characters are punctuation or symbols, of the
      Unicode categories P and S.
    - `rare`: other pieces that do not occur more often than the piece of the token at
      the quantile, if all ordinary tokens of the texts are sorted by how often their
      pieces occur.
    - `content`: the rest.

    Each piece is in one of the last four classes, so that their shares sum to 1.

    Args:
        tokenizer: The tokenizer.
        rows: Features of texts; those that end with `token_ids` are read.
        rare_quantile: Share of the ordinary tokens that is rare, at least.

    Returns:
        float32 `(V, 6)`, 1 for a piece's classes; zeros for pieces that do not occur.

    References:
        - [Voita et al., 2019](https://arxiv.org/abs/1905.09418), section 5.2 (heads
          that point to the least frequent tokens)
    """
    counts = np.zeros(tokenizer.vocabulary_size, np.int64)
    for row in rows:
        for name, ids in row.items():
            if name.endswith("token_ids"):
                counts += np.bincount(ids, minlength=len(counts))
    occurs = counts > 0
    is_ordinary = np.zeros(len(counts), bool)
    is_ordinary[tokenizer.ordinary_ids] = True

    is_punctuation = np.zeros(len(counts), bool)
    candidates = np.flatnonzero(occurs & is_ordinary)
    is_punctuation[candidates] = _are_punctuation(tokenizer, candidates)
    words = occurs & is_ordinary & ~is_punctuation
    is_rare = words & (counts <= _count_at_quantile(counts[words], rare_quantile))

    special = tokenizer.special
    ids = np.arange(len(counts))
    columns = [ids == special.begin, ids == special.end, ~is_ordinary]
    columns += [is_punctuation, is_rare, words & ~is_rare]
    return (np.stack(columns, axis=1) & occurs[:, None]).astype(np.float32)


def _count_at_quantile(counts: np.ndarray, quantile: float) -> int:
    """Returns the frequency of the piece of the token at a quantile of all tokens.

    Example:
    >>> _count_at_quantile(np.array([1, 6, 3]), 0.1)
    1
    >>> _count_at_quantile(np.array([1, 6, 3]), 0.2)
    3
    """
    if not len(counts):
        return 0
    ordered = np.sort(counts)
    reached = np.cumsum(ordered) >= quantile * ordered.sum()
    return int(ordered[np.argmax(reached)])


def _are_punctuation(tokenizer: Tokenizer, ids: np.ndarray) -> np.ndarray:
    if not len(ids):
        return np.zeros(0, bool)
    rows = tf.ragged.constant(ids[:, None].tolist(), tf.int32)
    texts = tokenizer.detokenize(rows).numpy()
    return np.array([is_punctuation(text.decode("utf-8", "replace")) for text in texts])


def is_punctuation(text: str) -> bool:
    """Checks if a piece's text is punctuation or symbols only.

    A part of a character is not.

    Example:
    >>> [is_punctuation(text) for text in (",", " --", "##.", "#", "a.", "", "�")]
    [True, True, True, True, False, False, False]
    """
    text = text.strip()
    if len(text) > len(CONTINUATION):
        text = text.removeprefix(CONTINUATION)
    if not text or "�" in text:
        return False
    return all(unicodedata.category(character)[0] in "PS" for character in text)
