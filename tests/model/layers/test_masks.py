"""Whole masks, written out."""

import numpy as np
import pytest
from keras import ops

from transbeam.model.kernels.dispatch import for_phones
from transbeam.model.layers.masks import (
    FORBIDDEN,
    FORBIDDEN_IN_INT8,
    attention_mask,
    mask_bias,
)


@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_padding(dtype):
    mask = attention_mask(
        {"padding_mask": np.array([[1, 1, 1, 0], [1, 0, 0, 0]], dtype)}
    )
    assert ops.convert_to_numpy(mask).astype(int).tolist() == [
        [[1, 1, 1, 0]],
        [[1, 0, 0, 0]],
    ]


def test_packed_documents_and_padding():
    ids = np.array([[1, 1, 2, 2, 2, 0], [1, 2, 3, 3, 0, 0]], "int32")
    mask = ops.convert_to_numpy(attention_mask({"document_ids": ids})).astype(int)
    assert mask.tolist() == [
        [
            [1, 1, 0, 0, 0, 0],
            [1, 1, 0, 0, 0, 0],
            [0, 0, 1, 1, 1, 0],
            [0, 0, 1, 1, 1, 0],
            [0, 0, 1, 1, 1, 0],
            [0, 0, 0, 0, 0, 0],
        ],
        [
            [1, 0, 0, 0, 0, 0],
            [0, 1, 0, 0, 0, 0],
            [0, 0, 1, 1, 0, 0],
            [0, 0, 1, 1, 0, 0],
            [0, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 0, 0],
        ],
    ]


def test_a_document_need_not_be_in_one_piece():
    mask = attention_mask({"document_ids": np.array([[1, 2, 1]], "int32")})
    assert ops.convert_to_numpy(mask)[0].astype(int).tolist() == [
        [1, 0, 1],
        [0, 1, 0],
        [1, 0, 1],
    ]


def test_bias_of_padding_and_of_documents():
    padding = mask_bias(np.array([[[True, False]]]))
    documents = mask_bias(np.array([[[True, False], [False, False]]]))
    assert padding.shape == (1, 1, 1, 2)
    assert documents.shape == (1, 1, 2, 2)
    assert ops.convert_to_numpy(padding).tolist() == [[[[0.0, FORBIDDEN]]]]
    assert ops.convert_to_numpy(documents).tolist() == [
        [[[0.0, FORBIDDEN], [FORBIDDEN, FORBIDDEN]]]
    ]


def test_the_constant_is_finite_in_float16_and_nothing_after_the_softmax():
    assert np.isfinite(np.float16(FORBIDDEN))
    # A forbidden score 1,000 above the best allowed one is still lost in rounding.
    leak = np.exp(np.float64(FORBIDDEN) + 1000.0)
    assert leak < np.finfo("float32").eps / 10


def test_in_int8_the_constant_leaves_room_for_the_scores():
    with for_phones(in_int8=True):
        [[[[allowed, forbidden]]]] = ops.convert_to_numpy(
            mask_bias(np.array([[[True, False]]]))
        ).tolist()
    assert (allowed, forbidden) == (0.0, FORBIDDEN_IN_INT8)
    assert -forbidden / 255 < 0.25  # a step of eight bits, in nats
    assert np.exp(forbidden + 50.0) < 1e-4  # of a score 50 above the best allowed one
    with for_phones():
        found = ops.convert_to_numpy(mask_bias(np.array([[[False]]])))
    assert found.item() == FORBIDDEN


def test_causal_with_a_prefix_and_from_the_middle():
    sequence_info = {
        "padding_mask": np.array([[0, 1, 1, 1]], "int32"),
        "prefix_mask": np.array([[0, 1, 1, 0]], "int32"),
    }
    mask = ops.convert_to_numpy(attention_mask(sequence_info, causal=True)).astype(int)
    whole = [[0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 1, 1]]
    assert mask.tolist() == [whole]
    part = attention_mask(sequence_info, causal=True, start=2, size=2)
    assert ops.convert_to_numpy(part).astype(int).tolist() == [whole[2:]]
