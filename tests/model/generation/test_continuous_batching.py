"""Rows that join and leave a running batch are written as those of a fixed one."""

import numpy as np
import pytest
from keras import ops

from tests.model.conftest import others_thorough, tensorflow_only
from tests.model.generation.test_keras_decode_functions import (
    PAIRS,
    VOCABULARY_SIZE,
    options,
)
from transbeam.configs.schema.model import DecoderConfig, Seq2SeqModelConfig
from transbeam.model.decoder import build_decoder
from transbeam.model.generation.continuous_batching import (
    ROOM,
    advance,
    join,
    keep,
    start,
)
from transbeam.model.generation.keras_decode_functions import (
    decoder_steps,
    seq2seq_steps,
)
from transbeam.model.generation.ragged import left_pad
from transbeam.model.generation.request_batch import RequestBatch, write_requests
from transbeam.model.kernels.cache_update import updating_in_place
from transbeam.model.seq2seq import build_seq2seq

STOPS = (3,)
# Of caches, and of places.
KINDS = [
    ("learned", "full"),
    ("alibi", "grouped"),
    ("relative_bias", "window"),
    ("rope", "kernel"),
]
# Of each row: when it comes, its prompt, tokens, temperature, top_k, top_p, seed.
ROWS = [
    (0, [1, 2, 4, 5, 6, 7], 9, 0.0, 0, 1.0, 0),
    (0, [8], 4, 1.0, 0, 1.0, 1),
    (2, [9, 10, 11], 14, 1.0, 5, 1.0, 2),
    (2, [12, 13, 14, 15, 16, 17, 18, 19], 3, 0.0, 0, 1.0, 0),
    (3, [20, 21], 12, 1.3, 0, 0.7, 3),
    (11, [1, 1, 1, 1, 1], 6, 0.0, 0, 1.0, 0),
]
SOURCES = [[9, 8, 7, 6], [5, 4], [4, 2, 1], [6], [7, 7, 7, 7, 7, 7, 7], [1, 2]]


def requests_of(rows):
    columns = zip(*(row[2:] for row in rows), strict=True)
    dtypes = ("int32", "float32", "int32", "float32", "int32")
    return RequestBatch(*map(np.array, columns, dtypes))


def side_by_side(steps, rows):
    """The tokens of texts that begin together and wait for each other."""
    token_ids, padding_mask = left_pad([row[1] for row in rows])
    found = write_requests(
        steps,
        token_ids,
        padding_mask,
        requests_of(rows),
        room=max(row[2] for row in rows),
        stop_token_ids=STOPS,
    )
    ids, lengths, finished = map(ops.convert_to_numpy, found)
    tokens = [row[:length].tolist() for row, length in zip(ids, lengths, strict=True)]
    return list(zip(tokens, finished.tolist(), strict=True))


def written(steps_of, rows, advance=advance):
    """The tokens of rows that come when they want and leave when they have ended."""
    found: dict[int, tuple[list[int], bool]] = {}
    running, there = None, []
    for moment in range(60):
        if running is not None:
            running = advance(steps_of(there), running)
        coming = [number for number, row in enumerate(rows) if row[0] == moment]
        if coming:
            prompts, mask = left_pad([rows[number][1] for number in coming])
            requests = requests_of([rows[number] for number in coming])
            others = start(steps_of(coming), prompts, mask, requests)
            running = others if running is None else join(running, others)
            there += coming
        if running is None:
            continue
        over, finished = map(ops.convert_to_numpy, running.ended(STOPS))
        new = ops.convert_to_numpy(running.num_new)
        length = int(running.length)
        ids = ops.convert_to_numpy(running.token_ids)[:, :length]
        assert running.columns <= length + ROOM
        for place, number in enumerate(there):
            if over[place]:
                tokens = ids[place, length - new[place] :].tolist()
                found[number] = tokens, bool(finished[place])
        left = np.flatnonzero(~over).astype("int32")
        there = [there[place] for place in left]
        if not there:
            running = None
        elif over.any():
            running = keep(running, left)
            lengths = ops.convert_to_numpy(running.num_tokens)
            assert int(running.length) == lengths.max()
    return [found[number] for number in range(len(rows))]


@pytest.mark.parametrize("names", others_thorough(PAIRS, KINDS), ids="-".join)
def test_rows_that_come_and_go_are_written_as_side_by_side(randomise, names):
    num_layers = 2 if names == ("learned", "full") else 1
    sizes = {"num_layers": num_layers, "max_sequence_length": 40}
    config = DecoderConfig(**options(*names, **sizes))
    steps = decoder_steps(randomise(build_decoder(config, VOCABULARY_SIZE)))
    found = written(lambda there: steps, ROWS)
    assert found == side_by_side(steps, ROWS)
    assert len({len(tokens) for tokens, _ in found}) > 2


def test_texts_that_are_answered_may_be_of_any_length(randomise):
    config = Seq2SeqModelConfig(**options("rope", max_sequence_length=40))
    model = randomise(build_seq2seq(config, VOCABULARY_SIZE))

    def steps_of(there):
        ids, mask = left_pad([SOURCES[number][::-1] for number in there])
        return seq2seq_steps(model, ids[:, ::-1], mask[:, ::-1])

    rows = [(row[0], [1], *row[2:]) for row in ROWS]
    found = written(steps_of, rows)
    assert found == side_by_side(steps_of(range(len(rows))), rows)


def test_more_columns_are_made_when_all_are_full(randomise):
    config = DecoderConfig(
        **options("rope", num_layers=1, max_sequence_length=3 * ROOM)
    )
    steps = decoder_steps(randomise(build_decoder(config, VOCABULARY_SIZE)))
    row = (0, [1, 2, 4], 2 * ROOM + 3, 1.0, 0, 1.0, 7)
    found = written(lambda there: steps, [row])
    assert found == side_by_side(steps, [row])


@tensorflow_only
def test_a_traced_step_that_uses_the_cache_up_writes_the_same(randomise):
    import tensorflow as tf

    sizes = {"num_layers": 1, "max_sequence_length": 40}
    config = DecoderConfig(**options("learned", **sizes))
    steps = decoder_steps(randomise(build_decoder(config, VOCABULARY_SIZE)))

    @tf.function(reduce_retracing=True)
    def traced(running):
        with updating_in_place():
            return advance(steps, running)

    def in_graph(_, running):
        return traced(running._replace(length=tf.constant(running.length)))

    def as_numbers(steps, running):
        running = in_graph(steps, running)
        return running._replace(length=int(running.length))

    found = written(lambda there: steps, ROWS, as_numbers)
    assert found == side_by_side(steps, ROWS)
