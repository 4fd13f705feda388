"""BERT's normalization as a table for tf-text's `FastBertNormalize`, for TFLite.

The op maps each code point to a string, with a table that is an input of the op. The
tables of tf-text differ from BERT's (they fold `ß` and `ﬁ`, and keep characters that
BERT deletes). With the table of this module, which has the same format, the op gives
the same results as `transbeam.pipeline.tokenizers.wordpiece.bert_normalization`, with
one exception: an op that processes single code points cannot reorder combining marks.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import flatbuffers
import numpy as np
import tensorflow as tf

from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)
from transbeam.serving.phone.tokenizer.unicode_tables import CODE_POINTS

# The op's encoding of a text: a flag, its offset in a pool, and its size in bytes.
_CHANGES, _PLACE, _MOST_BYTES = 0x40000000, 6, 63

# Units of a double-array trie as Darts-clone writes them.
_OFFSET, _HAS_LEAF, _IS_VALUE = 10, 1 << 8, 1 << 31
_BLOCK = 256  # maximum number of children of a node
_SMALL_BLOCK = 64  # those of all but the first byte of UTF-8

_Node = dict[int, "_Node | int"]


def normalizer_file(tokenizer: WordPieceTokenizer) -> np.ndarray:
    """Returns the table for `FastBertNormalize`, uint8 (bytes,).

    Characters that are words of their own (punctuation, Chinese characters) get spaces
    around them.

    Args:
        tokenizer: The tokenizer in the model's graph.
    """
    pool, offsets, packed = bytearray(), {}, {}
    for c, text in _changes(tokenizer):
        content = text.encode()
        assert len(content) <= _MOST_BYTES
        if content not in offsets:
            offsets[content] = len(pool)
            pool += content
        packed[c] = _CHANGES | offsets[content] << _PLACE | len(content)
    # The trie treats a zero byte as the end of a text.
    of_zero = packed.pop(0, 0)
    trie = double_array({chr(c).encode(): value for c, value in packed.items()})
    builder = flatbuffers.Builder()
    texts = builder.CreateByteVector(bytes(pool))
    units = builder.CreateNumpyVector(trie)
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(1, units, 0)
    builder.PrependInt32Slot(2, of_zero, 0)
    builder.PrependUOffsetTRelativeSlot(3, texts, 0)
    builder.Finish(builder.EndObject())
    return np.frombuffer(bytes(builder.Output()), np.uint8)


def double_array(values: Mapping[bytes, int]) -> np.ndarray:
    """Builds a double-array trie of prefix-free keys, uint32 (units,).

    A unit contains the byte of the edge that leads to it, and an offset to the block of
    its children: the index of a child is the XOR of the unit's index, this offset and
    the child's byte. Nodes with the same children share a block, so a whole plane of
    deleted code points takes nearly no space.

    Args:
        values: The value of each key, below 2 to the 31st.

    Example:
    >>> trie = double_array({b"a": 7})
    >>> index = int(trie[0] >> 10) ^ ord("a")
    >>> leaf = index ^ int(trie[index] >> 10)
    >>> int(trie[leaf] & 0x7FFFFFFF)
    7
    """
    root: _Node = {}
    for key, value in values.items():
        node: Any = root
        for byte in key[:-1]:
            node = node.setdefault(byte, {})
        node[key[-1]] = value
    # First the values, then the blocks.
    leaves = {value: i for i, value in enumerate(sorted({*values.values()}), start=1)}
    blocks: dict[tuple[tuple[int, int, bool], ...], int] = {}
    units = np.zeros(2 * _BLOCK + len(leaves), np.uint32)
    for value, index in leaves.items():
        units[index] = value | _IS_VALUE
    top = -(-(len(leaves) + 1) // _BLOCK) * _BLOCK

    def block_of(node: _Node) -> int:
        """Returns the offset of a node's children; writes missing children first."""
        nonlocal top, units
        children = tuple(
            (byte, leaves[below], True)
            if isinstance(below, int)
            else (byte, block_of(below), False)
            for byte, below in sorted(node.items())
        )
        if children in blocks:
            return blocks[children]
        first = children[0][0] // _SMALL_BLOCK * _SMALL_BLOCK
        is_small = children[-1][0] < first + _SMALL_BLOCK
        if not is_small:
            top = -(-top // _BLOCK) * _BLOCK
        base = top ^ first if is_small else top
        top += _SMALL_BLOCK if is_small else _BLOCK
        if top > len(units):
            units = np.append(units, np.zeros(max(top, len(units)), np.uint32))
        for byte, below, is_leaf in children:
            index = base ^ byte
            units[index] = (index ^ below) << _OFFSET | byte | is_leaf * _HAS_LEAF
        blocks[children] = base
        return base

    units[0] = block_of(root) << _OFFSET
    # A failing lookup may read up to one block further.
    return units[: top + _BLOCK]


def _changes(tokenizer: WordPieceTokenizer) -> Iterator[tuple[int, str]]:
    """Yields the code points that normalization changes, with their replacement."""
    # Between two letters, a code point shows whether it separates words, is deleted, or
    # is a word of its own.
    texts = tf.constant([f"a{chr(c)}b" for c in CODE_POINTS])
    joined = tf.strings.reduce_join(tokenizer.words(texts), axis=1, separator=" ")
    for c, text in zip(CODE_POINTS, joined.numpy().tolist(), strict=True):
        new = text[1:-1].decode()
        if new != chr(c):
            yield c, new
