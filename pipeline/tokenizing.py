"""`transbeam tokenize`: lines to pieces and ids, and back."""

import json
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import tensorflow as tf

from configs.errors import DataError
from pipeline.tokenizers.imports import import_tokenizer
from pipeline.tokenizers.interface import Tokenizer
from pipeline.tokenizers.report import report_vocabulary

_BLOCK_BYTES = 1_000_000
_GAP = "  "


def tokenize(
    artifact: Path, files: Sequence[Path], *, decode: bool, report: bool, as_json: bool
) -> None:
    """Prints what a tokenizer makes of lines.

    Args:
        artifact: What `import_tokenizer` reads.
        files: Where the lines are; stdin if there are none.
        decode: Whether the lines are ids, to be made text.
        report: Whether to print a report on the vocabulary instead.
        as_json: One JSON object a line; of the report, one object in all.

    Raises:
        UserError: The artifact or a file cannot be used, or an id is not right.
    """
    tokenizer = import_tokenizer(artifact).build()
    lines = _read_lines(files)
    if report:
        found = report_vocabulary(tokenizer, lines)
        print(json.dumps(found.as_json(), indent=2) if as_json else found.describe())
        return
    results = _decoded(tokenizer, lines) if decode else _encoded(tokenizer, lines)
    for result in results:
        if as_json:
            print(json.dumps(result))
        elif decode:
            print(result["text"])
        else:
            print(align(result["pieces"], result["ids"], _terminal_width()), end="\n\n")
    sys.stdout.flush()


def _encoded(
    tokenizer: Tokenizer, blocks: Iterable[np.ndarray]
) -> Iterator[dict[str, Any]]:
    for block in blocks:
        rows = tokenizer.tokenize(block).to_list()
        for line, ids in zip(block, rows, strict=True):
            yield {
                "text": line.decode("utf-8", "replace"),
                "pieces": [tokenizer.pieces[i] for i in ids],
                "ids": ids,
            }
        sys.stdout.flush()


def _decoded(
    tokenizer: Tokenizer, blocks: Iterable[np.ndarray]
) -> Iterator[dict[str, Any]]:
    number = 0
    for block in blocks:
        rows: list[list[int]] = []
        for line in block:
            number += 1
            rows.append(parse_ids(line, tokenizer.vocabulary_size, f"line {number}"))
        ragged = tf.ragged.constant(rows, tf.int32, ragged_rank=1)
        for ids, text in zip(rows, tokenizer.detokenize(ragged).numpy(), strict=True):
            yield {"ids": ids, "text": text.decode("utf-8", "replace")}
        sys.stdout.flush()


def parse_ids(line: bytes, vocabulary_size: int, where: str) -> list[int]:
    """The ids of a line: numbers, or a JSON list, or a JSON object with `ids`.

    Raises:
        DataError: They are not ids of the vocabulary.

    Example:
    >>> parse_ids(b"5 6, 7", 10, "line 1"), parse_ids(b'{"ids": [5]}', 10, "line 1")
    ([5, 6, 7], [5])
    """
    text = line.decode("utf-8", "replace").strip()
    try:
        ids = _numbers(text)
    except ValueError:
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


def align(pieces: Sequence[str], ids: Sequence[int], width: int) -> str:
    """Pieces with their ids below them, in rows of at most `width` columns.

    Example:
    >>> print(align(["un", "##able", "!"], [5, 11012, 6], width=80))
    un  ##able  !
    5   11012   6
    """
    if not pieces:
        return "(no pieces)"
    rows: list[tuple[str, str]] = []
    above = below = ""
    for piece, i in zip(pieces, ids, strict=True):
        shown, number = _visible(piece), str(i)
        columns = max(_columns(shown), len(number))
        if above and _columns(above) + len(_GAP) + columns > width:
            rows.append((above, below))
            above = below = ""
        if above:
            above, below = above + _GAP, below + _GAP
        above += shown + " " * (columns - _columns(shown))
        below += number.ljust(columns)
    rows.append((above, below))
    return "\n".join(f"{above.rstrip()}\n{below.rstrip()}" for above, below in rows)


def _visible(piece: str) -> str:
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in piece
    )


def _columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _terminal_width() -> int:
    return shutil.get_terminal_size((88, 24)).columns


def _read_lines(files: Sequence[Path]) -> Iterator[np.ndarray]:
    """Blocks of lines, object (N,) of bytes, without the ends of the lines."""
    if not files:
        yield from _blocks(sys.stdin.buffer)
    for file in files:
        try:
            with file.open("rb") as stream:
                yield from _blocks(stream)
        except OSError as error:
            raise DataError(f"{file}: cannot be read ({error.strerror})") from error


def _blocks(stream: BinaryIO) -> Iterator[np.ndarray]:
    # A person at a terminal gets an answer to each line.
    size = 1 if stream.isatty() else _BLOCK_BYTES
    while lines := stream.readlines(size):
        block = np.empty(len(lines), object)
        block[:] = [line.removesuffix(b"\n").removesuffix(b"\r") for line in lines]
        yield block
