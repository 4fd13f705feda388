"""Every kind of attention refuses sequence info that does not fit its tokens."""

import itertools

import keras
import numpy as np
import pytest

from tests.model.compiling import compiled_on_jax
from tests.model.conftest import others_thorough
from transbeam.model.layers.attention.base_attention import Attention
from transbeam.model.layers.attention.block_sparse import BlockSparseAttention
from transbeam.model.layers.attention.cross import CrossAttention
from transbeam.model.layers.attention.full import MultiHeadAttention
from transbeam.model.layers.attention.global_window import GlobalWindowAttention
from transbeam.model.layers.attention.kernel_attention import KernelAttention
from transbeam.model.layers.attention.low_rank import LowRankAttention
from transbeam.model.layers.attention.sliding_window import SlidingWindowAttention

B, T, S, D = 2, 6, 4, 8
MAKE = {
    "full": lambda: MultiHeadAttention(D, 2),
    "sliding_window": lambda: SlidingWindowAttention(D, 2, window_size=2),
    "global_window": lambda: GlobalWindowAttention(D, 2, window_size=2),
    "block_sparse": lambda: BlockSparseAttention(D, 2, block_size=2, seed=1),
    "low_rank": lambda: LowRankAttention(D, 2, max_sequence_length=T, rank=2),
    "kernel": lambda: KernelAttention(D, 2, num_features=4, seed=1),
}


def ones(*shape: int, dtype: str = "int32") -> np.ndarray:
    return np.ones(shape, dtype)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def packed(length: int = T) -> dict[str, np.ndarray]:
    positions = np.tile(np.arange(length, dtype="int32"), (B, 1))
    return {"document_ids": ones(B, length), "position_ids": positions}


WRONG = {
    "shorter mask": (
        {"padding_mask": ones(B, T - 1)},
        r"padding_mask has shape \(2, 5\); expected \(2, 6\)",
    ),
    "mask of one token": ({"padding_mask": ones(B, 1)}, r"has shape \(2, 1\)"),
    "mask of one row": ({"padding_mask": ones(1, T)}, r"has shape \(1, 6\)"),
    "mask of three axes": ({"padding_mask": ones(B, T, 1)}, r"has shape \(2, 6, 1\)"),
    "float mask": ({"padding_mask": np.ones((B, T))}, "padding_mask has dtype float"),
    "other documents": (
        {**packed(), "document_ids": ones(B, T + 1)},
        r"document_ids has shape \(2, 7\); expected \(2, 6\)",
    ),
    "other positions": (
        {**packed(), "position_ids": ones(1, T)},
        r"position_ids has shape \(1, 6\); expected \(2, 6\)",
    ),
    "both": ({**packed(), "padding_mask": ones(B, T)}, "expected exactly one of"),
    "neither": ({}, "expected exactly one of"),
    "unknown": ({"padding_mask": ones(B, T), "mask": ones(B, T)}, r"has \['mask'\]"),
    "documents alone": ({"document_ids": ones(B, T)}, "without position_ids"),
}


# All of them of one kind, and each other kind some in turns.
EACH = list(itertools.product(MAKE, WRONG))
QUICK = [
    (kind, name)
    for number, (kind, name) in enumerate(EACH)
    if kind == "full" or number % 5 == 0
]


@pytest.mark.parametrize("case", others_thorough(EACH, QUICK), ids="-".join)
def test_wrong_places_are_refused(case):
    kind, name = case
    sequence_info, message = WRONG[name]
    layer: Attention = MAKE[kind]()
    with pytest.raises(ValueError, match=f"{layer.name}: .*{message}"):
        layer(floats(B, T, D), sequence_info)


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("side", ["sequence_info", "context_info"])
def test_wrong_places_of_a_pair_are_refused(name, side):
    layer = CrossAttention(D, 2)
    wrong, message = WRONG[name]
    # Both sides are packed, or neither is: that is another error.
    right = packed() if "document_ids" in wrong else {"padding_mask": ones(B, T)}
    sequence_info = {"sequence_info": right, "context_info": right, side: wrong}
    of = f"{layer.name}: context" if side == "context_info" else layer.name
    with pytest.raises(ValueError, match=f"{of}: .*{message}"):
        layer(floats(B, T, D), floats(B, T, D), **sequence_info)


def test_a_context_of_other_rows_is_refused():
    layer = CrossAttention(D, 2)
    sequence_info, one = {"padding_mask": ones(B, T)}, {"padding_mask": ones(1, S)}
    with pytest.raises(ValueError, match=r"context has shape \(1, 4, 8\); expected 2"):
        layer(floats(B, T, D), floats(1, S, D), sequence_info, one)


@pytest.mark.parametrize("kind", MAKE)
def test_lengths_not_known_yet_are_let_through(kind):
    x = keras.Input((None, D))
    mask = keras.Input((None,), dtype="bool")
    model = keras.Model([x, mask], MAKE[kind]()(x, {"padding_mask": mask}))
    given = [floats(B, T, D), ones(B, T, dtype="bool")]
    given[1][1] = False  # a row of nothing but padding
    answer = keras.ops.convert_to_numpy(compiled_on_jax(model)(given))
    assert answer.shape == (B, T, D)
    assert np.isfinite(answer).all()
