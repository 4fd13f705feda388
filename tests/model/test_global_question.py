"""An encoder whose global tokens are those of the first of two texts."""

from dataclasses import replace

import keras
import numpy as np
import pytest

from tests.model.compiling import compiled_on_jax
from tests.model.conftest import VOCABULARY_SIZE, small_config
from transbeam.configs.schema.attention import GlobalWindowAttentionConfig
from transbeam.configs.schema.objectives.supervised import SpanQAConfig
from transbeam.model.build import build_model
from transbeam.model.encoder import build_encoder

MOST = 7
WINDOW = GlobalWindowAttentionConfig(
    num_heads=2, window_size=2, num_global_tokens=MOST, global_tokens="first_segment"
)
# Two rows: question tokens with [CLS] and [SEP], and all tokens.
QUESTIONS, LENGTHS = (3, 6), (20, 16)


def config(attention=WINDOW, **keys):
    return replace(small_config(num_layers=1), attention=attention, **keys)


def inputs(packed: bool) -> dict[str, np.ndarray]:
    """The two texts in rows of their own, or both in a packed row."""
    random = np.random.default_rng(0)
    tokens = [random.integers(0, VOCABULARY_SIZE, length) for length in LENGTHS]
    segments = [
        np.arange(length) >= question
        for question, length in zip(QUESTIONS, LENGTHS, strict=True)
    ]
    if packed:
        columns = {
            "token_ids": np.concatenate(tokens),
            "segment_ids": np.concatenate(segments),
            "document_ids": np.repeat([1, 2], LENGTHS),
            "position_ids": np.concatenate([np.arange(n) for n in LENGTHS]),
        }
        rows = {name: column[np.newaxis] for name, column in columns.items()}
    else:
        shape = (2, max(LENGTHS))
        rows = {
            name: np.zeros(shape, int)
            for name in ("token_ids", "segment_ids", "padding_mask")
        }
        for row, length in enumerate(LENGTHS):
            rows["token_ids"][row, :length] = tokens[row]
            rows["segment_ids"][row, :length] = segments[row]
            rows["padding_mask"][row, :length] = 1
    return {name: row.astype("int32") for name, row in rows.items()}


@pytest.mark.parametrize("packed", [False, True])
def test_what_each_token_sees(packed: bool) -> None:
    """A change of one token reaches those that attend to it, and no others."""
    encoder = build_encoder(config(num_segments=0), VOCABULARY_SIZE, packed=packed)
    read = compiled_on_jax(encoder)
    whole = inputs(packed)
    assert encoder.input.keys() == whole.keys()
    length = whole["token_ids"].shape[1]
    for row in range(len(whole["token_ids"])):
        rows = {
            name: np.repeat(values[row : row + 1], length + 1, axis=0)
            for name, values in whole.items()
        }
        # The first row has no change, each other one that of a token.
        index = np.arange(length)
        changed = rows["token_ids"]
        changed[index + 1, index] = (changed[index + 1, index] + 1) % VOCABULARY_SIZE
        found = keras.ops.convert_to_numpy(read(rows)["sequence_output"])
        reached = np.abs(found[1:] - found[0]).max(axis=-1) > 0  # (changed, seeing)
        document = rows.get("document_ids", rows.get("padding_mask"))[0]
        question = (rows["segment_ids"][0] == 0) & (document > 0)
        near = np.abs(index - index[:, np.newaxis]) <= 1
        sees = near | question | question[:, np.newaxis]
        sees &= (document == document[:, np.newaxis]) & (document > 0)
        real = np.ix_(document > 0, document > 0)
        np.testing.assert_array_equal(reached[real], sees[real])


def test_packed_is_alone_with_questions_of_other_lengths() -> None:
    answers = {}
    for packed in (False, True):
        model = build_model(
            config(num_segments=2),
            SpanQAConfig(),
            VOCABULARY_SIZE,
            packed=packed,
            seed=3,
        )
        answers[packed] = keras.ops.convert_to_numpy(
            compiled_on_jax(model)(inputs(packed))["start_logits"]
        )
    first, second = LENGTHS
    alone = [answers[False][0, :first], answers[False][1, :second]]
    np.testing.assert_allclose(
        answers[True][0], np.concatenate(alone), rtol=0, atol=1e-5
    )


def test_segments_without_vectors_are_an_input_for_global_tokens_alone() -> None:
    encoder = build_encoder(config(num_segments=1), VOCABULARY_SIZE)
    assert "segment_ids" in encoder.input
    (table,) = (w for w in encoder.weights if w.path.startswith("segment_embedding"))
    assert table.shape[0] == 1
    plain = replace(WINDOW, global_tokens=None)
    for other in (
        build_encoder(config(plain, num_segments=1), VOCABULARY_SIZE),
        build_encoder(config(num_segments=1), VOCABULARY_SIZE, segments=False),
    ):
        assert "segment_ids" not in other.input
        # The same weights, by which one begins with the other's.
        assert [w.path for w in other.weights] == [w.path for w in encoder.weights]
