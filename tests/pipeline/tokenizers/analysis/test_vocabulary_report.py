"""The numbers of the report, by hand and against plain Python."""

import json
import re

import numpy as np
import pytest

from tests.data.hostile_strings import HOSTILE_BYTES, HOSTILE_TEXTS
from tests.pipeline.tokenizers.sentencepiece_models import train
from transbeam.pipeline.tokenizers.analysis.vocabulary_report import report_vocabulary
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_tokenizer import ByteBPETokenizer
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_tokenizer import (
    SentencePieceTokenizer,
)
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)

WORDPIECE = WordPieceTokenizer([*SPECIAL_PIECES, "[unused0]", "a", "##b", "b", "ab"])
ENDING = "<|endoftext|>"
TOKENIZERS = {
    "wordpiece": WORDPIECE,
    "byte_bpe": ByteBPETokenizer([*ALPHABET, "ab", ENDING], [("a", "b")]),
    "sentencepiece": SentencePieceTokenizer(train(), num_sentinels=2),
}


def blocks(*texts):
    array = np.empty(len(texts), object)
    array[:] = [t.encode() if isinstance(t, str) else t for t in texts]
    return array


def test_numbers_by_hand():
    texts = [blocks("ab ac", "", " éé "), blocks("b\tb")]
    report = report_vocabulary(WORDPIECE, texts)
    assert report.texts == 4
    assert report.bytes == 5 + 0 + 6 + 3
    assert report.words == 5
    assert report.characters == 8
    # ab | [UNK] || [UNK] || b b
    assert (report.tokens, report.unknown_tokens) == (5, 2)
    assert report.uncovered_characters == 3
    assert report.uncovered_examples == {"é": 2, "c": 1}
    assert (report.pieces, report.unused_pieces) == (4, 2)
    assert report.longest_pieces == ("ab", "b")
    values = report.as_json()
    assert values["character_coverage"] == 5 / 8
    assert values["unknown_fraction"] == 2 / 5
    assert values["tokens_per_word"] == 1.0
    assert values["bytes_per_token"] == 14 / 5
    lines = report.describe().splitlines()
    assert "tokens per word          1.000" in lines
    assert "unknown tokens           0.40000 of all, 2" in lines
    assert "most frequent without    é 2  c 1" in lines
    assert "pieces                   4, of which 2 did not occur" in lines


@pytest.mark.parametrize("name", TOKENIZERS)
def test_numbers_against_plain_python(name):
    tokenizer = TOKENIZERS[name]
    raw = [*(text.encode() for text in HOSTILE_TEXTS), *HOSTILE_BYTES]
    report = report_vocabulary(tokenizer, [blocks(*raw[:50]), blocks(*raw[50:])])
    texts = [text.decode("utf-8", "replace") for text in raw]
    ids = [i for text in texts for i in tokenizer.tokenize([text]).to_list()[0]]
    assert report.texts == len(texts)
    assert report.bytes == sum(map(len, raw))
    assert report.words == sum(len(text.split()) for text in texts)
    assert report.characters == sum(len("".join(text.split())) for text in texts)
    assert report.tokens == len(ids)
    assert report.unknown_tokens == ids.count(tokenizer.special.unknown)
    ordinary = set(tokenizer.ordinary_ids.tolist())
    assert report.pieces == len(ordinary)
    assert report.unused_pieces == len(ordinary - set(ids))
    json.dumps(report.as_json(), allow_nan=False)


def test_bytes_cover_everything():
    report = report_vocabulary(TOKENIZERS["byte_bpe"], [blocks("漢字 \x00 é", "ab")])
    assert report.as_json()["character_coverage"] == 1.0
    assert report.unknown_tokens == 0
    assert "none" in report.describe()


def test_nothing_at_all():
    for texts in ([], [blocks("")], [blocks(" \n")]):
        report = report_vocabulary(WORDPIECE, texts)
        assert report.as_json()["tokens_per_word"] is None
        assert re.search(r"tokens per word +-\n", report.describe())
