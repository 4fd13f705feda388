"""Predictions for the texts of a file, written to a file."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.configs.base.errors import DataError
from transbeam.configs.cli.console import Console
from transbeam.serving.client.interface import Client
from transbeam.serving.predict.prediction import predict

_ROWS = 32  # texts in a request
_AT_ONCE = 4  # requests

Pair = tuple[str | Path, str | None]


def read_texts(file: Path) -> list[Pair]:
    """Reads inputs from a file.

    Args:
        file: One text, or the path of one image, per line; in a `.jsonl` one object per
            line, with `text` and optionally `second_text`, or with `image`.

    Raises:
        DataError: The file cannot be read, or a line does not have the expected format.
    """
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot be read: {error}") from None
    if file.suffix != ".jsonl":
        return [(line, None) for line in lines if line.strip()]
    return [
        _pair(file, number, line)
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]


def answer_file(
    client: Client, texts: Sequence[Pair], output: Path, console: Console
) -> int:
    """Computes predictions of all texts in parallel requests; writes one per line.

    Args:
        client: The client, whose methods are called by several threads.
        texts: The inputs.
        output: The `.jsonl` file; written when all predictions are complete.
        console: Shows the progress.

    Returns:
        The number of predictions.

    Raises:
        UserError: An error of `predict` occurs, or the file cannot be written.
    """
    parts = [texts[start : start + _ROWS] for start in range(0, len(texts), _ROWS)]

    def ask(part: Sequence[Pair]) -> list[dict[str, Any]]:
        seconds = [second for _, second in part if second is not None]
        return predict(client, [text for text, _ in part], seconds)

    lines = []
    with (
        console.progress("asking", len(texts), "texts") as bar,
        ThreadPoolExecutor(_AT_ONCE) as pool,
    ):
        for answers in pool.map(ask, parts):
            lines += [json.dumps(answer, ensure_ascii=False) for answer in answers]
            bar.advance(len(answers))
    write_atomically(output, "".join(f"{line}\n" for line in lines))
    return len(lines)


def _pair(file: Path, number: int, line: str) -> Pair:
    expected = 'expected {"text": "..."}, and of pairs {"second_text": "..."}'
    expected += '; of images {"image": "..."}'
    try:
        found = json.loads(line)
    except ValueError as error:
        raise DataError(f"{file}:{number}: not JSON: {error}; {expected}") from None
    match found:
        case {"text": str(text), "second_text": str(second)}:
            return text, second
        case {"text": str(text)} if "second_text" not in found:
            return text, None
        case {"image": str(path)}:
            return Path(path), None
    raise DataError(f"{file}:{number}: {line[:80]!r}; {expected}")
