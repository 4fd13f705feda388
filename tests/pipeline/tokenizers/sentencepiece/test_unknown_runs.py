"""Runs of unknown characters are made short; the ids are the library's all the same."""

from functools import cache

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline.tokenizers.sentencepiece_models import OPTIONS, train
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_proto import read_rules
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_tokenizer import (
    SentencePieceTokenizer,
)
from transbeam.pipeline.tokenizers.sentencepiece.unknown_runs import (
    _changes,
    shorten_unknown_runs,
    unknown_ranges,
)


@cache
def edges_of(name):
    return unknown_ranges(SentencePieceModel(proto=train(**OPTIONS[name])))


@cache
def both(name):
    proto = train(**OPTIONS[name])
    return (
        SentencePieceTokenizer(proto),
        sentencepiece.SentencePieceProcessor(model_proto=proto),
    )


def is_in_run(name, character):
    return bool(np.searchsorted(edges_of(name), ord(character), side="right") % 2)


@pytest.mark.parametrize(
    ("character", "alone"),
    [
        ("a", False),  # a piece
        ("漢", False),  # a piece, too
        ("\u4e00", True),
        ("😀", True),
        ("ﬁ", False),  # becomes two known ones
        ("\u3300", True),  # becomes several unknown ones
        (" ", False),
        ("\u3000", False),  # becomes a space
        ("▁", False),
        ("\x00", True),
        ("\u200b", False),  # becomes a space, by SentencePiece's rules
        ("\x01", False),  # becomes nothing
    ],
)
def test_what_is_in_a_run(character, alone):
    assert is_in_run("unigram", character) == alone


def test_by_no_rules_each_character_is_itself():
    assert is_in_run("identity", "\u0391")
    assert not is_in_run("identity", "a")


def test_where_bytes_are_pieces_nothing_is_unknown():
    assert len(edges_of("byte fallback")) == 0


@pytest.mark.parametrize("name", ["unigram", "case folding"])
def test_no_rule_makes_a_known_character_of_a_run(name):
    edges, theirs = edges_of(name), both(name)[1]
    silent = {theirs.unk_id(), theirs.piece_to_id("▁")}
    chance = np.random.default_rng(0)
    inside = np.concatenate([np.arange(a, b) for a, b in edges.reshape(-1, 2)])
    inside = inside[(inside < 0xD800) | (inside > 0xDFFF)]
    for _ in range(50):
        text = "".join(map(chr, chance.choice(inside[inside < 0x3100], 200)))
        assert {*theirs.encode(text)} <= silent


def runs(name):
    """Texts with runs, of characters that rules join, and of known ones between."""
    unknown = "\x00AMSK[]<sp>\uff21\u4e00😀\u0378\u0301\u0323\u0391\u03b9ê"
    unknown += "\u1100\u1161\u11a8\uac00"
    run = st.builds(
        lambda some, number: (some * number)[:number],
        st.text(st.sampled_from(unknown), min_size=1, max_size=4),
        st.integers(1, 400),
    )
    known = st.sampled_from(
        ["the ", "e", " ", "  ", "other", "漢", "\u0301", "\x00", "▁"]
    )
    return st.lists(run | known, max_size=6).map("".join)


@pytest.mark.parametrize("name", [*OPTIONS])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_ids_are_those_of_the_whole_text(name, data):
    texts = data.draw(st.lists(runs(name), max_size=3))
    # As long as texts are that are looked at.
    texts = [*texts, "the other " * 3300]
    ours, theirs = both(name)
    found = ours.tokenize(tf.constant(texts)).to_list()
    assert found == theirs.encode(texts)


def test_the_middle_of_a_run_goes():
    edges = edges_of("unigram")
    ends = "😀" * 127 + "a" + "😀" * 129
    texts = ["a" + "\u4e00" * 12_000 + "b", "", "a" * 5000, ends]
    found = [
        text.decode()
        for text in shorten_unknown_runs(tf.constant(texts), edges).numpy()
    ]
    shorter = "😀" * 127 + "a" + "😀" * 128
    assert found == ["a" + "\u4e00" * 128 + "b", "", "a" * 5000, shorter]


def test_short_texts_are_left_alone():
    texts = tf.constant(["\u4e00" * 1000, "a"])
    np.testing.assert_array_equal(
        shorten_unknown_runs(texts, edges_of("unigram")), texts
    )


def test_the_rules_are_read_from_the_model():
    rules = read_rules(SentencePieceModel(proto=train()))
    changes = _changes(rules.trie, rules.texts)
    splits = zip(changes.before_splits, changes.before_splits[1:], strict=False)
    before = ["".join(map(chr, changes.before[a:b])) for a, b in splits]
    splits = zip(changes.after_splits, changes.after_splits[1:], strict=False)
    after = ["".join(map(chr, changes.after[a:b])) for a, b in splits]
    found = dict(zip(before, after, strict=True))
    assert found["ﬁ"] == "fi"
    assert found["e\u0301"] == "é"
    assert found["\u3300"] == "アパート"
    assert found["\x01"] == ""
    theirs = sentencepiece.SentencePieceNormalizer(
        rule_name="nmt_nfkc",
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=False,
    )
    for text in [*found][::999]:
        assert theirs.normalize(text) == found[text]
