"""One vector for a text: by hand, and blind to padding."""

import keras
import numpy as np
import pytest

from tests.model.gradients import value_and_gradients
from transbeam.configs.base.errors import ConfigError
from transbeam.model.layers.pooling import KINDS, Pooling

TOKENS = np.array([[[1.0, -8.0], [4.0, -2.0], [100.0, 100.0]]], "float32")
MASK = np.array([[1, 1, 0]], "int32")


# The first feature, times log 3, is the score.
QUERY = np.array([np.log(3) * np.sqrt(2), 0.0])


def pooling(kind: str, query: np.ndarray = QUERY) -> Pooling:
    layer = Pooling(kind)
    layer.build((None, None, 2))
    if kind == "attention":
        layer.set_weights([query])
    return layer


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("first", [1.0, -8.0]),
        ("last", [4.0, -2.0]),
        ("mean", [2.5, -5.0]),
        ("max", [4.0, -2.0]),
    ],
)
def test_by_hand(kind, expected):
    assert np.asarray(pooling(kind)(TOKENS, MASK)).tolist() == [expected]


def test_attention_by_hand():
    # Scores log 3 and 4 log 3: weights 1/28 and 27/28.
    expected = [[(1 + 27 * 4) / 28, (-8 - 27 * 2) / 28]]
    np.testing.assert_allclose(pooling("attention")(TOKENS, MASK), expected, rtol=1e-5)


def test_attention_without_a_preference_is_the_mean():
    np.testing.assert_allclose(
        pooling("attention", np.zeros(2))(TOKENS, MASK), [[2.5, -5.0]], rtol=1e-6
    )


@pytest.mark.parametrize("kind", KINDS)
def test_padding_does_not_count(kind):
    layer = pooling(kind)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 4, 2)).astype("float32")
    mask = (np.arange(4) < [[4], [2], [1]]).astype("int32")
    pooled = np.asarray(layer(x, mask))
    for row, length in enumerate((4, 2, 1)):
        alone = layer(x[row : row + 1, :length])
        np.testing.assert_allclose(pooled[row : row + 1], alone, rtol=0, atol=1e-6)
    worse = np.where(mask[..., np.newaxis], x, np.float32(1e30))
    np.testing.assert_array_equal(layer(worse, mask), pooled)


@pytest.mark.parametrize(
    ("token_ids", "mask", "place"),
    [
        ([5, 7, 0, 0], [1, 1, 0, 0], 1),
        ([0, 0, 5, 7], [0, 0, 1, 1], 3),
        ([5, 0, 7, 0], [1, 1, 1, 0], 2),  # 0 within the text, not masked
        ([5, 7, 0, 0], [1, 1, 1, 1], 3),  # the end token has the id of padding
        ([5, 0, 7, 0], [1, 0, 1, 0], 2),
    ],
)
def test_the_last_token_is_found_by_the_mask(token_ids, mask, place):
    vectors = np.array([[[10.0 * i + token] for i, token in enumerate(token_ids)]])
    for dtype in ("int32", "bool"):
        found = pooling("last")(vectors.astype("float32"), np.array([mask], dtype))
        assert np.asarray(found).tolist() == vectors[:, place].tolist()


@pytest.mark.parametrize("kind", ["last", "mean", "max", "attention"])
def test_packed_texts_are_refused(kind):
    with pytest.raises(ValueError, match="document ids of packed texts"):
        pooling(kind)(TOKENS, np.array([[1, 2, 0]], "int32"))


@pytest.mark.parametrize("kind", ["last", "mean", "max", "attention"])
def test_nothing_but_padding_gives_zeros(kind):
    layer, tokens = pooling(kind), keras.Variable(TOKENS)
    nobody = np.zeros_like(MASK)
    assert not np.any(layer(tokens, nobody))
    _, slopes = value_and_gradients(
        lambda: layer(tokens, nobody), [tokens, *layer.weights]
    )
    for gradient in slopes:
        assert not gradient.any()  # a NaN is not zero either


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_real_tokens_only(kind):
    layer, tokens = pooling(kind), keras.Variable(TOKENS)
    worth = np.array([[1.0, 2.0]], "float32")
    _, (found, *to_query) = value_and_gradients(
        lambda: layer(tokens, MASK) * worth, [tokens, *layer.weights]
    )
    assert not found[0, 2].any()
    expected = {
        "first": [[1, 2], [0, 0]],
        "mean": [[0.5, 1], [0.5, 1]],
        "max": [[0, 0], [1, 2]],
        "last": [[0, 0], [1, 2]],
    }
    if kind == "attention":
        # The weights come from the query: d pooled / d query by differences.
        for axis, step in enumerate(np.eye(2) * 1e-2):
            above, below = (
                np.sum(
                    np.asarray(pooling(kind, QUERY + sign * step)(TOKENS, MASK)) * worth
                )
                for sign in (1, -1)
            )
            assert to_query[0][axis] == pytest.approx((above - below) / 2e-2, rel=1e-2)
    else:
        assert found[0, :2].tolist() == expected[kind]


def test_an_unknown_kind_is_refused():
    with pytest.raises(ConfigError, match="kind='middle' is not one of"):
        Pooling("middle")


@pytest.mark.parametrize(
    ("tokens", "mask", "message"),
    [
        (TOKENS[0], MASK, "inputs has shape"),
        (TOKENS, MASK[0], "padding_mask has shape"),
        (TOKENS, MASK[:, :-1], "padding_mask has shape .*, a number for each token"),
        (TOKENS, MASK.astype("float32"), "padding_mask has dtype float32"),
    ],
)
def test_another_rank_is_refused(tokens, mask, message):
    with pytest.raises(ValueError, match=message):
        Pooling("mean")(tokens, mask)
