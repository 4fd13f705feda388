"""Penalties, biases and n-grams as they are defined, one token after the other."""

import numpy as np

from transbeam.model.generation.logits_processors import NEVER


def by_numpy(scores, rows, penalties, sizes, biases):
    """The definitions, one token after the other."""
    expected = scores.astype(np.float64)
    for row, tokens in enumerate(rows):
        for token in set(tokens):
            positive = expected[row, token] > 0
            factor = 1 / penalties[row] if positive else penalties[row]
            expected[row, token] *= factor
        for token, bias in biases[row]:
            expected[row, token] += bias
        size = sizes[row]
        grams = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
        end = tuple(tokens[len(tokens) - size + 1 :])
        for gram in grams if size else ():
            if gram[:-1] == end:
                expected[row, gram[-1]] = NEVER
    return expected
