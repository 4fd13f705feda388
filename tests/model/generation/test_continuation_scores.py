"""Log-likelihoods with a shared context equal those of each text read whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from tests.model.generation.test_keras_decode_functions import (
    VOCABULARY_SIZE,
    options,
)
from transbeam.configs.schema.model import DecoderConfig
from transbeam.model.decoder import build_decoder
from transbeam.model.generation.continuation_scores import continuation_scores
from transbeam.model.generation.keras_decode_functions import decoder_steps
from transbeam.model.generation.ragged import left_pad

CONTEXTS = [[1, 2, 3, 4, 5], [6, 7], [8]]
CONTINUATIONS = [[[9], [10, 11, 12]], [[13, 14]], [[15, 16], [17], [15, 18]]]


def scores(model, contexts, continuations) -> list[list[float]]:
    """Sums of the tokens' log-probabilities of each continuation."""
    ids, mask = left_pad(contexts)
    rows = np.repeat(np.arange(len(contexts)), list(map(len, continuations)))
    texts = [text for of in continuations for text in of]
    width = max(map(len, texts))
    tokens, real = np.zeros((2, len(texts), width), "int32")
    for row, text in enumerate(texts):
        tokens[row, : len(text)], real[row, : len(text)] = text, 1
    each = continuation_scores(decoder_steps(model), ids, mask, rows, tokens, real)
    sums = iter(ops.convert_to_numpy(each).sum(axis=1).tolist())
    return [[next(sums) for _ in of] for of in continuations]


def whole(model, context: list[int], text: list[int]) -> float:
    """The same for one text, from the logits of the whole text."""
    ids = np.array([context + text], "int32")
    inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    logits = ops.convert_to_numpy(model(inputs)["logits"])[0].astype(np.float64)
    each = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    places = range(len(context) - 1, ids.shape[1] - 1)
    return float(sum(each[place, ids[0, place + 1]] for place in places))


@pytest.mark.parametrize(
    ("position", "attention"),
    [
        ("learned", "full"),
        ("rope", "window_grouped"),
        ("relative_bias", "full"),
        ("alibi", "grouped"),
        ("none", "kernel"),
    ],
)
def test_a_shared_context_equals_whole_texts(randomise, position, attention):
    config = DecoderConfig(**options(position, attention))
    model = randomise(build_decoder(config, VOCABULARY_SIZE))
    found = scores(model, CONTEXTS, CONTINUATIONS)
    for context, texts, of in zip(CONTEXTS, CONTINUATIONS, found, strict=True):
        expected = [whole(model, context, text) for text in texts]
        assert of == pytest.approx(expected, abs=2e-5)


@pytest.fixture(scope="module")
def small():
    config = DecoderConfig(**options(num_layers=1, max_sequence_length=24))
    model = build_decoder(config, VOCABULARY_SIZE)
    rng = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign(weight + 0.3 * rng.standard_normal(weight.shape))
    return model


_TOKENS = st.integers(1, VOCABULARY_SIZE - 1)


@settings(max_examples=6, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(_TOKENS, min_size=1, max_size=9),
            st.lists(st.lists(_TOKENS, min_size=1, max_size=5), min_size=1, max_size=3),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_neither_padding_nor_other_rows_change_a_score(small, requests):
    contexts, texts = zip(*requests, strict=True)
    together = scores(small, contexts, texts)
    for context, of, found in zip(contexts, texts, together, strict=True):
        assert found == pytest.approx(scores(small, [context], [of])[0], abs=2e-5)
