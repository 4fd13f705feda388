"""Batches of documents in columns, in memory and as Arrow files.

Arrow files are memory-mapped without copying, so passing files between steps costs
little.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.pipeline.documents.document import Document, document_key, input_key
from transbeam.pipeline.documents.randomness import mix

SCHEMA = pa.schema(
    {
        "text": pa.binary(),
        "source": pa.dictionary(pa.int32(), pa.string()),
        "offset": pa.int64(),
        "second_text": pa.binary(),
        "target_text": pa.binary(),
        "label": pa.string(),
        "words": pa.list_(pa.string()),
        "tags": pa.list_(pa.string()),
        "answers": pa.list_(pa.struct({"offset": pa.int64(), "text": pa.string()})),
        "image": pa.binary(),
        "image_shape": pa.list_(pa.int64()),
        "messages": pa.list_(pa.struct({"role": pa.string(), "content": pa.string()})),
        "negative_text": pa.binary(),
        "choices": pa.list_(pa.string()),
        "references": pa.list_(pa.string()),
    }
)
TEXTS = ("text", "second_text", "target_text", "negative_text")
_EXTRAS = SCHEMA.names[3:]
_INPUTS = ("text", "second_text", "image")


@dataclass(frozen=True)
class DocumentBatch:
    """A batch of documents.

    Attributes:
        keys: uint64 (D,), the `document_key` of each document; each further copy of a
            document has a different key. All random numbers of a document are derived
            from its key.
        table: One row per document; the columns are the attributes of `Document`.
            Columns that are empty in all documents are left out.
    """

    keys: np.ndarray
    table: pa.Table

    @classmethod
    def from_documents(cls, documents: Sequence[Document]) -> "DocumentBatch":
        """Makes a batch of documents.

        Example:
        >>> document = Document("a text", "a.txt", 0, label="good")
        >>> batch = DocumentBatch.from_documents([document])
        >>> batch.texts(), batch.values("label"), batch.values("second_text")
        (array([b'a text'], dtype=object), ['good'], [''])
        """
        keys = np.array([document_key(document) for document in documents], np.uint64)
        columns: dict[str, Any] = {}
        by_field = list(zip(*documents, strict=True)) or [()] * len(Document._fields)
        for name, values in zip(Document._fields, by_field, strict=True):
            if name in _EXTRAS and not any(values):
                continue
            if name == "answers":
                values = [[{"offset": o, "text": t} for o, t in row] for row in values]
            if name == "messages":
                values = [[{"role": r, "content": c} for r, c in row] for row in values]
            columns[name] = _column(name, values)
        return cls(keys, pa.table(columns))

    @classmethod
    def of_batches(cls, batches: Sequence["DocumentBatch"]) -> "DocumentBatch":
        """Concatenates batches.

        Example:
        >>> documents = (Document(text, "a.txt", 0) for text in "xy")
        >>> one, two = (DocumentBatch.from_documents([one]) for one in documents)
        >>> DocumentBatch.of_batches([one, two]).texts()
        array([b'x', b'y'], dtype=object)
        """
        tables = [batch.table for batch in batches]
        return cls(
            np.concatenate([batch.keys for batch in batches]),
            pa.concat_tables(tables, promote_options="default").unify_dictionaries(),
        )

    def __len__(self) -> int:
        return len(self.keys)

    def texts(self, column: str = "text") -> np.ndarray:
        """Returns a column of UTF-8 texts, object (D,); empty texts if missing."""
        if column not in self.table.column_names:
            return np.full(len(self), b"", object)
        values = np.empty(len(self), object)
        values[:] = self.table[column].to_pylist()
        return values

    def sizes(self) -> np.ndarray:
        """Returns 1 + the bytes of each document's texts and image, int64 (D,)."""
        sizes = np.ones(len(self), np.int64)
        for column in (*TEXTS, "image"):
            if column in self.table.column_names:
                sizes += pc.binary_length(self.table[column]).to_numpy()
        return sizes

    def values(self, column: str) -> list[Any]:
        """Returns any column; `answers` and `messages` as dictionaries."""
        if column not in self.table.column_names:
            default = Document._field_defaults[column]
            return [[] if default == () else default] * len(self)
        return self.table[column].to_pylist()

    def input_keys(self) -> np.ndarray:
        """Returns hashes of the inputs without labels and answers, uint64 (D,).

        Example:
        >>> batch = DocumentBatch.from_documents(
        ...     [Document("ab", "x", n, label=l) for n, l in enumerate("pq")]
        ... )
        >>> keys = batch.input_keys()
        >>> batch.keys[0] == batch.keys[1], keys[0] == keys[1]
        (np.False_, np.True_)
        """
        if not set(self.table.column_names) & set(_EXTRAS):
            return self.keys
        inputs = zip(*map(self.texts, _INPUTS), strict=True)
        return np.array([input_key(*row) for row in inputs], np.uint64)

    def only(self, columns: Sequence[str]) -> "DocumentBatch":
        """Selects columns without copying."""
        there = [name for name in columns if name in self.table.column_names]
        return DocumentBatch(self.keys, self.table.select(there))

    def take(self, rows: np.ndarray) -> "DocumentBatch":
        """Selects rows by index, in that order."""
        return DocumentBatch(self.keys[rows], self.table.take(pa.array(rows)))

    def with_copies(self, copies: np.ndarray) -> "DocumentBatch":
        """Repeats each document `copies` (D,) times; each copy has a different key."""
        rows = np.repeat(np.arange(len(self)), copies)
        copy = np.arange(len(rows)) - np.repeat(np.cumsum(copies) - copies, copies)
        repeated = self.take(rows)
        keys = np.where(
            copy == 0, repeated.keys, mix(repeated.keys + mix(copy.astype(np.uint64)))
        )
        return DocumentBatch(keys, repeated.table)

    def save(self, path: Path) -> None:
        """Writes the batch atomically as one Arrow file."""
        table = self.table.append_column("key", pa.array(self.keys))
        sink = io.BytesIO()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        write_atomically(path, sink.getvalue())

    @classmethod
    def load(cls, path: Path) -> "DocumentBatch":
        """Reads a file written by `save`; the file is memory-mapped, not copied."""
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
        keys = table["key"].to_numpy()
        return cls(keys, table.drop_columns(["key"]))


def _column(name: str, values: Sequence[Any]) -> pa.Array:
    if name in TEXTS:
        return pa.array(values, pa.string()).cast(pa.binary())
    if name == "source":
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, SCHEMA.field(name).type)
