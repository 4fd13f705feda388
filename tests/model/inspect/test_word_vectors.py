"""Vectors of words are means over their own tokens."""

import numpy as np
from keras import ops

from transbeam.model.inspect.word_vectors import average_words


def test_words_are_means_of_their_tokens():
    """A token of two words counts for both; a word without tokens is zero."""
    states = np.random.default_rng(0).normal(size=(2, 4, 3))
    member = np.zeros((2, 4, 3))
    member[0, [1, 2], 0] = 1  # two tokens
    member[0, 2, 1] = 1  # shares a token with the first
    member[1, 3, 2] = 1
    found = ops.convert_to_numpy(average_words(states, member))
    assert found.shape == (2, 3, 3)
    np.testing.assert_allclose(found[0, 0], states[0, 1:3].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(found[0, 1], states[0, 2], rtol=1e-5)
    np.testing.assert_allclose(found[1, 2], states[1, 3], rtol=1e-5)
    assert not found[0, 2].any()
    assert not found[1, :2].any()
