"""Treebanks: words, their places in the text, their heads; and what is no tree."""

import gzip

import numpy as np
import pytest

from transbeam.configs.base.errors import DataError
from transbeam.model.inspect.attention_trees import ROOT
from transbeam.trainer.analysis.syntax.treebank import read_treebank


def line(number, form, head, relation="dep", misc="_", tag="NOUN"):
    return "\t".join(
        [str(number), form, "_", tag, "_", "_", str(head), relation, "_", misc]
    )


@pytest.fixture
def read(tmp_path):
    def read_lines(*lines: str, ending: str = "\n"):
        path = tmp_path / "bank.conllu"
        path.write_bytes((ending.join(lines) + ending).encode())
        return read_treebank(path)

    return read_lines


def words(sentence):
    return [sentence.text[start:end] for start, end in sentence.offsets]


def test_sentences(read):
    first, second = read(
        "# text = The cat sleeps.",
        line(1, "The", 2, "det", tag="DET"),
        line(2, "cat", 3, "nsubj"),
        line(3, "sleeps", 0, "root", "SpaceAfter=No", "VERB"),
        line(4, ".", 3, "punct", tag="PUNCT"),
        "",
        line(1, "Né", 0, "root"),
    )
    assert first.text == "The cat sleeps."
    assert words(first) == ["The", "cat", "sleeps", "."]
    assert first.heads.tolist() == [1, 2, ROOT, 2]
    assert first.root == 2
    assert first.relations == ("det", "nsubj", "root", "punct")
    assert first.tags == ("DET", "NOUN", "VERB", "PUNCT")
    assert (second.text, words(second)) == ("Né", ["Né"])


def test_multiword_tokens(read):
    """Words that make up their token share it out; others have all of it."""
    (sentence,) = read(
        line("1-2", "don't", "_", "_", "SpaceAfter=No"),
        line(1, "do", 3),
        line(2, "n't", 3),
        line(3, ",", 0),
        line("4-5", "du", "_"),
        line(4, "de", 3),
        line(5, "le", 4),
        line(6, "pain", 3),
    )
    assert sentence.text == "don't, du pain"
    assert words(sentence) == ["do", "n't", ",", "du", "du", "pain"]
    assert sentence.heads.tolist() == [2, 2, ROOT, 2, 3, 2]


def test_space_after_a_multiword_token_is_its_own(read):
    """What its words say of spaces does not count."""
    (sentence,) = read(
        line("1-2", "don't", "_"),
        line(1, "do", 0, misc="SpaceAfter=No"),
        line(2, "n't", 1, misc="Gloss=not|SpaceAfter=No"),
        line(3, "go", 1),
    )
    assert sentence.text == "don't go"


def test_empty_nodes_and_comments_are_no_words(read):
    (sentence,) = read(
        line("0.1", "she", "_"),
        line(1, "eats", 0),
        "# a comment",
        line("1.1", "drinks", "_"),
        line(2, "rice", 1),
    )
    assert (sentence.text, words(sentence)) == ("eats rice", ["eats", "rice"])
    assert sentence.heads.tolist() == [ROOT, 0]


def test_line_ends_and_byte_order_mark(read):
    (sentence,) = read("\ufeff" + line(1, "a", 0), line(2, "b", 1), ending="\r\n")
    assert sentence.text == "a b"


def test_words_with_spaces(read):
    (sentence,) = read(line(1, "10 000", 0), line(2, "x", 1))
    assert words(sentence) == ["10 000", "x"]


def test_a_compressed_file(tmp_path):
    path = tmp_path / "bank.conllu.gz"
    path.write_bytes(gzip.compress(line(1, "a", 0).encode()))
    assert read_treebank(path)[0].text == "a"


def test_a_long_chain(read):
    lines = [line(number, "a", number - 1) for number in range(1, 400)]
    (sentence,) = read(*lines)
    np.testing.assert_array_equal(sentence.heads, np.arange(-1, 398))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "has no sentence"),
        (["# only a comment"], "has no sentence"),
        (["1\ta\tb"], r"bank.conllu:1: found 3 columns, expected the 10"),
        ([line(1, "a", 0).replace("\t", " ")], "found 1 columns"),
        ([line(1, "a", 0), line(3, "b", 1)], ":2: found the id 3, expected 2"),
        ([line("x", "a", 0)], "found the id 'x'"),
        ([line("²", "a", 0)], "found the id '²'"),
        ([line("1-x", "a", 0)], "found the id '1-x'"),
        ([line("8.1", "a", 0)], ":1: found a sentence without words"),
        ([line(1, "a", "_")], ":1: found the head '_'"),
        ([line(1, "a", 0), line(2, "a", 3)], ":2: found the head '3'.*from 1 to 2"),
        ([line(1, "a", "-1")], "found the head '-1'"),
        ([line(1, "a", "9" * 5000)], "found the head"),
        ([line(1, "a", 0), line(2, "b", 0)], "found 2 roots"),
        ([line(1, "a", 1)], "found 0 roots"),
        ([line(1, "a", 0), line(2, "b", 3), line(3, "c", 2)], ":2: found a cycle"),
        ([line(1, "a", 0), line(2, "b", 2)], ":2: found a cycle"),
    ],
)
def test_what_is_no_treebank(read, lines, message):
    with pytest.raises(DataError, match=message):
        read(*lines)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "latin.conllu").write_bytes(b"\xe9")
    (tmp_path / "cut.conllu.gz").write_bytes(gzip.compress(b"x" * 999)[:-20])
    for name in ("none.conllu", "", "\0"):
        with pytest.raises(DataError, match="cannot be read"):
            read_treebank(tmp_path / name)
    with pytest.raises(DataError, match="cannot be read"):
        read_treebank(tmp_path / "cut.conllu.gz")
    with pytest.raises(DataError, match="byte 0 is not UTF-8"):
        read_treebank(tmp_path / "latin.conllu")
