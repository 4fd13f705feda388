"""Accuracy of word splitting in raw text, against a treebank.

    python -m bench.splitting TREEBANK.conllu[.gz]

A word is found if both its ends are. What stands in a treebank beside the words of its
text (`1-2` and `1.1` in the first column) is left out, and so are sentences whose words
are not in their text in order.
"""

import argparse
import gzip
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from bench.pairs import heading, row
from transbeam.serving.text_ops.word_split import split_words

Spans = set[tuple[int, int]]


def main() -> None:
    """Prints how many words there are, and how many of them are found."""
    parser = argparse.ArgumentParser(prog="bench.splitting", description=__doc__)
    parser.add_argument("treebank", type=Path, help="CoNLL-U with `# text = ` lines")
    path = parser.parse_args().treebank
    unpack = gzip.open if path.suffix == ".gz" else open
    with unpack(path, "rt", encoding="utf-8") as stream:
        texts, treebank = zip(*sentences(stream), strict=True)
    found = split_words(tf.constant(texts))
    ends = zip(found.starts.to_list(), found.ends.to_list(), strict=True)
    spans = [set(zip(*pair, strict=True)) for pair in ends]
    right = sum(len(a & b) for a, b in zip(treebank, spans, strict=True))
    asked, said = (sum(map(len, of)) for of in (treebank, spans))
    print(heading("sentences", "words", "found", "of what is found, words"))
    cells = f"{len(texts):,}", f"{asked:,}", f"{right / asked:.1%}"
    print(row(*cells, f"{right / said:.1%}"))


def sentences(lines: Iterator[str]) -> Iterator[tuple[str, Spans]]:
    """The text of each sentence, and where its words are."""
    text, words = "", []
    for line in lines:
        line = line.rstrip("\n")
        if line.startswith("# text = "):
            text = line.removeprefix("# text = ")
        elif line and not line.startswith("#"):
            number, word, *_ = line.split("\t")
            if number.isdecimal():
                words.append(word)
        elif not line:
            spans = places(text, words)
            if spans:
                yield text, spans
            words = []


def places(text: str, words: list[str]) -> Spans:
    """Offsets of words in a text; empty if they are not all in it, in order.

    Example:
    >>> sorted(places("It rains.", ["It", "rains", "."]))
    [(0, 2), (3, 8), (8, 9)]
    """
    spans, end = set(), 0
    for word in words:
        start = text.find(word, end)
        if start < 0:
            return set()
        end = start + len(word)
        spans.add((start, end))
    return spans


if __name__ == "__main__":
    main()
