"""Picking tokens out of their own rows."""

import keras
import numpy as np
import pytest

from tests.model.compiling import compiled
from tests.model.conftest import tensorflow_only
from transbeam.model.layers.lm_head import GatherTokens

ROWS = np.arange(12, dtype="float32").reshape(2, 6, 1)


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([[0], [6]], r"positions, of shape \(2, 1\), go from 0 to 6; expected .* to 5"),
        ([[-1], [0]], "go from -1 to 0"),
        ([[0]], r"positions has shape \(1, 1\); expected 2 rows"),
        ([[0.0], [1.0]], "positions has dtype float"),
    ],
)
def test_what_is_no_place_in_the_row_is_refused(positions, message):
    with pytest.raises(ValueError, match=message):
        GatherTokens()(ROWS, np.array(positions))


@tensorflow_only
@pytest.mark.parametrize("jit", [False, True])
def test_in_a_graph_no_other_row_is_read(jit):
    positions = np.array([[6, -1, 2], [11, -7, 5]], "int32")
    picked = compiled(GatherTokens(), jit=jit)(ROWS, positions)
    assert keras.ops.convert_to_numpy(picked)[..., 0].tolist() == [
        [5, 0, 2],
        [11, 6, 11],
    ]
