"""Reads Universal Dependencies treebanks (CoNLL-U) with heads and relations.

`transbeam.pipeline.sources.readers.conllu` reads the same files as a corpus of tagged
words and quarantines what is damaged; a treebank is the gold standard of a measurement,
so that here the first damage is an error. The words are the syntactic words, which have
integer ids. Skipped are multiword tokens (`1-2  don't`), empty nodes (`8.1`), which
represent elided words, and comments.

References:
    - [CoNLL-U format](https://universaldependencies.org/format.html)
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transbeam.configs.base.errors import DataError
from transbeam.model.inspect.attention_trees import ROOT
from transbeam.pipeline.documents.document import BrokenFile, SourceFile
from transbeam.pipeline.sources.files.file_access import open_file

_NUM_COLUMNS = 10
_FORM, _TAG, _HEAD, _RELATION, _MISC = 1, 3, 6, 7, 9
# A word, a multiword token or an empty node; of more digits there is no sentence.
_ID = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})|(\.[0-9]+))?")
_NUMBER = re.compile("[0-9]{1,9}")


class _Row(NamedTuple):
    """A line: its file and number, for messages, and its columns."""

    where: str
    columns: list[str]


@dataclass(frozen=True)
class TreebankSentence:
    """A sentence with its dependency tree.

    Attributes:
        text: The text, with a space between tokens unless `SpaceAfter=No`.
        offsets: Start and end of each word in the text, in characters. Words of a
            multiword token whose forms do not make up the token (French `du` for `de`
            and `le`) all have the token's offsets.
        tags: The universal part of speech of each word.
        heads: int64 (W,). The index of each word's head from 0; `ROOT` for the root.
        relations: The relation of each word to its head, such as `nmod:poss`.
    """

    text: str
    offsets: tuple[tuple[int, int], ...]
    tags: tuple[str, ...]
    heads: np.ndarray
    relations: tuple[str, ...]

    @property
    def root(self) -> int:
        """The index of the root."""
        return int(np.flatnonzero(self.heads == ROOT)[0])


def read_treebank(path: Path) -> list[TreebankSentence]:
    """Reads all sentences of a CoNLL-U file, which may be compressed.

    Raises:
        DataError: The file cannot be read, has no sentence, or a sentence is not a
            dependency tree; the message has the line's number.
    """
    sentences = [_parse(rows) for rows in _split_sentences(path)]
    if not sentences:
        raise DataError(
            f"{path}: has no sentence; expected a treebank in CoNLL-U, such as "
            "en_ewt-ud-dev.conllu of Universal Dependencies"
        )
    return sentences


def _read_text(path: Path) -> str:
    try:
        with open_file(SourceFile.at(path, path.name)) as stream:
            raw = stream.read()
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: byte {error.start} is not UTF-8; expected CoNLL-U, which always "
            "is. Convert the file"
        ) from None
    except (OSError, ValueError, BrokenFile) as error:  # a path with a NUL: ValueError
        raise DataError(
            f"{path}: cannot be read: {error}. Give a treebank in CoNLL-U"
        ) from None


def _split_sentences(path: Path) -> Iterator[list[_Row]]:
    sentence: list[_Row] = []
    for number, line in enumerate([*_read_text(path).split("\n"), ""], 1):
        if not line.strip():
            if sentence:
                yield sentence
            sentence = []
        elif not line.startswith("#"):
            columns = line.split("\t")
            if len(columns) != _NUM_COLUMNS:
                raise DataError(
                    f"{path}:{number}: found {len(columns)} columns, expected the "
                    f"{_NUM_COLUMNS} of CoNLL-U, separated by tabs"
                )
            sentence.append(_Row(f"{path}:{number}", columns))


def _parse(rows: list[_Row]) -> TreebankSentence:
    words, ranges = [], {}
    for row in rows:
        match = _ID.fullmatch(row.columns[0])
        if match is None:
            raise DataError(
                f"{row.where}: found the id {row.columns[0]!r}, expected a number, a "
                "range such as 1-2, or an empty node such as 8.1"
            )
        first, last, empty = match.groups()
        if last:
            ranges[int(first)] = (int(last), row)
        elif not empty:
            words.append(row)
            if int(first) != len(words):
                raise DataError(
                    f"{row.where}: found the id {first}, expected {len(words)}; ids of "
                    "words count up from 1"
                )
    if not words:
        raise DataError(f"{rows[0].where}: found a sentence without words")
    text, offsets = _join(words, ranges)
    return TreebankSentence(
        text=text,
        offsets=tuple(offsets),
        tags=tuple(row.columns[_TAG] for row in words),
        heads=_parse_heads(words),
        relations=tuple(row.columns[_RELATION] for row in words),
    )


def _parse_heads(words: list[_Row]) -> np.ndarray:
    heads = []
    for row in words:
        head = row.columns[_HEAD]
        if not _NUMBER.fullmatch(head) or int(head) > len(words):
            raise DataError(
                f"{row.where}: found the head {head!r}, expected the id of a word, "
                f"from 1 to {len(words)}, or 0 for the root"
            )
        heads.append(int(head) - 1)
    parents = np.array(heads)
    if (roots := heads.count(ROOT)) != 1:
        raise DataError(
            f"{words[0].where}: found {roots} roots in the sentence, expected one word "
            "with the head 0"
        )
    # Steps double: each word reaches the root, unless a cycle is above it.
    reached = parents
    for _ in range(len(heads).bit_length()):
        reached = np.where(reached == ROOT, ROOT, reached[reached])
    if (reached != ROOT).any():
        row = words[int(np.flatnonzero(reached != ROOT)[0])]
        raise DataError(f"{row.where}: found a cycle of heads, expected a tree")
    return parents


def _join(
    words: list[_Row], ranges: dict[int, tuple[int, _Row]]
) -> tuple[str, list[tuple[int, int]]]:
    """Joins the tokens to a text, and returns it with the offsets of the words."""
    text, offsets = "", []
    number = 1
    while number <= len(words):
        last, token = ranges.get(number, (number, words[number - 1]))
        form, start = token.columns[_FORM], len(text)
        parts = [row.columns[_FORM] for row in words[number - 1 : last]]
        if "".join(parts) == form:
            ends = start + np.cumsum([len(part) for part in parts])
            offsets += zip([start, *ends[:-1].tolist()], ends.tolist(), strict=True)
        else:
            offsets += [(start, start + len(form))] * len(parts)
        has_space = "SpaceAfter=No" not in token.columns[_MISC].split("|")
        text += form + " " * has_space
        number = max(last, number) + 1
    return text.rstrip(" "), offsets
