"""`transbeam tokenize`: converts texts to pieces, ids and offsets, and back."""

import codecs
import itertools
import json
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import tensorflow as tf

from transbeam.configs.base.errors import DataError
from transbeam.pipeline.arguments import TokenizeArguments
from transbeam.pipeline.documents.document import BrokenFile, SourceFile
from transbeam.pipeline.sources.decoding.encoding_detection import bom_codec
from transbeam.pipeline.sources.files.compression import COMPRESSIONS
from transbeam.pipeline.sources.files.file_access import open_file
from transbeam.pipeline.tokenizers.analysis.vocabulary_report import (
    escape,
    report_vocabulary,
)
from transbeam.pipeline.tokenizers.base.interface import Tokenizer, encodable
from transbeam.pipeline.tokenizers.files.import_tokenizer import import_tokenizer

_BLOCK_BYTES = 1_000_000
_GAP = "  "


def tokenize(arguments: TokenizeArguments) -> None:
    """Prints pieces, ids and offsets of lines, or decodes ids to text.

    Raises:
        UserError: The tokenizer artifact or an input file cannot be used, or an id is
            invalid.
    """
    files, as_json = arguments.files, arguments.json
    tokenizer = import_tokenizer(arguments.artifact).build()
    if arguments.decode:
        _print_decoded(tokenizer, _read_lines(files), as_json=as_json)
        return
    texts = _read_texts(files, json_lines=arguments.json_lines)
    if arguments.report:
        found = report_vocabulary(tokenizer, texts)
        print(json.dumps(found.as_json(), indent=2) if as_json else found.describe())
        return
    width = shutil.get_terminal_size((88, 24)).columns
    for result in _encoded(tokenizer, texts):
        if as_json:
            print(json.dumps(result))
        else:
            rows = [result["ids"]]
            if arguments.offsets:
                rows.append([f"{start}-{end}" for start, end in result["offsets"]])
            print(align(result["pieces"], *rows, width=width), end="\n\n")
    sys.stdout.flush()


def _encoded(
    tokenizer: Tokenizer, blocks: Iterable[np.ndarray]
) -> Iterator[dict[str, Any]]:
    for block in blocks:
        texts = [line.decode("utf-8", "replace") for line in block]
        rows = tokenizer.tokenize_with_offsets(texts)
        for text, (ids, offsets) in zip(texts, rows, strict=True):
            yield {
                "text": text,
                "pieces": [tokenizer.pieces[i] for i in ids],
                "ids": ids,
                "offsets": offsets,
            }
        sys.stdout.flush()


def _print_decoded(
    tokenizer: Tokenizer, blocks: Iterable[np.ndarray], *, as_json: bool
) -> None:
    number = 0
    for block in blocks:
        rows: list[list[int]] = []
        for line in block:
            number += 1
            rows.append(parse_ids(line, tokenizer.vocabulary_size, f"line {number}"))
        ragged = tf.ragged.constant(rows, tf.int32, ragged_rank=1)
        for ids, raw in zip(rows, tokenizer.detokenize(ragged).numpy(), strict=True):
            text = raw.decode("utf-8", "replace")
            print(json.dumps({"ids": ids, "text": text}) if as_json else text)
        sys.stdout.flush()


def parse_ids(line: bytes, vocabulary_size: int, where: str) -> list[int]:
    """Parses the ids of a line: numbers, a JSON list, or a JSON object with `ids`.

    Raises:
        DataError: The line does not contain ids of the vocabulary.

    Example:
    >>> parse_ids(b"5 6, 7", 10, "line 1"), parse_ids(b'{"ids": [5]}', 10, "line 1")
    ([5, 6, 7], [5])
    """
    text = line.decode("utf-8", "replace").strip()
    try:
        ids = _numbers(text)
    except (ValueError, RecursionError):
        raise DataError(
            f"{where}: {text[:60]!r} is not a row of ids; expected numbers with spaces "
            'between them, or JSON such as {"ids": [5, 6]}'
        ) from None
    for i in ids:
        if not 0 <= i < vocabulary_size:
            raise DataError(
                f"{where}: there is no id {i}; the ids of the {vocabulary_size:,} "
                f"pieces are 0 to {vocabulary_size - 1}"
            )
    return ids


def _numbers(text: str) -> list[int]:
    if not text.startswith(("[", "{")):
        return [int(number) for number in text.replace(",", " ").split()]
    ids = json.loads(text)
    if isinstance(ids, dict):
        ids = ids.get("ids")
    if not isinstance(ids, list) or any(type(i) is not int for i in ids):
        raise ValueError
    return ids


def align(pieces: Sequence[str], *below: Sequence[object], width: int) -> str:
    """Aligns pieces with the values below them, in rows of at most `width` columns.

    Example:
    >>> print(align(["un", "##able", "!"], [5, 11012, 6], width=80))
    un  ##able  !
    5   11012   6
    """
    if not pieces:
        return "(no pieces)"
    blocks: list[list[str]] = []
    for piece, *values in zip(pieces, *below, strict=True):
        cells = [escape(piece), *map(str, values)]
        columns = max(map(_columns, cells))
        if not blocks or _columns(blocks[-1][0]) + len(_GAP) + columns > width:
            blocks.append([""] * len(cells))
        gap = _GAP if blocks[-1][0] else ""
        blocks[-1] = [
            f"{row}{gap}{cell}{' ' * (columns - _columns(cell))}"
            for row, cell in zip(blocks[-1], cells, strict=True)
        ]
    return "\n".join(row.rstrip() for block in blocks for row in block)


def _columns(text: str) -> int:
    """Returns the width of a text in terminal columns."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _read_lines(files: Sequence[Path]) -> Iterator[np.ndarray]:
    """Yields blocks of lines without line ends, as object arrays (N,) of bytes."""
    if not files:
        yield from _unmarked(_blocks(sys.stdin.buffer), "stdin")
    for file in files:
        try:
            with _opened(file) as stream:
                yield from _unmarked(_blocks(stream), str(file))
        except OSError as error:
            raise DataError(f"{file}: cannot be read ({error.strerror})") from error
        except BrokenFile as broken:
            lost = broken.damage[-1]
            raise DataError(f"{file}: {lost.reason} ({lost.detail})") from broken


def _opened(file: Path) -> AbstractContextManager[BinaryIO]:
    """Opens a file, decompressed, or a pipe as is: a pipe can be read only once."""
    is_pipe = file.exists() and not file.is_file() and not file.is_dir()
    return file.open("rb") if is_pipe else open_file(SourceFile.at(file, str(file)))


def _unmarked(blocks: Iterator[np.ndarray], where: str) -> Iterator[np.ndarray]:
    """Removes the byte order mark before the first line.

    Raises:
        DataError: The text begins with the byte order mark of an encoding other than
            UTF-8.
    """
    for first in itertools.islice(blocks, 1):
        codec = bom_codec(first[0])
        if codec == "utf-8":
            first[0] = first[0].removeprefix(codecs.BOM_UTF8)
        elif codec is not None:
            name = codec.upper().removesuffix("-LE").removesuffix("-BE")
            raise DataError(
                f"{where}: {name} by its byte order mark, expected UTF-8. Convert it: "
                f"iconv -f {name} -t UTF-8"
            )
        yield first
    yield from blocks


def _read_texts(files: Sequence[Path], *, json_lines: bool) -> Iterator[np.ndarray]:
    """Yields blocks of texts, object (N,) of bytes: lines, or texts of JSON Lines."""
    for file in files or [None]:
        where = "stdin" if file is None else str(file)
        is_json = json_lines or (file is not None and _is_json_lines(file))
        number = 0
        for block in _read_lines([] if file is None else [file]):
            yield _of_json(block, where, number) if is_json else block
            number += len(block)


def _is_json_lines(file: Path) -> bool:
    """Returns whether a file name ends in `.jsonl`, ignoring a compression suffix.

    Example:
    >>> [_is_json_lines(Path(name)) for name in ("a.JSONL", "a.jsonl.gz", "a.txt")]
    [True, True, False]
    """
    name = file.name.lower()
    return name.endswith((".jsonl", *(f".jsonl{suffix}" for suffix in COMPRESSIONS)))


def _of_json(block: np.ndarray, where: str, number: int) -> np.ndarray:
    texts = [
        _line_text(line, f"{where}, line {place}")
        for place, line in enumerate(block, start=number + 1)
        if line.strip()
    ]
    found = np.empty(len(texts), object)
    found[:] = texts
    return found


def _line_text(line: bytes, where: str) -> bytes:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        value = value.get("text")
    if not isinstance(value, str):
        shown = line.decode("utf-8", "replace")[:60]
        raise DataError(
            f"{where}: {shown!r} has no text; expected a JSON string, or an object "
            'such as {"text": "two\\nlines"}'
        )
    return encodable([value])[0].encode()


def _blocks(stream: BinaryIO) -> Iterator[np.ndarray]:
    # At a terminal each line is processed at once.
    size = 1 if stream.isatty() else _BLOCK_BYTES
    while lines := stream.readlines(size):
        block = np.empty(len(lines), object)
        block[:] = [line.removesuffix(b"\n").removesuffix(b"\r") for line in lines]
        yield block
