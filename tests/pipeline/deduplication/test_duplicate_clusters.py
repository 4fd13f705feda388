"""From signatures to the documents that are dropped."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.near_duplicates import linked_pairs, pairs_of_similarity
from tests.pipeline.documents.split_rule import split_of
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.data import (
    DeduplicationConfig,
    NearDuplicatesConfig,
)
from transbeam.pipeline.deduplication import lsh as banding
from transbeam.pipeline.deduplication.duplicate_clusters import (
    EXACT,
    KEPT,
    NEAR,
    REASONS,
    classify_duplicates,
    clusters,
    distinct,
    groups_by_split,
    leaked,
    mark_validation_duplicates,
)
from transbeam.pipeline.deduplication.lsh import (
    WINDOW,
    Bands,
    buckets,
    choose_bands,
    similar_pairs,
)
from transbeam.pipeline.deduplication.minhash import signatures
from transbeam.pipeline.documents.document import document_hash


def test_near_duplicates_without_exact_ones_make_no_sense() -> None:
    with pytest.raises(ConfigError, match="exact: false"):
        DeduplicationConfig(exact=False, near=NearDuplicatesConfig())
    assert DeduplicationConfig(exact=False).near is None


@pytest.mark.parametrize(
    ("similarity", "num_hashes", "expected"),
    [
        (0.8, 128, (16, 8)),
        (0.5, 128, (32, 4)),
        (0.9, 256, (15, 17)),
        (1.0, 64, (1, 64)),
    ],
)
def test_choice_of_bands(similarity, num_hashes, expected) -> None:
    # The first three were found by another program, with the trapezoidal rule.
    assert choose_bands(similarity, num_hashes) == expected


@pytest.mark.parametrize("wanted", [0.5, 0.6, 0.7, 0.8, 0.9])
def test_documents_meet_as_the_curve_says(wanted) -> None:
    trials, bands = 600, Bands(16, 8)
    documents, similarity = pairs_of_similarity(wanted, trials, 5, size=100)
    cut = buckets(signatures(documents, NearDuplicatesConfig()), bands)
    assert cut.shape == (16, 2 * trials)
    met = (cut[:, ::2] == cut[:, 1::2]).any(axis=0)
    expected = 1 - (1 - similarity**8) ** 16
    spread = np.sqrt(expected * (1 - expected) / trials)
    assert abs(met.mean() - expected) < 4 * spread + 1 / trials
    # Of one band alone: s^r.
    alone = np.mean(cut[:, ::2] == cut[:, 1::2])
    chance = similarity**8
    assert abs(alone - chance) < 4 * np.sqrt(chance * (1 - chance) / trials / 16)


def test_buckets_are_equal_where_bands_are() -> None:
    rows = np.array([[1, 2, 3, 4, 9], [1, 2, 4, 3, 9], [2, 1, 3, 4, 0]], np.uint32)
    first, second = buckets(rows, Bands(2, 2))
    assert (first == first[0]).tolist() == [True, True, False]
    assert (second == second[0]).tolist() == [True, False, True]


def pairs_by_loops(cut: np.ndarray, rows: np.ndarray, similarity: float) -> list:
    return [
        [i, j]
        for i in range(len(cut))
        for j in range(i + 1, len(cut))
        if cut[i] == cut[j] and np.mean(rows[i] == rows[j]) >= similarity
    ]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), st.lists(st.integers(0, 1), min_size=4, max_size=4)
        ),
        max_size=WINDOW + 1,
    ),
    st.sampled_from([0.5, 0.75, 1.0]),
)
def test_in_a_small_bucket_every_pair_is_compared(documents, similarity) -> None:
    cut = np.array([bucket for bucket, _ in documents], np.uint64)
    rows = np.array([row for _, row in documents], np.uint32).reshape(-1, 4)
    found = similar_pairs(cut, rows.__getitem__, similarity)
    assert sorted(found.tolist()) == pairs_by_loops(cut, rows, similarity)


@pytest.mark.parametrize("stretch", [1, 5, 64, 300])
def test_in_a_large_bucket_the_first_and_a_window_are_compared(
    stretch, monkeypatch
) -> None:
    rng = np.random.default_rng(0)
    cut = rng.integers(0, 6, 300).astype(np.uint64)
    rows = rng.integers(0, 2, (300, 8), np.uint32)
    expected = []
    for bucket in range(6):
        members = np.flatnonzero(cut == bucket).tolist()
        like_first = [np.mean(rows[m] == rows[members[0]]) >= 0.75 for m in members]
        for i, j in zip(*np.triu_indices(len(members), 1), strict=True):
            linked_through_first = j > WINDOW and like_first[i] and like_first[j]
            if (i == 0 or (j - i <= WINDOW and not linked_through_first)) and np.mean(
                rows[members[i]] == rows[members[j]]
            ) >= 0.75:
                expected.append([members[i], members[j]])
    assert len(expected) > 500
    # However much is in memory at once.
    monkeypatch.setattr(banding, "_STRETCH", stretch)
    assert sorted(similar_pairs(cut, rows.__getitem__, 0.75).tolist()) == sorted(
        expected
    )


def test_a_bucket_of_many_copies_takes_linear_work() -> None:
    count, asked = 50_000, []

    def look_up(indices: np.ndarray) -> np.ndarray:
        asked.append(len(indices))
        return np.zeros((len(indices), 4), np.uint32)

    pairs = similar_pairs(np.zeros(count, np.uint64), look_up, 1.0)
    # All pairs of the first WINDOW + 1, then each one with the first.
    assert len(pairs) == WINDOW * (WINDOW + 1) // 2 + count - WINDOW - 1
    assert sum(asked) < 1.01 * count
    assert not clusters(pairs, count).any()


def test_a_chain_in_one_bucket_is_followed() -> None:
    # Each document differs from the one before in one value of 16, and the last from
    # the first in all.
    count = 9000
    rows = ((np.arange(count)[:, None] + np.arange(16)) // 16).astype(np.uint32)
    pairs = similar_pairs(np.zeros(count, np.uint64), rows.__getitem__, 0.9)
    assert not clusters(pairs, count).any()


def test_groups_that_alternate_in_a_bucket_are_told_apart() -> None:
    rows = np.repeat(np.arange(5, dtype=np.uint32)[:, None], 4, axis=1)
    rows = np.tile(rows, (1000, 1))
    pairs = similar_pairs(np.zeros(5000, np.uint64), rows.__getitem__, 1.0)
    assert clusters(pairs, 5000).tolist() == list(range(5)) * 1000


def groups_by_loops(pairs: list[tuple[int, int]], count: int) -> list[int]:
    groups = list(range(count))
    for left, right in pairs:
        low, high = sorted((groups[left], groups[right]))
        groups = [low if group == high else group for group in groups]
    return groups


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19))), st.randoms())
def test_clusters_are_those_of_a_plain_implementation(pairs, rng) -> None:
    expected = groups_by_loops(pairs, 20)
    rng.shuffle(pairs)
    found = clusters(np.array(pairs, np.int64).reshape(-1, 2), 20)
    assert found.tolist() == expected


def test_a_long_chain_in_any_order_is_one_cluster() -> None:
    rng = np.random.default_rng(0)
    names = rng.permutation(20_000)
    pairs = rng.permutation(np.stack([names[1:], names[:-1]], axis=1))
    assert not clusters(pairs, 20_000).any()


def test_verdicts_by_hand() -> None:
    keys = np.array([50, 20, 50, 40, 20, 10, 50], np.uint64)
    first = distinct(keys, np.zeros(7, np.bool_))
    assert keys[first].tolist() == [10, 20, 40, 50]
    assert first.tolist() == [5, 1, 3, 0]
    # 20 and 50 are near duplicates of each other: 20 stays, where it is met first.
    groups = clusters(np.array([[3, 1]]), 4)
    assert groups.tolist() == [0, 1, 2, 1]
    expected = [NEAR, KEPT, EXACT, KEPT, EXACT, KEPT, EXACT]
    assert classify_duplicates(keys, first, groups).tolist() == expected
    # Exact duplicates alone.
    expected = [KEPT, KEPT, EXACT, KEPT, EXACT, KEPT, EXACT]
    assert classify_duplicates(keys, first, np.arange(4)).tolist() == expected
    assert set(REASONS) == {EXACT, NEAR}


def test_held_out_documents_stay_whatever_their_hash() -> None:
    keys = np.array([50, 20, 50, 40, 20, 10, 50, 40], np.uint64)
    held_out = np.array([0, 0, 1, 0, 0, 0, 1, 1], np.bool_)
    first = distinct(keys, held_out)
    assert first.tolist() == [7, 2, 5, 1]  # 40 and 50 held out, then 10 and 20
    # Without near duplicates.
    alone = np.arange(4)
    expected = [EXACT, KEPT, KEPT, EXACT, EXACT, KEPT, EXACT, KEPT]
    assert classify_duplicates(keys, first, alone).tolist() == expected
    # The training copies of 50 and 40; neither 20, nor what validation has twice.
    assert mark_validation_duplicates(keys, held_out, first, alone).nonzero()[
        0
    ].tolist() == [0, 3]
    # 20 is linked with 50: it goes, twice. 10, linked with nothing, stays.
    sides = held_out[first]
    groups = groups_by_split(np.array([[1, 3]]), sides)
    expected[1] = NEAR
    assert classify_duplicates(keys, first, groups).tolist() == expected
    lost = mark_validation_duplicates(keys, held_out, first, groups)
    assert lost.nonzero()[0].tolist() == [0, 1, 3, 4]
    # Two of validation that are linked: one stays, as within training.
    groups = groups_by_split(np.array([[0, 1]]), sides)
    assert classify_duplicates(keys, first, groups)[[2, 7]].tolist() == [NEAR, KEPT]
    # But not where they are linked through a training document alone.
    groups = groups_by_split(np.array([[0, 3], [1, 3], [2, 3]]), sides)
    assert classify_duplicates(keys, first, groups)[[2, 7, 1, 5]].tolist() == [
        *(KEPT, KEPT),
        *(NEAR, NEAR),
    ]


def test_leaks_by_hand() -> None:
    groups = np.array([0, 1, 0, 1, 4, 5])
    training = np.array([True, False, True, False, False, True])
    evaluation = np.array([False, True, False, True, True, True])
    # 1 and 3 are alike, but both held out; 4 is alone; 5 is in both.
    assert leaked(groups, training, evaluation).tolist() == [False] * 5 + [True]
    groups[3] = 0
    assert leaked(groups, training, evaluation).nonzero()[0].tolist() == [3, 5]


NEAR_CONFIG = NearDuplicatesConfig(shingle_words=1, num_hashes=32, similarity=0.6)
documents = st.lists(
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=7).map(" ".join),
    min_size=1,
    max_size=40,
)


def deduplicated(parts: list[list[str]], held_out: int = 0) -> list[tuple[str, int]]:
    """Deduplicates parts of a corpus as the job does: each document and its class.

    The last `held_out` parts are for validation.
    """
    texts = [text for part in parts for text in part]
    keys = np.array([document_hash(text) for text in texts], np.uint64)
    rows = np.concatenate([signatures(part, NEAR_CONFIG) for part in parts])
    training = sum(map(len, parts[: len(parts) - held_out]))
    for_validation = np.arange(len(keys)) >= training
    first = distinct(keys, for_validation)
    pairs = linked_pairs(rows[first], NEAR_CONFIG)
    groups = groups_by_split(pairs, for_validation[first])
    found = classify_duplicates(keys, first, groups).tolist()
    return list(zip(texts, found, strict=True))


@given(documents, st.randoms())
def test_parts_and_order_do_not_matter(texts, rng) -> None:
    at_once = deduplicated([texts])
    shuffled = rng.sample(texts, len(texts))
    cut = rng.randint(0, len(texts))
    in_parts = deduplicated([shuffled[:cut], shuffled[cut:]])
    assert sorted(in_parts) == sorted(at_once)


@given(documents.map(lambda texts: texts[: WINDOW + 1]))
def test_what_is_kept_speaks_for_what_is_dropped(texts) -> None:
    result = deduplicated([texts])
    kept = [text for text, verdict in result if verdict == KEPT]
    assert len(set(kept)) == len(kept) > 0
    exact = sum(verdict == EXACT for _, verdict in result)
    assert len(texts) - exact == len(set(texts))
    # Again: nothing is left to drop, nor to leak.
    assert [verdict for _, verdict in deduplicated([kept])] == [KEPT] * len(kept)


few_documents = documents.map(lambda texts: texts[: WINDOW // 2])


@given(few_documents, few_documents)
def test_training_never_shares_a_group_with_validation(training, validation) -> None:
    result = deduplicated([training, validation], held_out=1)
    kept = [text for text, verdict in result[: len(training)] if verdict == KEPT]
    held_out = [text for text, verdict in result[len(training) :] if verdict == KEPT]
    assert not set(kept) & set(validation)
    again = deduplicated([kept, held_out], held_out=1)
    assert [verdict for _, verdict in again] == [KEPT] * len(again)


@given(documents, documents)
def test_what_there_is_to_train_on_does_not_show_in_validation(
    training, validation
) -> None:
    together = deduplicated([training, validation], held_out=1)
    assert together[len(training) :] == deduplicated([validation])


def test_validation_documents_keep_their_near_duplicates_out_of_training() -> None:
    rng = random.Random(0)
    originals = [[f"{n}w{i}" for i in range(60)] for n in range(300)]
    texts = []
    for words in originals:
        texts.append(" ".join(words))
        words[rng.randrange(60)] = "edited"
        texts.append(" ".join(words))
    keys = np.array([document_hash(text) for text in texts], np.uint64)
    held_out = np.array([split_of(int(key), 0.2) == "validation" for key in keys])
    first = distinct(keys, held_out)
    rows = signatures(texts, NEAR_CONFIG)[first]
    groups = groups_by_split(linked_pairs(rows, NEAR_CONFIG), held_out[first])
    # Each leak is of a pair, whose training document goes.
    lost = mark_validation_duplicates(keys, held_out, first, groups).sum()
    held_out = held_out[first]
    kept = groups == np.arange(len(first))
    assert kept.sum() == 300
    # Of 300 pairs, 2 · 0.2 · 0.8 have one document on each side.
    before = leaked(groups, ~held_out, held_out).sum()
    assert abs(before - 300 * 0.32) < 4 * np.sqrt(300 * 0.32 * 0.68)
    assert lost == before
    assert held_out[kept].sum() > before
    again = clusters(linked_pairs(rows[kept], NEAR_CONFIG), 300)
    assert not leaked(again, ~held_out[kept], held_out[kept]).any()
