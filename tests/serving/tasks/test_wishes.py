"""Limits of the wishes for a text, checked before anything is written."""

import numpy as np
import pytest
import tensorflow as tf

from serving.tasks.searching import MOST_BEAMS, SEARCH_SPECS, Search
from serving.tasks.wishes import SPECS, Wishes

ASKED = {
    "max_new_tokens": 8,
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "seed": 0,
    "num_beams": 3,
    "length_penalty": 1.0,
}
LIMITS = [
    (Wishes, "temperature", 0.0, 1e4),
    (Wishes, "top_p", 0.0, 1.0),
    (Search, "num_beams", 1, MOST_BEAMS),
    (Search, "length_penalty", -10.0, 10.0),
]


def made(of, **wishes):
    """The numbers of one text, checked."""
    columns = {**ASKED, **wishes}
    specs = SPECS if of is Wishes else SEARCH_SPECS
    given = tuple(tf.constant([columns[spec.name]], spec.dtype) for spec in specs)
    found = of.of(given, 1)
    return found.requests if of is Wishes else found.searches


@pytest.mark.parametrize(("of", "name", "least", "most"), LIMITS)
def test_up_to_its_limits_and_not_beyond(of, name, least, most):
    dtype = np.int32 if isinstance(least, int) else np.float32
    for limit, beyond in ((least, -1), (most, 1)):
        value = dtype(limit)
        assert getattr(made(of, **{name: value}), name).numpy().tolist() == [value]
        with pytest.raises(tf.errors.InvalidArgumentError, match=name):
            made(of, **{name: dtype(value + beyond)})


@pytest.mark.parametrize("of", [Wishes, Search])
def test_any_number_of_tokens_none_or_no_word_about_it(of):
    for number in (-1, 0, 2**31 - 1):
        found = made(of, max_new_tokens=number)
        assert found.max_new_tokens.numpy().tolist() == [number]
    said = "max_new_tokens: found -2; expected numbers from -1 to 2147483647"
    with pytest.raises(tf.errors.InvalidArgumentError, match=said):
        made(of, max_new_tokens=-2)


def test_any_number_of_the_likeliest_but_none_below_0():
    assert made(Wishes, top_k=2**31 - 1).top_k.numpy().tolist() == [2**31 - 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="top_k"):
        made(Wishes, top_k=-1)


@pytest.mark.parametrize(
    ("of", "name"),
    [(Wishes, "temperature"), (Wishes, "top_p"), (Search, "length_penalty")],
)
def test_what_is_no_number(of, name):
    with pytest.raises(tf.errors.InvalidArgumentError, match=name):
        made(of, **{name: float("nan")})
