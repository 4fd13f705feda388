"""Geometry of vectors: by hand, and against definitions with loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops
from sklearn.decomposition import PCA

from transbeam.model.inspect.vector_geometry import (
    compute_participation,
    effective_rank,
    explainable_variance,
    find_neighbors,
    mean_cosine,
    principal_components,
    similarity_to_mean,
    singular_values,
    solve_analogies,
)

SEEDS = st.integers(0, 10_000)


def draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_effective_rank_of_singular_values_and_of_their_squares():
    sigma = np.array([3.0, 1.0])
    assert effective_rank(sigma) == pytest.approx(1.755, abs=5e-4)
    assert effective_rank(sigma**2) == pytest.approx(1.384, abs=5e-4)
    assert compute_participation(sigma) == pytest.approx(1.2195, abs=5e-5)


@pytest.mark.parametrize("number", [1, 2, 7])
def test_ranks_of_equal_values_are_their_number(number):
    values = np.full(number, 0.3)
    assert effective_rank(values) == pytest.approx(number)
    assert compute_participation(values) == pytest.approx(number)


def test_nothing_has_rank_zero():
    assert effective_rank(np.zeros(3)) == 0
    assert compute_participation(np.zeros(3)) == 0
    assert np.isnan(explainable_variance(np.zeros((2, 3))))


@given(SEEDS, st.integers(2, 9), st.integers(1, 5))
def test_mean_cosine_is_the_mean_over_pairs(seed, number, width):
    vectors = draw(seed, number, width)
    pairs = [
        cosine(vectors[i], vectors[j])
        for i in range(number)
        for j in range(number)
        if i != j
    ]
    assert mean_cosine(vectors) == pytest.approx(np.mean(pairs))


def test_mean_cosine_of_one_direction_and_of_opposites():
    assert mean_cosine([[1.0, 1.0], [5.0, 5.0]]) == pytest.approx(1)
    assert mean_cosine([[1.0, 0.0], [-2.0, 0.0]]) == pytest.approx(-1)
    assert np.isnan(mean_cosine([[1.0, 2.0]]))


def test_similarity_to_mean_does_not_count_padding():
    states, lengths = draw(0, 3, 5, 4), (5, 2, 1)
    real = np.arange(5) < np.array(lengths)[:, None]
    found = ops.convert_to_numpy(similarity_to_mean(states, real))
    for row, length, value in zip(states, lengths, found, strict=True):
        mean = row[:length].mean(axis=0)
        expected = np.mean([cosine(vector, mean) for vector in row[:length]])
        assert value == pytest.approx(expected, abs=1e-5)


def test_explainable_variance():
    """The vectors are not centered: equal ones are explained by one direction."""
    assert explainable_variance([[3.0, 4.0]] * 3) == pytest.approx(1)
    assert explainable_variance(np.diag([3.0, 1.0])) == pytest.approx(0.9)
    assert explainable_variance(np.eye(4)) == pytest.approx(0.25)


def test_centered_singular_values():
    vectors = draw(1, 6, 3) + 100
    covariance = np.cov(vectors.T, bias=True) * 6
    expected = np.sqrt(np.linalg.eigvalsh(covariance)[::-1])
    np.testing.assert_allclose(singular_values(vectors, centered=True), expected)


@given(SEEDS, st.integers(2, 12), st.integers(1, 11))
def test_neighbors_are_sorted_by_cosine(seed, number, k):
    table = draw(seed, number, 3)
    found = find_neighbors(table, [0, number - 1], k)
    for query, ids, cosines in zip((0, number - 1), *found, strict=True):
        others = [i for i in range(number) if i != query]
        expected = sorted(others, key=lambda i: -cosine(table[query], table[i]))[:k]
        assert ids.tolist() == expected
        np.testing.assert_allclose(
            cosines, [cosine(table[query], table[i]) for i in expected]
        )


def test_an_analogy_is_none_of_its_words():
    """Without this condition `b` would be the nearest here."""
    table = np.array([[1.0, 0.0], [1.0, 0.1], [1.0, 0.0], [0.0, 1.0]])
    assert solve_analogies(table, [[0, 1, 2]]).ids.tolist() == [[3]]


def test_analogies_of_vectors_with_two_features():
    """King, queen, man, woman with features royal and female."""
    table = np.array([[1, 0, 1], [1, 1, 1], [0, 0, 1], [0, 1, 1], [0.5, -1, 0]])
    found = solve_analogies(table, [[2, 3, 0], [0, 2, 1]])
    assert found.ids[:, 0].tolist() == [1, 3]


@given(SEEDS, st.integers(3, 10), st.integers(2, 5))
def test_principal_components(seed, number, width):
    vectors, k = draw(seed, number, width), 2
    found = principal_components(vectors, k)
    reference = PCA(k).fit(vectors)
    np.testing.assert_allclose(found.shares, reference.explained_variance_ratio_)
    expected = reference.transform(vectors)
    np.testing.assert_allclose(np.abs(found.coordinates), np.abs(expected), atol=1e-9)
    largest = np.argmax(np.abs(found.coordinates), axis=0)
    assert (found.coordinates[largest, [0, 1]] > 0).all()


def test_components_beyond_the_rank_are_zero():
    found = principal_components([[1.0], [3.0]], 3)
    assert np.abs(found.coordinates[:, 1:]).max() == 0
    np.testing.assert_allclose(found.shares, [1, 0, 0])
    same = principal_components(np.ones((3, 2)), 2)
    assert not same.coordinates.any()
    assert not same.shares.any()
