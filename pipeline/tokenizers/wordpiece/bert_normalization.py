r"""BERT's text normalization as TensorFlow functions on string tensors.

Each function has the same result as the corresponding step of the Rust library
`tokenizers`. Two obvious TensorFlow functions are avoided on purpose: the UTF-8 mode of
`tf.strings.lower` follows the locale of the process (in a Turkish one `I` becomes a
dotless i), and classes such as `\p{Mn}` follow a newer Unicode than Rust's tables.
"""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from transbeam.pipeline.tokenizers.unicode import unicode_classes
from transbeam.pipeline.tokenizers.unicode.code_point_table import (
    BLOCK,
    split_into_blocks,
)


def split_at_spaces(texts: tf.Tensor) -> tf.RaggedTensor:
    r"""Splits texts at space, tab, line feed and carriage return.

    Text between these characters is normalized independently of its context, so each
    distinct string has to be normalized only once.

    Args:
        texts: string `(N,)`, any bytes.

    Returns:
        string `(N, None)`, without empty strings.

    Example:
    >>> split_at_spaces(tf.constant(["Hello,  big\nworld"])).to_list()
    [[b'Hello,', b'big', b'world']]
    """
    # `split` also splits at vertical tab and form feed, which are control characters in
    # BERT: they are removed without ending a word. Another one replaces them.
    return tf.strings.split(tf.strings.regex_replace(texts, r"[\x0b\x0c]", "\x01"))


def normalize(texts: tf.Tensor, *, lowercase: bool, strip_accents: bool) -> tf.Tensor:
    """Normalizes texts, with white space between all words.

    Args:
        texts: string `(N,)`. Invalid UTF-8 is dropped.
        lowercase: Whether to lowercase.
        strip_accents: Whether to decompose (NFD) and drop combining marks.

    Returns:
        string `(N,)`, UTF-8.

    Example:
    >>> normalize(tf.constant(["Café!"]), lowercase=True, strip_accents=True).numpy()
    array([b'cafe ! '], dtype=object)
    """

    def normalize_any(texts: tf.Tensor) -> tf.Tensor:
        texts = isolate_cjk(clean(texts))
        if strip_accents:
            texts = strip_marks(texts)
        if lowercase:
            texts = lower(texts)
        return texts

    # Most parts of most texts are ASCII, for which two of these steps are sufficient.
    is_ascii = tf.strings.regex_full_match(texts, r"[\x00-\x7f]*")
    texts = _apply_where(~is_ascii, normalize_any, texts)
    texts = tf.strings.regex_replace(texts, r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", "")
    if lowercase:
        texts = tf.strings.lower(texts)  # A to Z only.
    return isolate_punctuation(texts)


def clean(texts: tf.Tensor) -> tf.Tensor:
    r"""Deletes control characters and replaces white space by spaces.

    Invalid UTF-8 becomes U+FFFD as in `bytes.decode("utf-8", "replace")`, which is then
    deleted like a control character.

    Example:
    >>> clean(tf.constant([b"a\tb\x00c\xff"])).numpy()
    array([b'a bc'], dtype=object)
    """
    texts = tf.strings.unicode_transcode(
        texts, "UTF-8", "UTF-8", errors="replace", replacement_char=0xFFFD
    )
    texts = tf.strings.regex_replace(texts, unicode_classes.CONTROL, "")
    return tf.strings.regex_replace(texts, unicode_classes.WHITESPACE, " ")


def isolate_cjk(texts: tf.Tensor) -> tf.Tensor:
    """Puts a space on both sides of every Chinese character.

    Example:
    >>> print(isolate_cjk(tf.constant(["a漢b"])).numpy()[0].decode())
    a 漢 b
    """
    return tf.strings.regex_replace(texts, unicode_classes.CJK, r" \0 ")


def decompose(texts: tf.Tensor) -> tf.Tensor:
    """Decomposes characters (NFD) with the Rust library's Unicode version.

    Args:
        texts: string `(N,)` without private use characters, from `clean`.

    Example:
    >>> len(decompose(tf.constant(["é"])).numpy()[0].decode())
    2
    """
    texts = tf_text.normalize_utf8(_HIDE_NFD_EXEMPT(texts), "NFD")  # pyright: ignore
    return _SHOW_NFD_EXEMPT(texts)


def strip_marks(texts: tf.Tensor) -> tf.Tensor:
    """Decomposes characters (NFD) and drops combining marks.

    Args:
        texts: string `(N,)` without private use characters, from `clean`.

    Example:
    >>> strip_marks(tf.constant(["Café"])).numpy()
    array([b'Cafe'], dtype=object)
    """
    return tf.strings.regex_replace(decompose(texts), unicode_classes.MARK, "")


def lower(texts: tf.Tensor) -> tf.Tensor:
    """Lowercases each letter, independent of its neighbors and the locale.

    Example:
    >>> print(lower(tf.constant(["ΣΑΣ"])).numpy()[0].decode())
    σασ
    """
    # The only letter whose lowercase has two code points.
    return _LOWERCASE(tf.strings.regex_replace(texts, "\u0130", "i\u0307"))


def isolate_punctuation(texts: tf.Tensor) -> tf.Tensor:
    """Puts a space on both sides of every punctuation character.

    Example:
    >>> isolate_punctuation(tf.constant(["don't"])).numpy()
    array([b"don ' t"], dtype=object)
    """
    return tf.strings.regex_replace(texts, unicode_classes.PUNCTUATION, r" \0 ")


def _apply_where(
    condition: tf.Tensor, function: Callable[[tf.Tensor], tf.Tensor], texts: tf.Tensor
) -> tf.Tensor:
    rows = tf.where(condition)
    return tf.tensor_scatter_nd_update(texts, rows, function(tf.gather_nd(texts, rows)))


class _CodePointShift:
    """Adds to each code point its offset from a table, which is 0 for most code points.

    The table is stored as distinct blocks of offsets: a flat table would add four
    megabytes to every graph.
    """

    def __init__(self, runs: Sequence[tuple[int, int, int, int]]) -> None:
        shifts = np.zeros(0x110000, np.int32)
        for first, last, step, shift in runs:
            shifts[first : last + 1 : step] = shift
        self._blocks, self._block_of = split_into_blocks(shifts)
        ranges = "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last, *_ in runs)
        self._pattern = f"(?s).*[{ranges}].*"

    def __call__(self, texts: tf.Tensor) -> tf.Tensor:
        concerned = tf.strings.regex_full_match(texts, self._pattern)
        return _apply_where(concerned, self._shift, texts)

    def _shift(self, texts: tf.Tensor) -> tf.Tensor:
        characters = tf.strings.unicode_decode(texts, "UTF-8")
        code_points = characters.flat_values
        block = tf.gather(self._block_of, code_points // BLOCK)
        place = tf.stack([block, code_points % BLOCK], axis=1)
        shifted = code_points + tf.gather_nd(self._blocks, place)
        return tf.strings.unicode_encode(characters.with_flat_values(shifted), "UTF-8")


_LOWERCASE = _CodePointShift(unicode_classes.LOWERCASE)
_HIDE_NFD_EXEMPT = _CodePointShift(unicode_classes.NFD_EXEMPT)
_SHOW_NFD_EXEMPT = _CodePointShift(
    [
        (first + shift, last + shift, step, -shift)
        for first, last, step, shift in unicode_classes.NFD_EXEMPT
    ]
)
