"""The ids are those of the Rust library, eagerly and in tf.data."""

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline.tokenizers.hostile_text_tokenizers import (
    HOSTILE,
    HOSTILE_DECODED,
    wordpiece,
)
from tests.pipeline.tokenizers.rust_wordpiece import ALL_MODES, rust_ids
from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)

SMALL = [*SPECIAL_PIECES, "un", "##aff", "##able", "!", "[", "]", "mask", "m", "##ask"]


@pytest.mark.parametrize(("lowercase", "strip_accents"), ALL_MODES)
def test_hostile_texts_have_the_ids_of_the_rust_library(lowercase, strip_accents):
    tokenizer = wordpiece(lowercase, strip_accents)
    ids = tokenizer.tokenize(HOSTILE).to_list()
    expected = rust_ids(
        tokenizer.vocabulary,
        HOSTILE_DECODED,
        lowercase=lowercase,
        strip_accents=strip_accents,
    )
    assert ids == expected
    pieces = [i for row in ids for i in row]
    assert pieces.count(tokenizer.unknown_id) < len(pieces) / 100


@pytest.mark.parametrize(("lowercase", "strip_accents"), ALL_MODES)
def test_masks_have_the_ids_of_an_added_special_token(lowercase, strip_accents):
    tokenizer = wordpiece(lowercase, strip_accents)
    ids = tokenizer.tokenize_with_masks(HOSTILE).to_list()
    expected = rust_ids(
        tokenizer.vocabulary,
        HOSTILE_DECODED,
        lowercase=lowercase,
        strip_accents=strip_accents,
        added=["[MASK]"],
    )
    assert ids == expected
    assert sum(row.count(tokenizer.mask_id) for row in ids) > 10


def awkward_texts():
    characters = st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from("aAbIiß\u0130Σσς'-. \t\n\x00\x0b\x85\u200d\u2028漢字é\ufffd"),
        st.sampled_from("\u0301\u0300\u0323\u0345\u0334\u08d3\u1dfa\u20dd\U00011938"),
    )
    words = st.sampled_from(["[MASK]", "[CLS]", "##a", "the", "x" * 100, "Ünï"])
    return st.lists(characters | words, max_size=30).map("".join)


@settings(max_examples=100, deadline=None)
@given(
    texts=st.lists(awkward_texts() | st.binary(max_size=30), max_size=8),
    mode=st.sampled_from(ALL_MODES),
)
def test_any_text_has_the_ids_of_the_rust_library(texts, mode):
    encoded = [t if isinstance(t, bytes) else t.encode() for t in texts]
    decoded = [t.decode("utf-8", "replace") for t in encoded]
    lowercase, strip_accents = mode
    tokenizer = wordpiece(lowercase, strip_accents)
    options = {"lowercase": lowercase, "strip_accents": strip_accents}
    batch = tf.constant(encoded, tf.string, [len(encoded)])
    plain = rust_ids(tokenizer.vocabulary, decoded, **options)
    assert tokenizer.tokenize(batch).to_list() == plain
    masked = rust_ids(tokenizer.vocabulary, decoded, added=["[MASK]"], **options)
    assert tokenizer.tokenize_with_masks(batch).to_list() == masked


@settings(max_examples=50, deadline=None)
@given(texts=st.lists(awkward_texts(), min_size=1, max_size=5))
def test_detokenize_gives_the_normalised_words_back(texts):
    tokenizer = wordpiece(True, True)
    ids = tokenizer.tokenize(texts)
    restored = tokenizer.detokenize(ids).numpy()
    rows = zip(ids.to_list(), restored, tokenizer.words(texts).to_list(), strict=True)
    for row, text, words in rows:
        if tokenizer.unknown_id not in row:
            assert text == b" ".join(words)


def test_ids_by_hand():
    tokenizer = WordPieceTokenizer(SMALL)
    texts = ["Unaffable!", "", "unable able", "[MASK] m[MASK]"]
    plain = [[5, 6, 7, 8], [], [5, 7, 1], [9, 11, 10, 12, 9, 11, 10]]
    assert tokenizer.tokenize(texts).to_list() == plain
    masked = [[5, 6, 7, 8], [], [5, 7, 1], [4, 12, 4]]
    assert tokenizer.tokenize_with_masks(texts).to_list() == masked
    assert tokenizer.tokenize(texts).dtype == tf.int32


def test_detokenize_by_hand():
    tokenizer = WordPieceTokenizer(SMALL)
    ids = tf.ragged.constant([[2, 5, 6, 7, 8, 3, 0], [], [1, 4]], dtype=tf.int32)
    assert tokenizer.detokenize(ids).numpy().tolist() == [
        b"[CLS] unaffable ! [SEP] [PAD]",
        b"",
        b"[UNK] [MASK]",
    ]


@pytest.mark.parametrize("wrong", [len(SMALL), -1, 10**6])
def test_detokenize_refuses_an_id_outside_the_vocabulary(wrong):
    tokenizer = WordPieceTokenizer(SMALL)
    ids = tf.ragged.constant([[5, wrong]], dtype=tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in"):
        tokenizer.detokenize(ids)


def test_no_texts_give_no_rows():
    tokenizer = WordPieceTokenizer(SMALL)
    none = tf.zeros([0], tf.string)
    assert tokenizer.tokenize(none).to_list() == []
    assert tokenizer.tokenize_with_masks(none).to_list() == []
    assert tokenizer.words(none).to_list() == []
    assert tokenizer.detokenize(tokenizer.tokenize(none)).shape == (0,)


def test_special_ids_follow_the_vocabulary():
    tokenizer = WordPieceTokenizer(["a", *reversed(SPECIAL_PIECES), "b"])
    assert tokenizer.vocabulary_size == 7
    assert tokenizer.mask_id == 1
    assert tokenizer.sep_id == 2
    assert tokenizer.cls_id == 3
    assert tokenizer.unknown_id == 4
    assert tokenizer.pad_id == 5
    assert tokenizer.tokenize(["a z"]).to_list() == [[0, 4]]
    assert tokenizer.tokenize_with_masks(["b[MASK]"]).to_list() == [[6, 1]]


def test_accents_go_with_upper_case_unless_told():
    assert WordPieceTokenizer(SMALL).strip_accents
    assert not WordPieceTokenizer(SMALL, lowercase=False).strip_accents
    assert not WordPieceTokenizer(SMALL, strip_accents=False).strip_accents


def test_a_vocabulary_without_mask_is_refused():
    with pytest.raises(ArtifactError, match=r"\[MASK\] is missing"):
        WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])


def test_same_ids_inside_tf_data():
    tokenizer = wordpiece(True, True)
    dataset = tf.data.Dataset.from_tensor_slices(HOSTILE).batch(7)
    rows = [row for ids in dataset.map(tokenizer.tokenize) for row in ids.to_list()]
    assert rows == tokenizer.tokenize(HOSTILE).to_list()


def test_what_every_tokenizer_tells():
    pieces = [*SPECIAL_PIECES, "[unused0]", "<extra_id_0>", "un", "##able", "!"]
    tokenizer = WordPieceTokenizer([*pieces, "<extra_id_1>"])
    assert tokenizer.pieces == tokenizer.vocabulary
    special = tokenizer.special
    assert (special.pad, special.unknown, special.begin) == (0, 1, 2)
    assert (special.end, special.mask, special.sentinels) == (3, 4, (6, 10))
    assert tokenizer.ordinary_ids.tolist() == [7, 8, 9]
    assert tokenizer.starts_word.tolist() == [True] * 8 + [False] + [True] * 2
    # Reserved pieces and sentinels written in a text are ordinary text.
    ids = tokenizer.tokenize(["[unused0] <extra_id_0>"]).to_list()[0]
    assert set(ids) == {1}
