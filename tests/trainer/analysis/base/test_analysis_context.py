"""Batches of texts: similar lengths, every text once, the model's own inputs."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.trainer.analysis.base.analysis_context import AnalyzedTexts


def model(*names: str) -> keras.Model:
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    return keras.Model(inputs, list(inputs.values()))


def texts(*lengths: int) -> AnalyzedTexts:
    rows = [{"token_ids": np.arange(1, n + 1, dtype=np.int32)} for n in lengths]
    return AnalyzedTexts("some", tuple(rows))


SINGLE = model("token_ids", "padding_mask")


@given(st.lists(st.integers(1, 200), min_size=1, max_size=30), st.integers(1, 600))
def test_every_token_of_every_text_once(lengths, tokens):
    seen: dict[int, np.ndarray] = {}
    for batch in texts(*lengths).batches(SINGLE, tokens):
        ids, mask = batch.inputs["token_ids"], batch.inputs["padding_mask"]
        assert ids.dtype == mask.dtype == np.int32
        assert ids.size <= max(tokens, ids.shape[1])
        for number, row, real in zip(batch.index, ids, mask, strict=True):
            assert number not in seen
            seen[number] = row[real == 1]
            assert not row[real == 0].any()
    assert {n: row.tolist() for n, row in seen.items()} == {
        n: list(range(1, length + 1)) for n, length in enumerate(lengths)
    }


def test_few_shapes():
    shapes = {
        batch.inputs["token_ids"].shape[1]
        for batch in texts(*range(1, 101)).batches(SINGLE, 512)
    }
    assert shapes == {16, 32, 64, 128}


def test_never_wider_than_the_model():
    (batch,) = texts(20).batches(SINGLE, longest=24)
    assert batch.inputs["token_ids"].shape == (1, 24)


def test_both_sides_of_an_encoder_decoder():
    rows = [
        {
            "encoder_token_ids": np.ones(a, np.int32),
            "decoder_token_ids": np.ones(b, np.int32),
        }
        for a, b in ((3, 17), (2, 1))
    ]
    names = [
        f"{side}_{name}"
        for side in ("encoder", "decoder")
        for name in ("token_ids", "padding_mask")
    ]
    found = list(AnalyzedTexts("some", tuple(rows)).batches(model(*names)))
    assert [batch.index.tolist() for batch in found] == [[1], [0]]
    sums = {name: found[1].inputs[name].sum() for name in names}
    assert sums == dict(zip(names, (3, 3, 17, 17), strict=True))


@pytest.mark.parametrize("name", ["masked_positions", "segment_ids"])
def test_further_inputs(name):
    rows = ({"token_ids": np.ones(3, np.int32), "segment_ids": np.ones(3, np.int32)},)
    used = model("token_ids", name)
    (batch,) = AnalyzedTexts("some", rows).batches(used)
    assert set(batch.inputs) == {"token_ids", name}
    assert batch.inputs[name].sum() == (3 if name == "segment_ids" else 0)
