"""Ids that a model has not are refused in the graph, and said by their names."""

import numpy as np
import pytest
import tensorflow as tf

from transbeam.configs.schema.attention import GlobalWindowAttentionConfig
from transbeam.configs.schema.model import EncoderConfig
from transbeam.serving.base.graph_errors import plain_message
from transbeam.serving.signatures.base.id_checks import check_ids
from transbeam.serving.signatures.base.interface import TEXT, Endpoint, ids_spec

MODEL = EncoderConfig(max_sequence_length=4, num_segments=2)
VOCABULARY = 10
ONE = {"token_ids": [[0, 9, 3]], "segment_ids": [[0, 1, 1]], "length": [3]}
TWO = {"encoder_token_ids": [[1]], "decoder_token_ids": [[1, 2]]}
MASKED = {"token_ids": [[1, 2], [3, 4]], "masked_positions": [[0, 1, 1], [1, 0, 0]]}


def ask(inputs, model=MODEL):
    specs = [ids_spec(name, *[None] * np.ndim(v)) for name, v in inputs.items()]
    plain = Endpoint(lambda *given: {"count": tf.size(given[0])}, specs)
    asked = check_ids({"ask": plain}, model, VOCABULARY)["ask"]
    assert asked.inputs == specs
    run = tf.function(asked.function, input_signature=specs)
    values = [tf.constant(value, tf.int32) for value in inputs.values()]
    return int(run(*values)["count"])


@pytest.mark.parametrize(
    ("inputs", "count"),
    [
        (ONE, 3),
        ({**ONE, "length": [0]}, 3),
        (TWO, 1),
        (MASKED, 4),
        ({"token_ids": [[]]}, 0),
        ({"token_ids": [[9, 9, 9, 9]]}, 4),
    ],
)
def test_ids_that_the_model_has(inputs, count):
    assert ask(inputs) == count


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({**ONE, "token_ids": [[0, 10, 3]]}, "token_ids: found 10; expected 0 to 9"),
        ({**ONE, "token_ids": [[0, -1, 3]]}, "token_ids: found -1; expected 0 to 9"),
        (
            {"token_ids": [[-(2**31), 2**31 - 1]]},
            "token_ids: found -2147483648; expected 0 to 9",
        ),
        (
            {"token_ids": [[1] * 5]},
            "token_ids: tokens in a row: found 5; expected 0 to 4",
        ),
        ({**ONE, "segment_ids": [[0, 2, 0]]}, "segment_ids: found 2; expected 0 to 1"),
        ({**ONE, "length": [4]}, "length: found 4; expected 0 to 3"),
        ({**ONE, "prefix_length": [-1]}, "prefix_length: found -1; expected 0 to 3"),
        (
            {**TWO, "encoder_token_ids": [[10]]},
            "encoder_token_ids: found 10; expected 0 to 9",
        ),
        (
            {**TWO, "decoder_token_ids": [[1] * 5]},
            "decoder_token_ids: tokens in a row: found 5; expected 0 to 4",
        ),
        (
            {**MASKED, "masked_positions": [[0], [2]]},
            "masked_positions: found 2; expected 0 to 1",
        ),
        (
            {**MASKED, "masked_positions": [[-1], [0]]},
            "masked_positions: found -1; expected 0 to 1",
        ),
    ],
)
def test_ids_that_the_model_has_not(inputs, message):
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        ask(inputs)
    assert plain_message(caught.value.message) == message


def test_segments_without_vectors_tell_global_tokens():
    """The model has no table of segments, and reads which of two a token is in."""
    model = EncoderConfig(
        max_sequence_length=4,
        attention=GlobalWindowAttentionConfig(global_tokens="first_segment"),
    )
    assert ask(ONE, model) == 3
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected 0 to 1"):
        ask({**ONE, "segment_ids": [[0, 2, 0]]}, model)


def test_signatures_of_texts_stay_as_they_are():
    texts = Endpoint(lambda text: {"text": text}, [TEXT])
    assert check_ids({"texts": texts}, MODEL, VOCABULARY)["texts"] is texts
