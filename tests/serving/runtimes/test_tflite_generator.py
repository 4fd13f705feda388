"""A phone's generation with a cache equals that of Keras on the whole row."""

import numpy as np
import pytest

from tests.serving.phone.generative_models import (
    PREFIX,
    SLOTS,
    T5,
    keras_logits,
    shared,
    some_ids,
    writer_of,
)
from transbeam.configs.base.errors import ArtifactError, DataError
from transbeam.configs.schema.attention import (
    FullAttentionConfig,
    SlidingWindowAttentionConfig,
)
from transbeam.configs.schema.block import (
    AlibiPositionConfig,
    LearnedPositionConfig,
    NoPositionConfig,
    RelativeBiasPositionConfig,
    RopePositionConfig,
    SinusoidalPositionConfig,
)
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.phone.conversion.tflite_converter import convert
from transbeam.serving.runtimes.tflite_generator import PhoneWriter
from transbeam.serving.signatures.base.interface import Endpoint, ids_spec
from transbeam.serving.signatures.generation.tflite_signatures import DECODE

FULL = {"num_heads": 4, "dropout": 0.0}
CASES = {
    "rope-grouped": (
        RopePositionConfig(),
        FullAttentionConfig(num_key_value_heads=2, **FULL),
    ),
    "learned": (LearnedPositionConfig(offset=2), FullAttentionConfig(**FULL)),
    "sinusoidal-unscaled": (
        SinusoidalPositionConfig(),
        FullAttentionConfig(scale_scores=False, **FULL),
    ),
    "relative_bias-window": (
        RelativeBiasPositionConfig(num_buckets=8, max_distance=6),
        SlidingWindowAttentionConfig(window_size=6, **FULL),
    ),
    "alibi-window": (
        AlibiPositionConfig(),
        SlidingWindowAttentionConfig(window_size=4, num_key_value_heads=1, **FULL),
    ),
    "none-multi_query": (
        NoPositionConfig(),
        FullAttentionConfig(num_key_value_heads=1, **FULL),
    ),
}
# Alibi's has one head for all, too; and positions that say nothing are the fewest ops.
# A pair's scores are unscaled, too, and learned positions are added as sinusoids are.
THOROUGH = ("none-multi_query", "sinusoidal-unscaled")
# Of two blocks each has its own cache; relative biases are of the first and for all.
BLOCKS = {"relative_bias-window": 2}
CLOSE = {"rtol": 0, "atol": 2e-5}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.thorough if name in THOROUGH else ())
        for name in CASES
    ],
)
def decoder(request):
    position, attention = CASES[request.param]
    blocks = BLOCKS.get(request.param, 1)
    trained, files = shared(
        "causal", position=position, attention=attention, num_layers=blocks
    )
    return trained, files["float32"]


@pytest.mark.parametrize("delegate", [True, False])
def test_every_split_of_a_prompt(decoder, delegate):
    """Pieces of all sizes, filled up or not, and what is read after them."""
    trained, file = decoder
    writer = writer_of(file, delegate=delegate)
    row = some_ids(trained, SLOTS)
    expected = keras_logits(trained, row)
    for length in range(1, SLOTS + 1):
        scores = writer.begin(row[:length])
        np.testing.assert_allclose(scores, expected[length - 1], **CLOSE)
        for place in range(length, min(length + 3, SLOTS)):
            scores = writer.read(row[place])
            np.testing.assert_allclose(scores, expected[place], **CLOSE)


def test_greedy_is_keras_s(decoder):
    trained, file = decoder
    writer = writer_of(file)
    for length in (1, 6, 13):
        row = some_ids(trained, length, seed=length)
        row += writer.write(row, SLOTS - length).token_ids.tolist()
        assert len(row) == SLOTS
        # No token sees a later one, so one question about all is one about each.
        likeliest = keras_logits(trained, row).argmax(axis=1).tolist()
        assert row[length:] == likeliest[length - 1 : -1]


def test_what_fills_up_a_piece_is_never_seen(decoder):
    trained, file = decoder
    model = TFLiteRunner(file)
    ids, other = np.split(np.array(some_ids(trained, 14), np.int32), 2)
    empty = {
        name: np.zeros(shape, np.float32)
        for name, shape in model.shapes(DECODE).items()
        if name.startswith("kv_cache")
    }

    def scores(tokens, positions):
        kept = model.run("prefill_7", tokens=tokens, input_pos=positions, **empty)
        token, place = tokens[:, 3], np.array([3], np.int32)
        answers = model.run(DECODE, tokens=token[None], input_pos=place, **kept)
        answers.pop("logits")
        # The token after it is read where other ones filled up.
        token, place = ids[None, :1], np.array([4], np.int32)
        return model.run(DECODE, tokens=token, input_pos=place, **answers)["logits"]

    places = np.arange(7, dtype=np.int32)
    zeros = places * (places < 4)
    mixed = np.concatenate([ids[:4], other[4:]])
    padded = np.concatenate([ids[:4], other[4:] * 0])
    expected = scores(padded[None], zeros)
    np.testing.assert_array_equal(scores(mixed[None], zeros), expected)
    np.testing.assert_array_equal(scores(mixed[None], places), expected)
    row = [*ids[:4].tolist(), int(ids[0])]
    np.testing.assert_allclose(expected[0, 0], keras_logits(trained, row)[-1], **CLOSE)


@pytest.fixture(scope="module")
def prefix():
    trained, files = shared(**PREFIX)
    return trained, files["float32"]


@pytest.mark.parametrize("delegate", [True, False])
def test_a_prefix_sees_itself_in_both_directions(prefix, delegate):
    trained, file = prefix
    writer = writer_of(file, delegate=delegate)
    row = some_ids(trained, SLOTS)
    for length in range(1, SLOTS + 1):
        expected = keras_logits(trained, row, given=length)
        np.testing.assert_allclose(
            writer.begin(row[:length]), expected[length - 1], **CLOSE
        )
        for place in range(length, min(length + 3, SLOTS)):
            scores = writer.read(row[place])
            np.testing.assert_allclose(scores, expected[place], **CLOSE)
    # The test would not notice a prefix that is read from left to right alone.
    assert np.abs(expected[3] - keras_logits(trained, row, given=1)[3]).max() > 0.01


@pytest.fixture(
    scope="module",
    params=[
        T5,
        pytest.param({"name": "transformer_base"}, marks=pytest.mark.thorough),
        pytest.param({"name": "text_to_text"}, marks=pytest.mark.thorough),
    ],
)
def pair(request):
    trained, files = shared(**request.param)
    return trained, files["float32"]


@pytest.mark.parametrize("delegate", [True, False])
def test_answers_to_a_source(pair, delegate):
    trained, file = pair
    writer = writer_of(file, delegate=delegate)
    longest = trained.config.data.sequence_length
    row = some_ids(trained, SLOTS)
    for length, source_length in ((1, 1), (1, longest), (9, 20), (SLOTS, 5)):
        source = some_ids(trained, source_length, seed=1)
        expected = keras_logits(trained, row, source)
        scores = writer.begin(row[:length], source)
        np.testing.assert_allclose(scores, expected[length - 1], **CLOSE)
        for place in range(length, min(length + 3, SLOTS)):
            scores = writer.read(row[place])
            np.testing.assert_allclose(scores, expected[place], **CLOSE)


def test_an_answer_is_keras_s(pair):
    trained, file = pair
    source, row = some_ids(trained, 11), [0]
    row += writer_of(file).write(row, 8, source=source).token_ids.tolist()
    assert len(row) == 9
    likeliest = keras_logits(trained, row, source).argmax(axis=1).tolist()
    assert row[1:] == likeliest[:-1]


def test_a_text_ends_with_what_ends_it(decoder):
    trained, file = decoder
    writer, row = writer_of(file), some_ids(trained, 3)
    written = writer.write(row, 8)
    assert written.logits.shape == (8, trained.tokenizer.vocabulary_size)
    tokens = written.token_ids.tolist()
    stop = tokens[4]
    ended = writer.write(row, 8, stop_token_ids=[stop]).token_ids.tolist()
    assert ended == tokens[: tokens.index(stop) + 1]


def test_as_many_tokens_as_there_is_room_for(prefix):
    writer, row = writer_of(prefix[1]), some_ids(prefix[0], SLOTS)
    for length in (SLOTS, SLOTS - 3):
        written = writer.write(row[:length], 1000)
        assert len(written.token_ids) == SLOTS + 1 - length
    none = writer.write(row[:2], 0)
    assert none.token_ids.tolist() == []
    assert none.logits.shape == (0, prefix[0].tokenizer.vocabulary_size)


def test_prompts_that_are_refused(prefix, pair, tmp_path):
    writer, row = writer_of(prefix[1]), some_ids(prefix[0], SLOTS)
    with pytest.raises(
        DataError, match=r"the prompt has 0 tokens; model_float32\.tflite"
    ):
        writer.write([], 3)
    with pytest.raises(DataError, match=r"the prompt has 21 tokens; .* from 1 to 20"):
        writer.begin([*row, 1])
    writer.begin(row)
    with pytest.raises(DataError, match=f"holds {SLOTS} tokens and is full"):
        writer.read(1)
    with pytest.raises(DataError, match="has no encoder"):
        writer.begin(row, source=[1])
    with pytest.raises(DataError, match="the source has 0 tokens"):
        writer_of(pair[1]).write([0], 3)
    length = pair[0].config.data.sequence_length
    with pytest.raises(DataError, match=f"the source has {length + 1} tokens"):
        writer_of(pair[1]).write([0], 3, source=[1] * (length + 1))


def test_a_file_that_does_not_write_is_refused(tmp_path):
    inputs = [ids_spec("token_ids", 1, 4)]
    endpoint = Endpoint(lambda token_ids: {"sums": token_ids + token_ids}, inputs)
    content = convert(dict.fromkeys(("embed", "fill_mask"), endpoint), 4, tmp_path)
    with pytest.raises(ArtifactError, match=r"signatures are embed, fill_mask; expect"):
        PhoneWriter(TFLiteRunner(content))
