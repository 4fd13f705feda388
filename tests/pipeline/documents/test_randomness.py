"""Numbers that depend on what they are for and on nothing else."""

import numpy as np

from transbeam.pipeline.documents.randomness import stage_key, uniform


def test_golden_values() -> None:
    # Written down once: another value would change every data set made before.
    assert stage_key(17, "masking/choose") == 0x82E5A96582E39169
    numbers = uniform(1, np.array([2, 3], np.uint64), np.array([0, 1]))
    assert [float(number).hex() for number in numbers] == [
        "0x1.a1770cd55c650p-1",
        "0x1.ca1928d664acbp-1",
    ]


def test_uniform_and_uncorrelated() -> None:
    documents = np.random.default_rng(0).integers(0, 2**63, 1000).astype(np.uint64)
    numbers = uniform(stage_key(0, "a"), documents[:, None], np.arange(200)[None])
    assert numbers.min() >= 0
    assert numbers.max() < 1
    # 200,000 numbers: means within five standard errors.
    assert abs(numbers.mean() - 0.5) < 5 * (1 / 12 / numbers.size) ** 0.5
    neighbours = np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]
    documents_apart = np.corrcoef(numbers[:-1].ravel(), numbers[1:].ravel())[0, 1]
    assert abs(neighbours) < 5 / numbers.size**0.5
    assert abs(documents_apart) < 5 / numbers.size**0.5
    other = uniform(stage_key(0, "b"), documents[:, None], np.arange(200)[None])
    purposes_apart = np.corrcoef(numbers.ravel(), other.ravel())[0, 1]
    assert abs(purposes_apart) < 5 / numbers.size**0.5
    histogram = np.histogram(numbers, bins=100, range=(0, 1))[0]
    expected = numbers.size / 100
    assert ((histogram - expected) ** 2 / expected).sum() < 99 + 6 * (2 * 99) ** 0.5
