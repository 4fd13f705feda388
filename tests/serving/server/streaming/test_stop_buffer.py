"""Whatever pieces a text comes in, its parts are the text, and none says too much."""

import codecs
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transbeam.serving.server.streaming.stop_buffer import StopBuffer

# Letters of the strings below, halves of characters, and the stand-in itself.
PARTS = [
    b"a",
    b"b",
    b"E",
    b"N",
    b"D",
    b"\xc3",
    b"\xa9",
    b"\xf0\x9f",
    b"\x98\x80",
    b"\xff",
]
BYTES = st.sampled_from([*PARTS, *map(str.encode, ("é", "漢", "😀", "\ufffd"))])
PIECES = st.lists(st.lists(BYTES, max_size=3).map(b"".join), max_size=12)
STOPS = st.lists(
    st.lists(BYTES, max_size=4).map(b"".join)
    | st.sampled_from([b"END", b"EN", b"aab", b"aabb", b"abab", "é😀".encode()]),
    max_size=3,
)


def parts_of(pieces, stops=()):
    """The parts, and the teller, of a text that comes in these pieces."""
    telling, parts, said = StopBuffer(stops), [], b""
    for number, piece in enumerate(pieces, start=1):
        said += piece
        parts.append(telling.feed(said, ended=number == len(pieces)))
        if telling.is_stopped:
            break
    return parts, telling


def before_stops(pieces, stops):
    """The text before what is first there of the strings, and whether one is."""
    said = b""
    for piece in pieces:
        said += piece
        places = [said.find(stop) for stop in stops if stop and stop in said]
        if places:
            return said[: min(places)], True
    return said, False


@given(pieces=PIECES, stops=STOPS)
@example(pieces=[b"aa", b"ab"], stops=[b"aab"])
@example(pieces=[b"a", b"a", b"a", b"b"], stops=[b"aab"])
@example(pieces=[b"E", b"N", b"D"], stops=[b"END", b"EN"])
@example(pieces=[b"E", b"N"], stops=[b"END"])
@example(pieces=["😀".encode()[:1], "😀".encode()[1:]], stops=[])
@example(pieces=["😀".encode()[:3]], stops=[])
@example(pieces=[b"\xc3", b"END"], stops=[b"END"])
@example(pieces=["\ufffd".encode(), b"a"], stops=[])
def test_the_parts_are_the_text_before_the_first_string(pieces, stops):
    parts, telling = parts_of(pieces, stops)
    expected, is_stopped = before_stops(pieces, stops)
    assert "".join(parts) == telling.text == expected.decode("utf-8", "replace")
    assert telling.is_stopped == is_stopped


@given(
    text=st.text(st.characters(codec="utf-8", exclude_characters="\ufffd")),
    data=st.data(),
)
def test_each_character_is_told_when_it_is_whole(text, data):
    whole = text.encode()
    places = st.lists(st.integers(0, len(whole)), max_size=8).map(sorted)
    telling = StopBuffer()
    for place in data.draw(places):
        telling.feed(whole[:place])
        assert telling.text == whole[:place].decode("utf-8", "ignore")


@given(pieces=PIECES, stops=STOPS)
def test_nothing_is_held_back_but_what_may_become_a_string(pieces, stops):
    telling, said = StopBuffer(stops), b""
    for piece in pieces:
        said += piece
        telling.feed(said)
        if telling.is_stopped:
            return
        kept = max(
            (
                size
                for size in range(len(said) + 1)
                if any(
                    stop[:size] == said[len(said) - size :] and size < len(stop)
                    for stop in stops
                    if stop
                )
            ),
            default=0,
        )
        free = said[: len(said) - kept]
        known = codecs.getincrementaldecoder("utf-8")("replace").decode(free)
        written = sum(free.endswith("\ufffd".encode() * n) for n in (1, 2, 3))
        assert telling.text == known[: len(known) - written]


@pytest.mark.parametrize(
    ("stops", "pieces", "parts", "is_stopped"),
    [
        ([], ["é".encode()[:1], "é".encode()[1:], b"!"], ["", "é", "!"], False),
        ([], ["漢".encode()[:2], b""], ["", "\ufffd"], False),
        ([], [b"a\xff", b"\xfe", b"b"], ["a\ufffd", "\ufffd", "b"], False),
        ([], [b"\xc3", b"\xc3", b"\xa9"], ["", "\ufffd", "é"], False),
        ([], [b"\x80\xf0\x9f", b"!"], ["\ufffd", "\ufffd!"], False),
        ([], ["\ufffd".encode() * 4, b"a"], ["\ufffd", "\ufffd\ufffd\ufffda"], False),
        ([b""], [b"a", b"b"], ["a", "b"], False),
        ([b"aab"], [b"a", b"a", b"a", b"b"], ["", "", "a", ""], True),
        ([b"aab"], [b"aa", b"ba"], ["", ""], True),
        ([b"END", b"EN"], [b"xE", b"ND"], ["x", ""], True),
        ([b"EN", b"END"], [b"xEND and on"], ["x"], True),
        ([b"END"], [b"xEN", b"d"], ["x", "ENd"], False),
        ([b"END"], [b"xEN"], ["xEN"], False),
        ([b"abcd", b"bc"], [b"ab", b"c", b"d"], ["", "a"], True),
        ([b"c", b"bc", b"x"], [b"abcd"], ["a"], True),
        (["é".encode()], [b"x\xc3", b"\xa9y"], ["x", ""], True),
        (["é".encode()], [b"x\xc3", b"\xaay"], ["x", "êy"], False),
        ([b"\n"], [b"\nmore"], [""], True),
    ],
)
def test_parts(stops, pieces, parts, is_stopped):
    found, telling = parts_of(pieces, stops)
    assert (found, telling.is_stopped) == (parts, is_stopped)


def test_stand_ins_that_become_a_character():
    telling = StopBuffer()
    growing = [b"a", "a\ufffd".encode(), "a\ufffd\ufffd".encode(), "a漢".encode()]
    assert [telling.feed(said) for said in growing] == ["a", "", "", "漢"]


def test_a_string_that_had_begun_with_stand_ins_is_forgotten():
    telling = StopBuffer(["\ufffd\ufffd\ufffd".encode()])
    growing = ["\ufffd".encode(), "\ufffd\ufffd".encode(), "漢!".encode()]
    assert [telling.feed(said) for said in growing] == ["", "", "漢!"]
    assert not telling.is_stopped


@pytest.mark.parametrize("stop", [b"a" * 400_000, b"a" * 399_999 + b"b"])
def test_a_long_string_costs_no_more_than_the_text(stop):
    telling = StopBuffer([stop])
    began = time.thread_time()
    for length in range(1, 1000):
        assert telling.feed(b"a" * length) == ""
    assert telling.feed(b"a" * 999 + b".", ended=True) == "a" * 999 + "."
    # The comparison of each of its beginnings at each token took a minute.
    assert time.thread_time() - began < 1
