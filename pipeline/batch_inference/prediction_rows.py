"""Writes predictions for documents as rows of JSON Lines or Parquet.

A row contains the document's `source` and `offset`, optionally the document's `text`,
and under `outputs` the value of each output of the signature for the document.
"""

import io
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from transbeam.configs.base.atomic_files import writing
from transbeam.configs.base.errors import ConfigError
from transbeam.pipeline.batch_inference.saved_models import Output
from transbeam.pipeline.documents.document import Document

Form = Literal["jsonl", "parquet"]

# One batch of documents: an array (B, ...) for each output.
Answers = Mapping[str, np.ndarray]

_HALF = {"float16", "bfloat16"}
_ROW_GROUP_BYTES = 32_000_000


@dataclass(frozen=True)
class RowFormat:
    """The format of prediction rows.

    Attributes:
        form: The file format.
        outputs: The outputs of the signature that a row contains.
        keep_text: Whether a row contains the document's text.
    """

    form: Form
    outputs: tuple[Output, ...]
    keep_text: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The columns of the Parquet file."""
        outputs = [(output.name, _arrow_type(output)) for output in self.outputs]
        columns: dict[str, pa.DataType] = {"source": pa.string(), "offset": pa.int64()}
        if self.keep_text:
            columns["text"] = pa.string()
        return pa.schema({**columns, "outputs": pa.struct(outputs)})

    def encode(
        self, documents: Sequence[Document], batches: Sequence[Answers]
    ) -> bytes:
        """Encodes the rows of some documents, in their order.

        Args:
            documents: The input documents.
            batches: The outputs of the model, batch by batch.

        Example:
        >>> rows = RowFormat("jsonl", (Output("score", "float32", 1),))
        >>> answers = {"score": np.array([0.1, np.nan], np.float32)}
        >>> documents = [Document("one", "a.txt", 0), Document("two", "a.txt", 4)]
        >>> print(rows.encode(documents, [answers]).decode(), end="")
        {"source": "a.txt", "offset": 0, "outputs": {"score": 0.1}}
        {"source": "a.txt", "offset": 4, "outputs": {"score": null}}
        """
        if self.form == "jsonl":
            return b"".join(self._json_lines(documents, batches))
        columns: dict[str, Any] = {
            "source": [document.source for document in documents],
            "offset": [document.offset for document in documents],
        }
        if self.keep_text:
            columns["text"] = [document.text for document in documents]
        kind = self.schema.field("outputs").type
        structs = [
            pa.StructArray.from_arrays(
                [_nested(answers[output.name]) for output in self.outputs],
                fields=list(kind),
            )
            for answers in batches
        ]
        columns["outputs"] = pa.chunked_array(structs, kind)
        sink = io.BytesIO()
        pq.write_table(pa.table(columns, self.schema), sink)
        return sink.getvalue()

    def _json_lines(
        self, documents: Sequence[Document], batches: Sequence[Answers]
    ) -> Iterator[bytes]:
        left = iter(documents)
        names = [output.name for output in self.outputs]
        for answers in batches:
            columns = [_json_values(answers[name]) for name in names]
            for row in zip(*columns, strict=True):
                document = next(left)
                line: dict[str, Any] = {
                    "source": document.source,
                    "offset": document.offset,
                }
                if self.keep_text:
                    line["text"] = document.text
                line["outputs"] = dict(zip(names, row, strict=True))
                text = json.dumps(line, ensure_ascii=False, allow_nan=False)
                yield text.encode("utf-8") + b"\n"


def find_file_format(output: Path) -> Form:
    """Returns the file format for a file name.

    Raises:
        ConfigError: The suffix is unknown.

    Example:
    >>> find_file_format(Path("answers.parquet"))
    'parquet'
    """
    match output.suffix:
        case ".jsonl":
            return "jsonl"
        case ".parquet":
            return "parquet"
    raise ConfigError(
        f"--output {output}: the name says no kind of file; expected one that ends in "
        ".jsonl or .parquet"
    )


def join(parts: Sequence[Path], output: Path, rows: RowFormat) -> None:
    """Concatenates files written by `RowFormat.encode`, in order, into one file.

    The file is written atomically.

    Raises:
        ArtifactError: The file cannot be written.
    """
    with _in_one_step(output) as temporary:
        if rows.form == "jsonl":
            with temporary.open("wb") as joined:
                for part in parts:
                    with part.open("rb") as stream:
                        shutil.copyfileobj(stream, joined)
        else:
            with pq.ParquetWriter(temporary, rows.schema) as writer:
                for table in _row_groups(parts):
                    writer.write_table(table)


@contextmanager
def _in_one_step(path: Path) -> Iterator[Path]:
    """Yields a temporary path whose file is renamed to `path` at the end."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with writing(path):
        try:
            yield temporary
            with temporary.open("rb") as stream:
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def _row_groups(parts: Sequence[Path]) -> Iterator[pa.Table]:
    """Yields the rows of all files in tables of a suitable row group size."""
    tables: list[pa.Table] = []
    size = 0
    for part in parts:
        with pq.ParquetFile(part) as file:
            tables.append(file.read())
        size += tables[-1].nbytes
        if size >= _ROW_GROUP_BYTES:
            yield pa.concat_tables(tables)
            tables, size = [], 0
    if tables:
        yield pa.concat_tables(tables)


def _arrow_type(output: Output) -> pa.DataType:
    name = "float32" if output.dtype in _HALF else output.dtype
    kind = pa.type_for_alias(name)
    for _ in range(output.rank - 1):
        kind = pa.list_(kind)
    return kind


def _nested(array: np.ndarray) -> pa.Array:
    """Converts (B, ...) to B nested lists without copying value by value."""
    nested = pa.array(_plain(array).ravel())
    for axis in range(array.ndim - 1, 0, -1):
        count = int(np.prod(array.shape[:axis]))
        offsets = np.arange(count + 1, dtype=np.int32) * array.shape[axis]
        nested = pa.ListArray.from_arrays(pa.array(offsets), nested)
    return nested


def _json_values(array: np.ndarray) -> list[Any]:
    """Converts (B, ...) to B JSON values; NaN and infinities become null."""
    plain = _plain(array)
    if plain.dtype.kind != "f":
        return plain.tolist()
    if plain.dtype == np.float32:
        # Converted through the shortest text: 0.1, not 0.10000000149011612.
        shortest = pa.array(plain.ravel()).cast(pa.string()).cast(pa.float64())
        plain = shortest.to_numpy().reshape(plain.shape)
    values = plain.astype(object)
    values[~np.isfinite(plain)] = None
    return values.tolist()


def _plain(array: np.ndarray) -> np.ndarray:
    """Converts bytes to text and half precision to single."""
    if array.dtype == object:
        flat = [value.decode("utf-8", "replace") for value in array.ravel()]
        texts = np.empty(len(flat), object)
        texts[:] = flat
        return texts.reshape(array.shape)
    half = array.dtype.name in _HALF
    return array.astype(np.float32) if half else array
