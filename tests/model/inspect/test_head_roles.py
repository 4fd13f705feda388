"""Statistics of roles: against a loop over queries, and of heads with a known role."""

import numpy as np
import pytest
from keras import ops
from scipy import stats

from transbeam.model.inspect.head_roles import (
    compare_vectors,
    make_reference_heads,
    sum_role_statistics,
)

OFFSETS, FAR = (-2, -1, 1), 2
# Two rows of 7 and of 4 tokens; the first and last of each are special.
LENGTHS = (7, 4)


@pytest.fixture(params=[False, True], ids=["encoder", "causal"])
def case(request):
    generator = np.random.default_rng(1)
    real = np.arange(7) < np.array(LENGTHS)[:, None]
    is_text = real & (np.arange(7) > 0)
    is_text[np.arange(2), np.array(LENGTHS) - 1] = False
    allowed = np.repeat(real[:, None], 7, axis=1)
    if request.param:
        allowed = allowed & np.tril(np.ones((7, 7), bool))
    allowed = allowed[:, None]
    maps = generator.random((2, 3, 7, 7)) * allowed
    maps /= maps.sum(axis=-1, keepdims=True)
    maps = maps.astype("float32")
    similarity = ops.convert_to_numpy(compare_vectors(generator.normal(size=(2, 7, 5))))
    return maps, allowed, is_text, similarity


def summed(case):
    sums = sum_role_statistics(*case, offsets=OFFSETS, far=FAR)
    return {k: ops.convert_to_numpy(part) for k, part in sums._asdict().items()}


def test_against_a_loop(case):
    maps, allowed, is_text, similarity = case
    found = summed(case)
    for b, length in enumerate(LENGTHS):
        queries = [i for i in range(1, length) if is_text[b, i]]
        assert found["queries"][b].tolist() == [len(queries)] * 3
        for h in range(3):
            offset, seen = np.zeros(3), np.zeros(3)
            distant, far_queries, delimiter, semantic, defined = 0.0, 0, 0.0, 0.0, 0
            for i in queries:
                keys = [j for j in range(length) if allowed[b, 0, i, j]]
                for k, shift in enumerate(OFFSETS):
                    if i + shift in keys:
                        offset[k] += maps[b, h, i, i + shift]
                        seen[k] += 1
                far = [j for j in keys if is_text[b, j] and abs(i - j) > FAR]
                distant += maps[b, h, i, far].sum()
                far_queries += bool(far)
                special = [j for j in keys if j == 0 or not is_text[b, j]]
                delimiter += maps[b, h, i, special].sum()
                others = [j for j in keys if is_text[b, j] and j != i]
                if len(others) > 2:
                    x, y = maps[b, h, i, others], similarity[b, i, others]
                    semantic += stats.spearmanr(x, y).statistic
                    defined += 1
            np.testing.assert_allclose(found["offset"][b, h], offset, atol=1e-5)
            np.testing.assert_array_equal(found["offset_queries"][b, h], seen)
            assert found["distant"][b, h] == pytest.approx(distant, abs=1e-5)
            assert found["distant_queries"][b, h] == far_queries
            assert found["delimiter"][b, h] == pytest.approx(delimiter, abs=1e-5)
            first = maps[b, h, queries, 0].sum()
            assert found["first"][b, h] == pytest.approx(first, abs=1e-5)
            assert found["semantic"][b, h] == pytest.approx(semantic, abs=1e-4)
            assert found["semantic_queries"][b, h] == defined


def test_heads_may_see_different_keys(case):
    maps, allowed, is_text, similarity = case
    visible = np.repeat(allowed, 3, axis=1)
    visible[:, 1] &= np.abs(np.arange(7)[:, None] - np.arange(7)) < 2
    maps = maps * visible
    found = summed((maps, visible, is_text, similarity))
    for head in range(3):
        one = slice(head, head + 1)
        alone = summed((maps[:, one], visible[:, one], is_text, similarity))
        for name, values in found.items():
            np.testing.assert_allclose(values[:, one], alone[name], atol=1e-6)
    assert not found["distant_queries"][:, 1].any()
    assert not found["offset_queries"][:, 1, 0].any()


def test_padding_changes_nothing(case):
    maps, allowed, is_text, similarity = (part[1:, ..., :4] for part in case)
    shorter = summed((maps[:, :, :4], allowed[:, :, :4], is_text, similarity[:, :4]))
    for name, values in summed(case).items():
        np.testing.assert_allclose(values[1:], shorter[name], atol=1e-5)


def test_reference_heads(case):
    allowed = case[1]
    uniform, near = map(ops.convert_to_numpy, make_reference_heads(allowed))
    seen = allowed.any(axis=-1)
    for head in (uniform, near):
        np.testing.assert_allclose(head.sum(axis=-1)[seen], 1.0, rtol=1e-6)
        assert not (head * ~allowed).any()
    row = allowed[0, 0, 2]
    np.testing.assert_allclose(uniform[0, 0, 2][row], 1 / row.sum())
    near = near[0, 0, 3]
    assert near[2] == pytest.approx(near[3] / 2)
    assert near[1] == pytest.approx(near[3] / 3)


def test_heads_with_one_role():
    """A previous-token head, one on the last token, and one that follows meaning."""
    allowed = np.ones((1, 1, 6, 6), bool)
    is_text = np.array([[False, True, True, True, True, False]])
    vectors = np.random.default_rng(0).normal(size=(1, 6, 3))
    similarity = ops.convert_to_numpy(compare_vectors(vectors))
    previous = np.eye(6, k=-1)
    last = np.zeros((6, 6))
    last[:, -1] = 1
    semantic = np.exp(similarity[0])
    maps = np.stack([previous, last, semantic / semantic.sum(-1, keepdims=True)])
    sums = summed((maps[None], allowed, is_text, similarity))
    share = sums["offset"][0] / sums["offset_queries"][0]
    assert share[0].tolist() == [0, 1, 0]
    assert (sums["delimiter"][0] / sums["queries"][0])[1] == 1
    meaning = sums["semantic"][0, 2] / sums["semantic_queries"][0, 2]
    assert meaning == pytest.approx(1)
