"""The run of a text that is closest to an answer in other words."""

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.pipeline.objectives.base.closest_run import closest_run


@pytest.mark.parametrize(
    ("text", "wording", "expected"),
    [
        ("We show that it works.", "it works", "it works."),
        ("A b c. A b c d.", "a b c d", "A b c d."),
        ("the cat, the dog", "THE DOG!", "the dog"),
        # Of equal runs the first; a longer one with the same F1 is none.
        ("mill and mill", "mill", "mill"),
        # A word counts as often as both sides have it.
        ("x x y", "x y", "x y"),
        # "1 2" shares two of its words, and no more of five.
        ("1 2 . . 3", "1 2 3 4 5", "1 2 . . 3"),
        ("... d b ...", "b d", "d b"),
        ("Straße Ärger", "ÄRGER", "Ärger"),
        ("state-of-the-art models", "the art", "state-of-the-art"),
        # A word of so many names is farther than what there is.
        ("b c a-a-a-a-a-a-a-a-a-b-c", "b c", "b c"),
    ],
)
def test_by_hand(text: str, wording: str, expected: str) -> None:
    start, end = closest_run(text, wording) or (0, 0)
    assert text[start:end] == expected


@pytest.mark.parametrize(
    ("text", "wording"), [("a b", "c"), ("", "a"), ("a", ""), ("... !", "!")]
)
def test_nothing_shared(text: str, wording: str) -> None:
    assert closest_run(text, wording) is None


WORDS = st.lists(st.sampled_from("abcd"), max_size=9)


@given(WORDS, WORDS)
def test_no_run_of_single_words_is_closer(words: list[str], wanted: list[str]) -> None:
    def f1(run: list[str]) -> float:
        shared = (Counter(run) & Counter(wanted)).total()
        return 2 * shared / (len(run) + len(wanted))

    places = range(len(words) + 1)
    runs = [words[a:b] for a in places for b in places if a < b]
    best = max(map(f1, runs), default=0.0)
    text = " ".join(words)
    found = closest_run(text, " ".join(wanted))
    if found is None:
        assert best == 0.0
    else:
        assert f1(text[slice(*found)].split()) == best


@given(st.lists(st.sampled_from(["a", "b", "a-b", "b-b-c", "..."]), max_size=9), WORDS)
def test_no_run_of_any_words_is_closer(words: list[str], wanted: list[str]) -> None:
    def f1(run: str) -> float:
        names = re.findall(r"\w+", run)
        shared = (Counter(names) & Counter(wanted)).total()
        return 2 * shared / (len(names) + len(wanted)) if shared else 0.0

    places = range(len(words) + 1)
    runs = [" ".join(words[a:b]) for a in places for b in places if a < b]
    text = " ".join(words)
    found = closest_run(text, " ".join(wanted))
    closest = "" if found is None else text[slice(*found)]
    assert f1(closest) == max(map(f1, runs), default=0.0)
