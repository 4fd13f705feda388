"""Offsets lead from each token to the characters of the text as it was given."""

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.pipeline.tokenizers.hostile_text_tokenizers import (
    byte_bpe,
    learned_byte_bpe,
    wordpiece,
    wordpiece_vocabulary,
)
from tests.pipeline.tokenizers.rust_byte_bpe import rust_byte_bpe
from tests.pipeline.tokenizers.rust_wordpiece import ALL_MODES
from tests.pipeline.tokenizers.sentencepiece_models import OPTIONS, train
from transbeam.pipeline.tokenizers.base.interface import in_characters
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_tokenizer import (
    SentencePieceTokenizer,
)

TEXTS = [
    *HOSTILE_TEXTS,
    "two\nlines and  a\tgap ",
    " Ünïcödé\u00a0spaces",
    "Ångström İstanbul ﬁne ΣΑΣ",
    "日本語 text 😀👩‍👩‍👧 한국어",
    "e\u0301te\u0301 o\u0308",
]


@pytest.mark.parametrize(("lowercase", "strip_accents"), ALL_MODES)
def test_those_of_wordpiece_are_rusts(lowercase: bool, strip_accents: bool) -> None:
    vocabulary = wordpiece_vocabulary()
    ids = {piece: i for i, piece in enumerate(vocabulary)}
    reference = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    reference.normalizer = normalizers.BertNormalizer(
        lowercase=lowercase, strip_accents=strip_accents
    )
    reference.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ours = wordpiece(lowercase, strip_accents)
    for text, found in zip(TEXTS, ours.tokenize_with_offsets(TEXTS), strict=True):
        expected = reference.encode(text, add_special_tokens=False)
        assert found.ids == expected.ids, text
        assert found.offsets == expected.offsets, text


@pytest.mark.parametrize("add_prefix_space", [False, True])
def test_those_of_byte_bpe_are_rusts(add_prefix_space: bool) -> None:
    vocabulary, merges = learned_byte_bpe()
    reference = rust_byte_bpe(vocabulary, merges, add_prefix_space=add_prefix_space)
    ours = byte_bpe(add_prefix_space)
    for text, found in zip(TEXTS, ours.tokenize_with_offsets(TEXTS), strict=True):
        expected = reference.encode(text, add_special_tokens=False)
        assert found.ids == expected.ids, text
        if add_prefix_space and expected.tokens[:1] == ["Ġ"] and text[0] != " ":
            # Rust gives the space that it puts before the text the first character.
            assert found.offsets[0] == (0, 0)
            assert found.offsets[1:] == expected.offsets[1:], text
        else:
            assert found.offsets == expected.offsets, text


@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_tokens_of_byte_bpe_put_together_are_the_text(text: str) -> None:
    (found,) = byte_bpe().tokenize_with_offsets([text])
    covered = sorted({place for span in found.offsets for place in range(*span)})
    assert covered == list(range(len(text)))
    assert found.offsets == sorted(found.offsets)


@pytest.mark.parametrize("name", OPTIONS)
def test_those_of_sentencepiece_are_the_librarys(name: str) -> None:
    proto = train(**OPTIONS[name])
    ours = SentencePieceTokenizer(proto)
    library = sentencepiece.SentencePieceProcessor(model_proto=proto)
    texts = ["the other", *TEXTS]
    for text, found in zip(texts, ours.tokenize_with_offsets(texts), strict=True):
        expected = library.encode(text, return_type="offset_mapping")
        assert found.ids == ours.tokenize([text]).to_list()[0]
        if found.ids != expected["ids"]:
            continue  # a tie, which the versions of the library decide otherwise
        spans = zip(expected["pieces"], expected["offsets"], strict=True)
        # The library gives a character of several tokens to the last one alone.
        assert found.offsets == [
            (start, start + 1 if start == end and piece != "▁" else end)
            for piece, (start, end) in spans
        ]


def test_all_tokens_of_a_character_have_all_of_it() -> None:
    ours = SentencePieceTokenizer(train(**OPTIONS["byte fallback"]))
    (found,) = ours.tokenize_with_offsets(["a 日ﬁ"])
    pieces = [ours.pieces[token] for token in found.ids]
    told = list(zip(pieces, found.offsets, strict=True))
    assert told[-5:] == [
        ("<0xE6>", (2, 3)),
        ("<0x97>", (2, 3)),
        ("<0xA5>", (2, 3)),
        ("f", (3, 4)),
        ("i", (3, 4)),
    ]


def test_texts_that_are_no_utf_8_keep_their_places() -> None:
    text = "a\ud800b é"
    for ours in (
        wordpiece(True, True),
        byte_bpe(),
        SentencePieceTokenizer(train()),
    ):
        (found,) = ours.tokenize_with_offsets([text])
        assert found.offsets[-1][1] == len(text)


def test_no_texts_and_no_text() -> None:
    for ours in (
        wordpiece(True, True),
        byte_bpe(),
        SentencePieceTokenizer(train()),
    ):
        assert ours.tokenize_with_offsets([]) == []
        assert ours.tokenize_with_offsets([""]) == [([], [])]


def test_bytes_to_characters() -> None:
    starts, ends = np.array([0, 0, 1, 4, 5]), np.array([0, 1, 4, 5, 5])
    assert in_characters("a日b", starts, ends) == [
        (0, 0),
        (0, 1),
        (1, 2),
        (2, 3),
        (3, 3),
    ]
