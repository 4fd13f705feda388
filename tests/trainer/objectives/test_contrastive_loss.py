"""The multiple negatives ranking loss, by hand and beside plain NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

from tests.model.gradients import value_and_gradients
from transbeam.trainer.objectives.contrastive_loss import candidates, rank_pairs
from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.objectives.targets import PairTarget

SIMILARITIES = np.array([[0.8, 0.3], [0.4, 0.6]])
TARGET = PairTarget("embedding", "text_hashes")


def unit_vectors(similarities: np.ndarray) -> np.ndarray:
    """Texts and candidates of unit length with these cosines: float32 (B, N, D)."""
    number, others = similarities.shape
    texts = np.eye(number, number + others)
    rest = np.sqrt(1 - (similarities**2).sum(axis=0))
    found = np.concatenate([similarities.T, np.diag(rest)], axis=1)
    columns = [texts, *np.split(found, others // number)]
    return np.stack(columns, axis=1).astype("float32")


def hashes_of(*records: str) -> np.ndarray:
    """Texts by letters, `.` for a missing one: int32 (B, N, 2)."""
    found = [[(0, 0) if x == "." else (ord(x), -ord(x)) for x in r] for r in records]
    return np.array(found, "int32")


def costs(similarities, *records: str, scale: float = 20.0, symmetric: bool = False):
    found = rank_pairs(
        unit_vectors(np.array(similarities)), hashes_of(*records), scale, symmetric
    )
    return [ops.convert_to_numpy(part) for part in found]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 0.009098),
        ({"symmetric": True}, 0.005252),
        ({"scale": 1.0}, 0.536108),
    ],
    ids=str,
)
def test_by_hand(options, expected) -> None:
    found, ranks = costs(SIMILARITIES, "ab", "cd", **options)
    assert found.mean() == pytest.approx(expected, abs=1e-6)
    assert ranks.tolist() == [1, 1]


def test_equal_partners_are_no_negatives() -> None:
    """Of two equal partners, the one would be the other's negative: ln 2 each."""
    equal = [[0.5, 0.5], [0.5, 0.5]]
    counted, _ = costs(equal, "ab", "cd")
    np.testing.assert_allclose(counted, np.log([2, 2]), rtol=1e-6)
    found, ranks = costs(equal, "ab", "cb", symmetric=True)
    np.testing.assert_allclose(found, [0, 0], atol=1e-6)
    assert ranks.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (("ab", "cd"), [[1, 1], [1, 1]]),
        (("ab", "ad"), [[1, 0], [0, 1]]),  # the same text
        (("ab", "bd"), [[1, 0], [0, 1]]),  # across columns
        (("ab", "ca"), [[1, 0], [0, 1]]),
        (("abx", "cdy"), [[1, 1, 1, 1], [1, 1, 1, 1]]),
        (("abx", "cd."), [[1, 1, 1, 0], [1, 1, 1, 0]]),  # no negative
        (("ab.", "cd."), [[1, 1, 0, 0], [1, 1, 0, 0]]),  # missing ones are not equal
        (("abx", "cdb"), [[1, 0, 1, 0], [0, 1, 0, 1]]),  # a partner is a negative
    ],
    ids=str,
)
def test_candidates(records, expected) -> None:
    found = ops.convert_to_numpy(candidates(hashes_of(*records)))
    np.testing.assert_array_equal(found, np.array(expected, bool))


def test_both_halves_of_a_hash_count() -> None:
    hashes = np.array([[[1, 2], [3, 4]], [[1, 5], [6, 4]]], "int32")
    assert ops.convert_to_numpy(candidates(hashes)).all()


def test_a_collapsed_model_ranks_nothing_first() -> None:
    """Candidates that are as similar as the partner stand before it."""
    vectors = np.tile(np.array([0.6, 0.8], "float32"), (3, 2, 1))
    found = rank_pairs(vectors, hashes_of("ab", "cd", "ef"), 20.0)
    assert ops.convert_to_numpy(found.ranks).tolist() == [3, 3, 3]
    nats = ops.convert_to_numpy(found.costs)
    np.testing.assert_allclose(nats, np.log([3.0] * 3), rtol=1e-6)


def test_a_small_loss_is_exact() -> None:
    found, _ = costs([[0.9, 0.1], [0.1, 0.9]], "ab", "cd", scale=20.0)
    np.testing.assert_allclose(found, np.log1p(np.exp([-16.0, -16.0])), atol=1e-8)


def test_a_hard_negative_is_a_candidate_of_all() -> None:
    similarities = np.array([[0.8, 0.3, 0.5, 0.1], [0.2, 0.6, 0.7, 0.0]])
    found, ranks = costs(similarities, "abx", "cdy", scale=2.0)
    own = similarities[[0, 1], [0, 1]]
    expected = np.log(np.exp(2 * similarities).sum(axis=1)) - 2 * own
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert ranks.tolist() == [1, 2]


def plain(vectors, records, scale: float, symmetric: bool) -> np.ndarray:
    """The loss of each pair, text by text, float64."""
    found = []
    for i, mine in enumerate(records):
        others = [
            j
            for j, theirs in enumerate(records)
            if j == i or not (set(mine) - {"."}) & (set(theirs) - {"."})
        ]
        texts = [vectors[j, 1] for j in others]
        texts += [vectors[j, 2] for j in others if records[j][2] != "."]
        forward = scale * np.array(texts) @ vectors[i, 0]
        cost = np.log(np.exp(forward).sum()) - scale * vectors[i, 1] @ vectors[i, 0]
        if symmetric:
            back = scale * np.array([vectors[j, 0] for j in others]) @ vectors[i, 1]
            cost += np.log(np.exp(back).sum()) - scale * vectors[i, 1] @ vectors[i, 0]
            cost /= 2
        found.append(cost)
    return np.array(found)


@pytest.mark.parametrize("symmetric", [False, True])
def test_value_and_gradient_are_those_of_plain_numpy(symmetric) -> None:
    records = ("abx", "cd.", "eby", "fgh", "hi.")
    vectors = np.random.default_rng(0).normal(size=(5, 3, 4))
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    expected = plain(vectors, records, 5.0, symmetric)

    variable = keras.Variable(vectors.astype("float32"))
    hashes = hashes_of(*records)

    def mean():
        return ops.mean(rank_pairs(variable.value, hashes, 5.0, symmetric).costs)

    value, (gradient,) = value_and_gradients(mean, [variable])
    assert float(value) == pytest.approx(expected.mean(), rel=1e-5)
    step = 1e-5
    for place in [(0, 0, 1), (1, 1, 0), (2, 2, 3), (3, 2, 2), (4, 0, 0)]:
        moved = []
        for sign in (1, -1):
            other = vectors.copy()
            other[place] += sign * step
            moved.append(plain(other, records, 5.0, symmetric).mean())
        slope = (moved[0] - moved[1]) / (2 * step)
        assert gradient[place] == pytest.approx(slope, abs=2e-5)


def test_the_target_reads_rows_of_all_texts() -> None:
    """The model gives a row for each text; the loss is a mean over pairs."""
    batch = {"text_hashes": hashes_of("ab", "cd")}
    rows = unit_vectors(SIMILARITIES).reshape(4, -1)
    loss = Loss((TARGET,))
    value, sums = loss({"embedding": rows}, batch, loss.counts(batch))
    assert float(value) == pytest.approx(0.009098, abs=1e-6)
    assert float(sums["embedding"]["count"]) == 2
    assert float(sums["embedding"]["correct"]) == 2
    answers = loss.answers({"embedding": rows}, batch)["embedding"]
    assert ops.convert_to_numpy(answers["guesses"]).tolist() == [1, 1]
    assert loss.compares_records


def test_the_baseline_is_a_model_with_equal_vectors_for_all_texts() -> None:
    batch = {"text_hashes": hashes_of("ab.", "cbx", "def")}
    sums = TARGET.input_free_sums(batch)
    # Candidates: b; b and x; and of the third all partners, x and f.
    counts = np.array([3, 4, 5])
    assert TARGET.input_free_loss(sums) == pytest.approx(np.log(counts).mean())
