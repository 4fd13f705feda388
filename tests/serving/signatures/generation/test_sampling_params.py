"""Limits of the wishes for a text, checked before anything is written."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from transbeam.serving.signatures.generation.beam_params import (
    MOST_BEAMS,
    SEARCH_SPECS,
    BeamParams,
)
from transbeam.serving.signatures.generation.logit_bias import MOST as MOST_BIASES
from transbeam.serving.signatures.generation.logit_bias import parse_biases
from transbeam.serving.signatures.generation.sampling_params import (
    SPECS,
    SamplingParams,
)

VOCABULARY_SIZE = 9
ASKED = {
    "max_new_tokens": 8,
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "seed": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "logit_bias": "",
    "num_beams": 3,
    "length_penalty": 1.0,
}
LIMITS = [
    (SamplingParams, "temperature", 0.0, 1e4),
    (SamplingParams, "top_p", 0.0, 1.0),
    (SamplingParams, "min_p", 0.0, 1.0),
    (BeamParams, "num_beams", 1, MOST_BEAMS),
    (BeamParams, "length_penalty", -10.0, 10.0),
]


def made(of, **wishes):
    """The numbers of one text, checked."""
    columns = {**ASKED, **wishes}
    specs = SPECS if of is SamplingParams else SEARCH_SPECS
    given = tuple(tf.constant([columns[spec.name]], spec.dtype) for spec in specs)
    if of is BeamParams:
        return BeamParams.from_inputs(given, 1).searches
    given = (*given, tf.constant([""]))
    found = SamplingParams.from_inputs(given, 1, VOCABULARY_SIZE).requests
    return SimpleNamespace(**found._asdict(), **found.adjustments._asdict())


@pytest.mark.parametrize(("of", "name", "least", "most"), LIMITS)
def test_up_to_its_limits_and_not_beyond(of, name, least, most):
    dtype = np.int32 if isinstance(least, int) else np.float32
    for limit, beyond in ((least, -1), (most, 1)):
        value = dtype(limit)
        assert getattr(made(of, **{name: value}), name).numpy().tolist() == [value]
        with pytest.raises(tf.errors.InvalidArgumentError, match=name):
            made(of, **{name: dtype(value + beyond)})


@pytest.mark.parametrize("of", [SamplingParams, BeamParams])
def test_any_number_of_tokens_none_or_no_word_about_it(of):
    for number in (-1, 0, 2**31 - 1):
        found = made(of, max_new_tokens=number)
        assert found.max_new_tokens.numpy().tolist() == [number]
    said = "max_new_tokens: found -2; expected numbers from -1 to 2147483647"
    with pytest.raises(tf.errors.InvalidArgumentError, match=said):
        made(of, max_new_tokens=-2)


def test_any_number_of_the_likeliest_but_none_below_0():
    assert made(SamplingParams, top_k=2**31 - 1).top_k.numpy().tolist() == [2**31 - 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="top_k"):
        made(SamplingParams, top_k=-1)


def test_penalties_up_to_their_limits_and_not_beyond():
    for value in (0.01, 100.0):
        found = made(SamplingParams, repetition_penalty=value).repetition_penalty
        assert found.numpy().tolist() == [np.float32(value)]
    assert made(SamplingParams, no_repeat_ngram_size=2**31 - 1)
    for wrong in (0.0, -1.0, 100.1, float("nan")):
        with pytest.raises(tf.errors.InvalidArgumentError, match="repetition_penalty"):
            made(SamplingParams, repetition_penalty=wrong)
    with pytest.raises(tf.errors.InvalidArgumentError, match="no_repeat_ngram_size"):
        made(SamplingParams, no_repeat_ngram_size=-1)


def biases_of(*texts):
    """Pairs of a token and a number, of each text."""
    columns = parse_biases(tf.constant(texts, tf.string), VOCABULARY_SIZE)
    ids, biases = (column.numpy() for column in columns)
    assert ids.shape == biases.shape == (len(texts), MOST_BIASES)
    return [
        [(int(i), float(b)) for i, b in zip(*row, strict=True) if b]
        for row in zip(ids, biases, strict=True)
    ]


def test_biases_of_each_text():
    assert biases_of("3:-100,1:2.5", "", " 8 : +1e1 ,, 0:.5", "1:1,1:2") == [
        [(3, -100.0), (1, 2.5)],
        [],
        [(8, 10.0), (0, 0.5)],
        [(1, 1.0), (1, 2.0)],
    ]
    assert biases_of() == []
    many = ",".join(["2:1"] * MOST_BIASES)
    assert len(biases_of("", many)[1]) == MOST_BIASES


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3", "logit_bias: found 3; expected TOKEN_ID:NUMBER"),
        ("3:1:2", "found 3:1:2; expected TOKEN_ID:NUMBER"),
        ("a:1", "found a:1; expected TOKEN_ID:NUMBER"),
        ("-1:1", "found -1:1; expected TOKEN_ID:NUMBER"),
        ("1:nan", "found 1:nan; expected TOKEN_ID:NUMBER"),
        ('{"1": 2}', "expected TOKEN_ID:NUMBER"),
        ("1:1,9:1", "found 9:1; there are 9 tokens"),
        ("99999999999:1", "expected TOKEN_ID:NUMBER"),
        ("1:100.1", "found 1:100.1; expected numbers up to 100"),
        (",".join(["1:1"] * (MOST_BIASES + 1)), "found 301; 300 at most"),
    ],
)
def test_biases_that_cannot_be_meant(text, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        biases_of("", text)


@pytest.mark.parametrize(
    ("of", "name"),
    [
        (SamplingParams, "temperature"),
        (SamplingParams, "top_p"),
        (SamplingParams, "min_p"),
        (BeamParams, "length_penalty"),
    ],
)
def test_what_is_no_number(of, name):
    with pytest.raises(tf.errors.InvalidArgumentError, match=name):
        made(of, **{name: float("nan")})
