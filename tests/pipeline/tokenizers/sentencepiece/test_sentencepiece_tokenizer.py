"""The ids are those of the SentencePiece library, in tf.data too."""

import math
from functools import cache

import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.hostile_strings import HOSTILE_BYTES, HOSTILE_TEXTS
from tests.pipeline.tokenizers.sentencepiece_models import OPTIONS, SENTENCES, train
from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_tokenizer import (
    SentencePieceTokenizer,
    WhiteSpaceSplitter,
)

HOSTILE = [text.encode() for text in HOSTILE_TEXTS] + HOSTILE_BYTES
T5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
ALBERT = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}


@cache
def both(name):
    proto = train(**OPTIONS[name])
    theirs = sentencepiece.SentencePieceProcessor(model_proto=proto)
    return SentencePieceTokenizer(proto), theirs


def assert_same(ours, theirs, texts):
    """The ids of the library, or ids that are exactly as likely (see the module)."""
    ids = ours.tokenize(tf.constant(texts, tf.string, [len(texts)])).to_list()
    expected = theirs.encode([text.decode("utf-8", "replace") for text in texts])
    for row, other in zip(ids, expected, strict=True):
        if row != other:
            score, other_score = (
                math.fsum(map(theirs.get_score, r)) for r in (row, other)
            )
            assert (len(row), score) == (len(other), other_score)
            assert theirs.decode(row) == theirs.decode(other)
    return sum(row != other for row, other in zip(ids, expected, strict=True))


@pytest.mark.parametrize("name", OPTIONS)
def test_hostile_texts_have_the_ids_of_the_library(name):
    ours, theirs = both(name)
    texts = [*HOSTILE, *(text.encode() for text in SENTENCES)]
    assert assert_same(ours, theirs, texts) < len(texts) / 10


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(
        st.lists(
            st.characters(exclude_categories=["Cs"])
            | st.sampled_from(
                ["the ", "other", "  ", "\n", "\x00", "▁", "e\u0301", "ﬁ"]
            )
        ).map("".join)
        | st.binary(max_size=20),
        max_size=6,
    ),
    name=st.sampled_from(list(OPTIONS)),
)
def test_any_text_has_the_ids_of_the_library(texts, name):
    ours, theirs = both(name)
    encoded = [t if isinstance(t, bytes) else t.encode() for t in texts]
    assert_same(ours, theirs, encoded)
    ids = ours.tokenize(tf.constant(encoded, tf.string, [len(encoded)]))
    restored = [text.decode() for text in ours.detokenize(ids).numpy()]
    assert restored == [theirs.decode(row) for row in ids.to_list()]


@pytest.mark.parametrize("name", OPTIONS)
def test_whole_pieces_are_matched_and_the_text_between_is_the_library_s(name):
    proto = train(**OPTIONS[name])
    theirs = sentencepiece.SentencePieceProcessor(model_proto=proto)
    markers = {"<s>": theirs.bos_id(), "</s>": theirs.eos_id()}
    ours = SentencePieceTokenizer(proto, whole_pieces=tuple(markers))
    parts = ["<s>", "the banana ", "</s>", "<s>", "</s>", " other\tthe", "</s>", "<s"]
    text = "".join(parts)
    expected = [[markers[p]] if p in markers else theirs.encode(p) for p in parts]
    flat = [i for row in expected for i in row]
    assert ours.tokenize([text, "", "<s>"]).to_list() == [flat, [], [markers["<s>"]]]
    found, empty = ours.tokenize_with_offsets([text, ""])
    assert found.ids == flat
    assert not empty.ids
    spans = [text[slice(*span)] for span in found.offsets]
    assert [
        span for i, span in zip(flat, spans, strict=True) if i in markers.values()
    ] == [part for part in parts if part in markers]
    plain = SentencePieceTokenizer(proto)
    assert plain.tokenize([text]).to_list() == theirs.encode([text])


@pytest.mark.parametrize("name", OPTIONS)
def test_any_ordinary_ids_become_the_text_of_the_library(name):
    ours, theirs = both(name)
    ids = ours.ordinary_ids.tolist()
    space, unknown = ours.pieces.index("▁"), ours.special.unknown
    rows = [ids, ids[::-1], ids[::3], ids[1::7], [ids[0]], []]
    rows += [[space] * n + [i] for n in (1, 2, 3) for i in (unknown, *ids[::5])]
    rows += [[unknown], [unknown, space, ids[0]], [space], [space] * 3]
    texts = ours.detokenize(tf.ragged.constant(rows, tf.int32)).numpy()
    assert [text.decode() for text in texts] == [theirs.decode(row) for row in rows]


def test_spaces_at_the_start_of_a_text_come_back():
    ours, _ = both("all white space")
    texts = ["the other", "  the", "    ", "", " e  e ", "   漢"]
    restored = ours.detokenize(ours.tokenize(texts)).numpy()
    assert [text.decode() for text in restored] == texts


def test_special_ids_and_sentinels_of_t5():
    proto = train(**T5)
    tokenizer = SentencePieceTokenizer(proto, num_sentinels=3)
    size = sentencepiece.SentencePieceProcessor(model_proto=proto).get_piece_size()
    assert tokenizer.vocabulary_size == size + 3
    assert tokenizer.pieces[size:] == ("<extra_id_2>", "<extra_id_1>", "<extra_id_0>")
    special = tokenizer.special
    assert (special.pad, special.end, special.unknown) == (0, 1, 2)
    assert special.begin is special.mask is None
    assert special.sentinels == (size + 2, size + 1, size)
    assert tokenizer.ordinary_ids.tolist() == list(range(3, size))
    the = tokenizer.pieces.index("▁the")
    assert tokenizer.starts_word[the]
    assert not tokenizer.starts_word[tokenizer.pieces.index("e")]


def test_special_ids_of_albert_are_found_by_their_names():
    proto = train(control_symbols="[CLS],[SEP],[MASK]", **ALBERT)
    special = SentencePieceTokenizer(proto).special
    assert (special.pad, special.unknown, special.begin) == (0, 1, 2)
    assert (special.end, special.mask) == (3, 4)


def test_without_padding_the_end_of_text_pads():
    special = SentencePieceTokenizer(train()).special
    assert (special.unknown, special.begin, special.end, special.pad) == (0, 1, 2, 2)


def test_special_pieces_stand_as_themselves_in_text():
    tokenizer = SentencePieceTokenizer(train(**T5), num_sentinels=2)
    first, second = tokenizer.special.sentinels
    the, other = (tokenizer.pieces.index(piece) for piece in ("▁the", "▁other"))
    rows = [
        [first, the, other, second, the, 1, 0],
        [],
        [the, first],
        [first],
        [second, second],
        [2, the],
    ]
    texts = tokenizer.detokenize(tf.ragged.constant(rows, tf.int32)).numpy()
    assert [text.decode() for text in texts] == [
        "<extra_id_0> the other <extra_id_1> the </s> <pad>",
        "",
        "the <extra_id_0>",
        "<extra_id_0>",
        "<extra_id_1> <extra_id_1>",
        " ⁇  the",
    ]


def test_a_special_piece_written_in_a_text_is_ordinary():
    tokenizer = SentencePieceTokenizer(train(**T5), num_sentinels=2)
    ids = tokenizer.tokenize(["<extra_id_0> </s> <pad>"]).to_list()[0]
    assert not {0, 1, *tokenizer.special.sentinels} & set(ids)


@pytest.mark.parametrize("wrong", [-1, 10**6])
def test_detokenize_refuses_an_id_outside_the_vocabulary(wrong):
    tokenizer, _ = both("unigram")
    with pytest.raises(tf.errors.InvalidArgumentError):
        tokenizer.detokenize(tf.ragged.constant([[5, wrong]], tf.int32))


def test_no_texts_give_no_rows():
    tokenizer, _ = both("unigram")
    none = tf.zeros([0], tf.string)
    assert tokenizer.tokenize(none).to_list() == []
    assert tokenizer.words(none).to_list() == []
    assert tokenizer.detokenize(tokenizer.tokenize(none)).shape == (0,)


def test_a_word_alone_has_the_pieces_it_has_in_a_sentence():
    tokenizer, _ = both("unigram")
    words = SENTENCES[1].split()
    alone = tokenizer.tokenize([tokenizer.word_prefix + word for word in words])
    assert (
        alone.values.numpy().tolist()
        == tokenizer.tokenize([SENTENCES[1]]).values.numpy().tolist()
    )


def test_words_are_what_stands_between_white_space():
    texts = ["two  words\n", b"a\xffb\tc", ""]
    expected = [[b"two", b"words"], ["a\ufffdb".encode(), b"c"], []]
    assert both("unigram")[0].words(texts).to_list() == expected
    assert WhiteSpaceSplitter().words(tf.constant(texts)).to_list() == expected


def test_same_ids_inside_tf_data():
    tokenizer, _ = both("byte fallback")
    dataset = tf.data.Dataset.from_tensor_slices(HOSTILE).batch(7)
    rows = [row for ids in dataset.map(tokenizer.tokenize) for row in ids.to_list()]
    assert rows == tokenizer.tokenize(HOSTILE).to_list()


@pytest.mark.parametrize("damage", [lambda m: m[:-1], lambda m: m[1:], lambda m: b""])
def test_a_damaged_model_is_refused(damage):
    with pytest.raises(ArtifactError, match="model: "):
        SentencePieceTokenizer(damage(train()))


def test_a_model_cut_anywhere_is_refused():
    from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
        SentencePieceModel,
    )

    proto = train()
    for end in range(0, len(proto), 97):
        with pytest.raises(ArtifactError):
            SentencePieceModel(proto=proto[:end]).check("cut.model")
