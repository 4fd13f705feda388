"""Masking: the right share, never a special token, and only ever from content."""

import numpy as np
import pytest

from configs.language_modelling import MaskedConfig
from pipeline.features import check_arrays, masked_features
from pipeline.objectives.masked import mask_records
from tests.pipeline.test_packing import packed_from

MASK = 4
ORDINARY = np.arange(5, 1000, dtype=np.int32)


def masked(documents, length=128, seed=0, config=None):
    packed = packed_from(documents, length)
    arrays = mask_records(
        packed,
        config or MaskedConfig(),
        seed=seed,
        mask_id=MASK,
        ordinary_ids=ORDINARY,
    )
    return packed, arrays


@pytest.fixture(scope="module")
def many_documents() -> list[list[int]]:
    random = np.random.default_rng(0)
    sizes = random.geometric(1 / 60, 3000)
    return [random.integers(5, 1000, size).tolist() for size in sizes]


def test_matches_the_contract(many_documents) -> None:
    _, arrays = masked(many_documents)
    check_arrays(arrays, masked_features(128, 20))


def test_putting_the_answers_back_restores_the_records(many_documents) -> None:
    packed, arrays = masked(many_documents)
    restored = arrays["token_ids"].copy()
    row, slot = np.nonzero(arrays["masked_weights"])
    column = arrays["masked_positions"][row, slot]
    restored[row, column] = arrays["masked_ids"][row, slot]
    np.testing.assert_array_equal(restored, packed.token_ids)


def test_asks_for_content_only_and_in_order(many_documents) -> None:
    packed, arrays = masked(many_documents)
    row, slot = np.nonzero(arrays["masked_weights"])
    assert packed.is_content[row, arrays["masked_positions"][row, slot]].all()
    steps = np.diff(arrays["masked_positions"], axis=1)
    used = arrays["masked_weights"][:, 1:] > 0
    assert (steps[used] > 0).all()
    assert not arrays["masked_positions"][arrays["masked_weights"] == 0].any()


def test_each_record_asks_for_its_rounded_share(many_documents) -> None:
    packed, arrays = masked(many_documents)
    content = packed.is_content.sum(axis=1)
    wanted = np.clip(np.rint(content * 0.15), 1, 20)
    np.testing.assert_array_equal(arrays["masked_weights"].sum(axis=1), wanted)


def test_eighty_ten_ten(many_documents) -> None:
    packed, arrays = masked(many_documents)
    row, slot = np.nonzero(arrays["masked_weights"])
    column = arrays["masked_positions"][row, slot]
    shown, real = arrays["token_ids"][row, column], packed.token_ids[row, column]
    total = len(row)
    # Five standard deviations of a binomial; a random piece is the real one in 1/995.
    assert abs(np.mean(shown == MASK) - 0.8) < 5 * (0.16 / total) ** 0.5
    assert abs(np.mean(shown == real) - 0.1009) < 5 * (0.0907 / total) ** 0.5
    others = shown[(shown != MASK) & (shown != real)]
    assert others.min() >= 5
    assert len(np.unique(others)) > 500


def test_every_place_is_equally_likely() -> None:
    documents = [list(range(5, 131))[: -i or None] + [500 + i] * i for i in range(40)]
    hits = np.zeros(128)
    for seed in range(100):
        _, arrays = masked(documents, seed=seed)
        hits += np.bincount(
            arrays["masked_positions"][arrays["masked_weights"] > 0], minlength=128
        )
    expected = hits.sum() / 126
    assert hits[0] == hits[127] == 0
    chi_square = ((hits[1:127] - expected) ** 2 / expected).sum()
    assert chi_square < 125 + 6 * (2 * 125) ** 0.5


def test_seed_and_document_decide(many_documents) -> None:
    _, first = masked(many_documents, seed=1)
    _, same = masked(many_documents, seed=1)
    _, other = masked(many_documents, seed=2)
    np.testing.assert_array_equal(first["token_ids"], same["token_ids"])
    assert (first["token_ids"] != other["token_ids"]).any()


def test_one_word_is_asked_for() -> None:
    _, arrays = masked([[77]], length=8)
    np.testing.assert_array_equal(arrays["masked_positions"], [[1, 0]])
    np.testing.assert_array_equal(arrays["masked_ids"], [[77, 0]])
    np.testing.assert_array_equal(arrays["masked_weights"], [[1, 0]])


def test_all_masked_when_asked() -> None:
    config = MaskedConfig(masking_fraction=0.5, mask_fraction=1.0, random_fraction=0.0)
    _, arrays = masked([[7, 8, 9, 10]], length=8, config=config)
    assert (arrays["token_ids"] == MASK).sum() == 2
