import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.configs.base.errors import DataError
from transbeam.model.generation.ragged import left_pad, unpad

PROMPTS = st.lists(
    st.lists(st.integers(0, 9), min_size=1, max_size=5), min_size=1, max_size=4
)


@given(prompts=PROMPTS, multiple=st.integers(1, 8))
def test_prompts_come_back_out(prompts, multiple):
    token_ids, padding_mask = left_pad(prompts, padding=10, multiple=multiple)
    assert token_ids.shape == padding_mask.shape
    assert token_ids.shape[1] % multiple == 0
    assert token_ids.shape[1] < max(map(len, prompts)) + multiple
    for row, mask, prompt in zip(token_ids, padding_mask, prompts, strict=True):
        assert row[mask == 1].tolist() == prompt
        assert (row[mask == 0] == 10).all()
        assert (np.diff(mask) >= 0).all()


@given(texts=PROMPTS)
def test_texts_lose_what_fills_them_up(texts):
    longest = max(map(len, texts))
    rows = np.array([text + [0] * (longest - len(text)) for text in texts])
    assert unpad(rows, np.array([len(text) for text in texts])) == texts


@pytest.mark.parametrize(
    ("prompts", "message"),
    [([], "prompts is empty"), ([[1], []], r"prompts\[1\] has no token")],
)
def test_what_is_no_prompt(prompts, message):
    with pytest.raises(DataError, match=message):
        left_pad(prompts)
