"""Restricts a source to the documents whose hashes are in its `hash_range`."""

import hashlib

from transbeam.configs.schema.sources import SingleSource
from transbeam.configs.schema.table_sources import SquadSourceConfig
from transbeam.pipeline.documents.document import Document, Filtered, Item

OUTSIDE = "outside of hash_range"


def apply_hash_range(item: Item, source: SingleSource) -> Item:
    """Returns a document, or a `Filtered` entry in its place if it is out of range.

    The reader of `squad` applies the range itself, to whole articles.
    """
    hash_range = source.hash_range
    if hash_range is None or not isinstance(item, Document):
        return item
    if isinstance(source, SquadSourceConfig):
        return item
    texts = item.text, item.second_text
    content = b"\0".join([*(text.encode() for text in texts), item.image])
    if is_in_range(content, hash_range):
        return item
    return Filtered(OUTSIDE, item.source, item.offset, item.size)


def is_in_range(content: bytes, hash_range: tuple[float, ...]) -> bool:
    """Returns whether the hash of some content is in a range, its end excluded.

    The hash is independent of the one that selects the validation split.

    Example:
    >>> [is_in_range(b"a text", each) for each in ((0.0, 0.25), (0.25, 1.0))]
    [False, True]
    """
    raw = hashlib.blake2b(content, digest_size=8, person=b"hash_range").digest()
    # Whole numbers: as a float, the largest hash would be 1.0.
    low, high = (int(end * 2**64) for end in hash_range)
    return low <= int.from_bytes(raw, "little") < high
