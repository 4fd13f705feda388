"""Mask-predict against a loop over one text in NumPy."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from transbeam.model.generation.mask_predict import mask_predict

MASK, SIZE = 9, 10
# Logits of a token by its own position and by the two tokens beside it.
RNG = np.random.default_rng(0)
BESIDE = RNG.standard_normal((2, SIZE, SIZE)) * 2
PLACE = RNG.standard_normal((12, SIZE))


def logits(row: np.ndarray) -> np.ndarray:
    """Of each position of a text: `(L, V)`."""
    before = np.concatenate([[0], row[:-1]])
    after = np.concatenate([row[1:], [0]])
    return BESIDE[0, before] + BESIDE[1, after] + PLACE[: len(row)]


def refined(row, iterations: int, allowed: np.ndarray) -> tuple[list[int], list[float]]:
    """The definition, step by step."""
    row = np.array(row)
    places = np.flatnonzero(row == MASK)
    scores = np.zeros(len(places))
    for step in range(iterations):
        number = len(places) * (iterations - step) // iterations
        again = np.argsort(scores, kind="stable")[:number]
        row[places[again]] = MASK
        found = logits(row)[places]
        for mask in again:
            total = np.log(np.exp(found[mask]).sum())
            best = int(np.argmax(np.where(allowed, found[mask], -np.inf)))
            row[places[mask]], scores[mask] = best, found[mask][best] - total
    return row[places].tolist(), scores.tolist()


def run(rows, iterations, allowed):
    width = max(map(len, rows))
    ids = np.array([[*row, *[0] * (width - len(row))] for row in rows], "int32")
    places = [np.flatnonzero(np.array(row) == MASK) for row in rows]
    most = max(1, *map(len, places))

    def logits_of(token_ids):
        found = np.zeros((len(rows), most, SIZE), "float32")
        tokens = ops.convert_to_numpy(token_ids)
        for number, (row, where) in enumerate(zip(rows, places, strict=True)):
            found[number, : len(where)] = logits(tokens[number, : len(row)])[where]
        return ops.convert_to_tensor(found)

    fills, scores = mask_predict(
        logits_of,
        ids,
        np.array(iterations, "int32"),
        mask_id=MASK,
        num_masks=most,
        allowed=allowed,
    )
    return ops.convert_to_numpy(fills), ops.convert_to_numpy(scores), places


_ROWS = st.lists(
    st.lists(st.sampled_from([1, 2, 3, MASK, MASK]), min_size=1, max_size=12),
    min_size=1,
    max_size=3,
)
ALLOWED = np.array([False, *[True] * 7, False, False])


@settings(max_examples=15, deadline=None)
@given(_ROWS, st.lists(st.integers(1, 6), min_size=3, max_size=3))
def test_each_text_is_refined_as_alone(rows, iterations):
    rounds = iterations[: len(rows)]
    fills, scores, places = run(rows, rounds, ALLOWED)
    for number, (row, where) in enumerate(zip(rows, places, strict=True)):
        ids, values = refined(row, rounds[number], ALLOWED)
        assert fills[number, : len(where)].tolist() == ids
        np.testing.assert_allclose(scores[number, : len(where)], values, atol=1e-5)
        assert not fills[number, len(where) :].any()


def test_no_banned_token_fills_a_mask():
    only = np.zeros(SIZE, bool)
    only[4] = True
    fills, _, _ = run([[MASK, 1, MASK]], [3], only)
    assert fills.tolist() == [[4, 4]]


def test_iterations_change_fills_that_do_not_go_together():
    row = [MASK, MASK, 2, MASK, MASK, MASK]
    fills = [run([row], [n], ALLOWED)[0].tolist() for n in (1, 6)]
    assert fills[0] != fills[1]
