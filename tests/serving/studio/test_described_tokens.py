"""Tokens of rows with their places in the texts."""

from collections import Counter
from itertools import pairwise

import pytest

from tests.serving.conftest import CORPUS, TINY
from transbeam.configs.schema.tokenizer import ByteBPEConfig
from transbeam.pipeline.tokenizers.base.interface import TokenOffsets
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    load_tokenizer,
    save_tokenizer,
)
from transbeam.pipeline.tokenizers.training.train_tokenizer import learn_model
from transbeam.serving.studio.described_tokens import TokenDescriber, align_tokens
from transbeam.serving.text_ops.mask_tokens import tokenize_with_masks


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    learned = learn_model(Counter(CORPUS.split() * 2), TINY.tokenizer)
    save_tokenizer(folder, learned)
    return load_tokenizer(folder)


def described(tokenizer, *texts):
    """Frames texts as `TextEncoder` does and describes the row."""
    special = tokenizer.special
    row = [special.begin]
    for text in texts:
        [tokens] = tokenize_with_masks(tokenizer, [text]).to_list()
        row += [*tokens, special.end]
    return TokenDescriber(tokenizer).describe(row, texts)


def test_pieces_words_and_offsets(tokenizer):
    text = "The  TENSOR, zq [MASK]!"
    tokens = described(tokenizer, text)
    shown = [
        (t.piece, None if t.text is None else text[t.start : t.end]) for t in tokens
    ]
    assert shown[0] == ("[CLS]", None)
    assert ("the", "The") in shown
    assert ("[MASK]", "[MASK]") in shown
    assert shown[-1] == ("[SEP]", None)
    assert [t.special for t in tokens if t.piece.startswith("[")] == [
        t.piece != "[UNK]" for t in tokens if t.piece.startswith("[")
    ]
    # Pieces of one word have its number.
    for before, token in pairwise(tokens):
        assert token.word - before.word == (not token.piece.startswith("##"))


def test_tokens_of_a_pair_are_found_in_their_own_text(tokenizer):
    texts = "a list", "a list of a tensor"
    found = [t for t in described(tokenizer, *texts) if t.text is not None]
    assert [t.text for t in found] == sorted(t.text for t in found)
    for token in found:
        assert texts[token.text][token.start : token.end] in (
            token.piece,
            token.piece.removeprefix("##"),
        )


def test_the_first_word_of_each_text_is_a_word_of_byte_level_bpe(tmp_path):
    config = ByteBPEConfig(vocabulary_size=300, specials="roberta")
    save_tokenizer(tmp_path, learn_model(Counter(CORPUS.split() * 2), config))
    tokens = described(load_tokenizer(tmp_path), "the shape", "tensor")
    words: dict[int, str] = {}
    for token in tokens:
        words[token.word] = words.get(token.word, "") + token.piece
    plain = [word.replace("##", "").strip() for word in words.values()]
    assert plain == ["<s>", "the", "shape", "</s>", "tensor", "</s>"]


def test_hostile_texts_have_offsets_inside_them(tokenizer):
    text = "<b>x</b> \u202eשלום👩\u200d👩\u200d👧 \x00 [MASK][MASK] \ud83d [SEP]"
    text = text.encode("utf-8", "replace").decode()
    for token in described(tokenizer, text):
        if token.text is not None:
            assert 0 <= token.start <= token.end <= len(text)


def test_a_token_that_is_not_in_the_text_has_no_place():
    text = TokenOffsets([5, 6, 7], [(0, 1), (1, 2), (2, 3)])
    found = align_tokens([5, 9, 6, 7, 7], [text], lambda token: token == 2)
    assert found == [(0, 0, 1), None, (0, 1, 2), (0, 2, 3), None]


def test_more_ends_than_texts():
    assert align_tokens([2, 2, 5], [], lambda token: token == 2) == [None] * 3
