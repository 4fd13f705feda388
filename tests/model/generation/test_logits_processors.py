"""Processors and stops, by hand and against plain Python."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from tests.model.generation.test_generate import write
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.generation import GenerationConfig
from transbeam.model.generation.logits_processors import (
    NEVER,
    ConfigLogitsProcessors,
    penalise_repetition,
)
from transbeam.model.generation.ragged import left_pad
from transbeam.model.generation.stop_sequences import StopSequences
from transbeam.model.generation.token_buffer import TokenBuffer

TOKENS = st.integers(0, 3)


def history_of(prompts, new=()):
    """Prompts, and new tokens column by column."""
    history = TokenBuffer.allocate(*left_pad(prompts), room=6)
    for column in new:
        history = history.append(ops.array(column, dtype="int32"))
    return history


def excluded(scores):
    return (ops.convert_to_numpy(scores) <= NEVER / 2).tolist()


@given(
    texts=st.lists(st.lists(TOKENS, min_size=1, max_size=6), min_size=3, max_size=3),
    sequences=st.lists(
        st.lists(TOKENS, min_size=1, max_size=4).map(tuple), min_size=3, max_size=3
    ),
)
def test_sequences_end_where_python_says(texts, sequences):
    texts, sequences = [*texts, [0] * 6], [*sequences, (0, 0, 0, 0)]  # equal shapes
    table = StopSequences(sequences)
    ends = ops.convert_to_numpy(table.about_to_end(history_of(texts)))
    expected = [
        [
            text[len(text) - len(seq) + 1 :] == list(seq[:-1])
            and len(text) >= len(seq) - 1
            for seq in sequences
        ]
        for text in texts
    ]
    assert ends.tolist() == expected
    completing = ops.convert_to_numpy(table.completing_tokens(ops.array(expected), 4))
    for row, wanted in zip(completing, expected, strict=True):
        tokens = {seq[-1] for seq, end in zip(sequences, wanted, strict=True) if end}
        assert set(np.flatnonzero(row)) == tokens


def test_repetition_counts_prompt_and_new_tokens_but_not_padding():
    history = history_of([[1], [2, 3]], new=[[4, 2]])
    scores = ops.array([[1.0, 1.0, -1.0, 1.0, -1.0]] * 2)
    lowered = ops.convert_to_numpy(penalise_repetition(scores, history, 2.0))
    assert lowered.tolist() == [[1, 0.5, -1, 1, -2], [1, 1, -2, 0.5, -1]]


def test_banned_tokens_and_sequences():
    rules = ConfigLogitsProcessors(
        GenerationConfig(banned_sequences=((1,), (3, 4), (2, 3, 0))), 5
    )
    scores = rules.adjust(ops.zeros((2, 5)), history_of([[2, 3], [3, 2]]))
    assert excluded(scores) == [
        [True, True, False, False, True],
        [False, True, False, False, False],
    ]


def test_a_banned_sequence_may_begin_in_the_prompt_but_a_stop_may_not():
    banned = ConfigLogitsProcessors(GenerationConfig(banned_sequences=((3, 4),)), 5)
    stops = ConfigLogitsProcessors(GenerationConfig(stop_sequences=((3, 4),)), 5)
    history = history_of([[3]])
    assert excluded(banned.adjust(ops.zeros((1, 5)), history))[0][4]
    assert not ops.convert_to_numpy(stops.finished_by(ops.array([4]), history))[0]
    history = history.append(ops.array([3], dtype="int32"))
    assert ops.convert_to_numpy(stops.finished_by(ops.array([4]), history))[0]


def test_forced_tokens_come_first_and_then_the_model_writes():
    texts = write(forced_tokens=(9, 9, 3))
    assert [text[:3] for text in texts] == [[9, 9, 3]] * 3
    free = [write([[*prompt, 9, 9, 3]], max_new_tokens=5)[0] for prompt in PROMPTS]
    assert [text[3:] for text in texts] == free


PROMPTS = [[1, 2, 3], [4], [5, 6]]


@pytest.mark.parametrize("minimum", [1, 4, 8])
def test_no_text_ends_before_its_minimum(minimum):
    every = tuple(range(5))
    texts = write(stop_token_ids=every, min_new_tokens=minimum, max_new_tokens=8)
    for text in texts:
        assert len(text) >= minimum
        assert not set(text[: minimum - 1]) & set(every)


def test_a_stop_sequence_ends_a_text_and_stays_in_it():
    whole = write([[1, 2, 3]], max_new_tokens=8)[0]
    texts = write([[1, 2, 3]], stop_sequences=(tuple(whole[2:4]), (1, 1, 1, 1, 1)))
    assert texts == [whole[:4]]


def test_the_minimum_holds_for_stop_sequences_too():
    whole = write([[1, 2, 3]], max_new_tokens=8)[0]
    stop = (tuple(whole[2:4]),)
    text = write([[1, 2, 3]], stop_sequences=stop, min_new_tokens=6)[0]
    assert text[:3] == whole[:3]
    assert text[3] != whole[3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_new_tokens": 9, "max_new_tokens": 8}, "min_new_tokens=9 is more than"),
        ({"stop_sequences": ((),)}, "stop_sequences: a sequence has at least one"),
        ({"banned_sequences": ((1, -2),)}, r"banned_sequences: \[1, -2\] has an id"),
    ],
)
def test_configs_that_make_no_sense(options, message):
    with pytest.raises(ConfigError, match=message):
        GenerationConfig(**options)


@pytest.mark.parametrize(
    "key", ["stop_token_ids", "forced_tokens", "stop_sequences", "banned_sequences"]
)
def test_tokens_beyond_the_vocabulary_are_named(key):
    value = ((4, 5),) if key.endswith("sequences") else (4, 5)
    with pytest.raises(ConfigError, match=f"{key}: there is no token 5; ids go"):
        ConfigLogitsProcessors(GenerationConfig(**{key: value}), 5)
