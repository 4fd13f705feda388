"""Requests side by side: each row is written as if it had been asked for alone."""

import numpy as np
import pytest
from keras import ops

from tests.model.compiling import compiled
from tests.model.generation.fake_model import VOCABULARY_SIZE, numbers, table_model
from transbeam.configs.schema.generation import (
    GenerationConfig,
    GreedyConfig,
    SampleConfig,
)
from transbeam.model.generation import sampling
from transbeam.model.generation.generate import generate
from transbeam.model.generation.logits_processors import NEVER
from transbeam.model.generation.ragged import left_pad
from transbeam.model.generation.request_batch import RequestBatch, write_requests
from transbeam.model.generation.sampling import keep_likeliest, shape_scores

PROMPTS = [[1, 2, 3], [4], [5, 6], [5, 6], [7, 7, 7, 1], [2]]
STEPS = table_model().steps
STOPS = (9,)
# Of each row: tokens, temperature, top_k, top_p, seed, min_p.
WISHES = [
    (8, 0.0, 0, 1.0, 0, 0.0),
    (3, 0.0, 5, 0.5, 1, 0.9),
    (8, 1.0, 0, 1.0, 2, 0.0),
    (8, 0.7, 3, 1.0, 3, 0.3),
    (5, 1.3, 0, 0.6, 4, 0.0),
    (8, 1.0, 6, 0.8, 5, 0.5),
]


def requests_of(wishes):
    columns = zip(*wishes, strict=True)
    dtypes = ("int32", "float32", "int32", "float32", "int32", "float32")
    return RequestBatch(*map(np.array, columns, dtypes))


def written(prompts, wishes, **options):
    token_ids, padding_mask = left_pad(prompts)
    options = {"room": max(wish[0] for wish in wishes), **options}
    options = {"stop_token_ids": STOPS, **options}
    return write_requests(
        STEPS, token_ids, padding_mask, requests_of(wishes), **options
    )


def texts_of(result):
    result = numbers(result._asdict())
    rows = zip(result["token_ids"], result["lengths"], strict=True)
    return [row[:length].tolist() for row, length in rows]


def written_by_config(prompt, wish):
    """The same with everything known when the function is traced."""
    number, temperature, top_k, top_p, seed, min_p = wish
    method = GreedyConfig()
    if temperature:
        drawn = {"temperature": temperature, "min_p": min_p}
        method = SampleConfig(top_k=top_k, top_p=top_p, **drawn)
    config = GenerationConfig(
        method=method, max_new_tokens=number, stop_token_ids=STOPS
    )
    result = generate(STEPS, np.array([prompt]), config=config, seeds=np.array([seed]))
    result = numbers(result)
    return result["token_ids"][0, : result["lengths"][0]].tolist()


def test_each_row_is_what_a_config_of_its_own_gives():
    result = written(PROMPTS, WISHES)
    expected = [written_by_config(p, w) for p, w in zip(PROMPTS, WISHES, strict=True)]
    assert texts_of(result) == expected
    assert len({tuple(text) for text in expected}) > 4  # they are of different kinds
    ended = [text[-1] in STOPS for text in expected]
    assert 0 < sum(ended) < len(ended)
    assert numbers(result._asdict())["finished"].tolist() == ended


@pytest.mark.parametrize("order", [[5, 0, 3], [2], [4, 1]])
def test_a_row_does_not_depend_on_its_neighbours(order):
    everything = texts_of(written(PROMPTS, WISHES))
    some = written([PROMPTS[i] for i in order], [WISHES[i] for i in order])
    assert texts_of(some) == [everything[i] for i in order]


def test_compiled_it_is_the_same():
    token_ids, padding_mask = left_pad(PROMPTS)

    def write(token_ids, padding_mask, *wishes):
        return write_requests(
            STEPS,
            token_ids,
            padding_mask,
            RequestBatch(*wishes),
            room=8,
            stop_token_ids=STOPS,
        )._asdict()

    asked = requests_of(WISHES)[:6]
    result = numbers(compiled(write)(token_ids, padding_mask, *asked))
    expected = numbers(written(PROMPTS, WISHES)._asdict())
    for name, value in expected.items():
        np.testing.assert_array_equal(result[name], value)


def test_what_else_ends_a_text():
    def three_tokens(history):
        rows = ops.shape(history.token_ids)[0]
        return ops.broadcast_to(history.num_new >= 3, (rows,))

    result = written(PROMPTS, WISHES, ends=three_tokens)
    texts = texts_of(result)
    assert max(map(len, texts)) == 3
    assert numbers(result._asdict())["finished"].all()
    whole = texts_of(written(PROMPTS, WISHES))
    assert texts == [text[:3] for text in whole]


def test_no_more_than_there_is_room_for():
    token_ids, padding_mask = left_pad([[4]])
    wishes = requests_of([(8, 0.0, 0, 1.0, 0, 0.0)])
    result = write_requests(STEPS, token_ids, padding_mask, wishes, room=2)
    assert texts_of(result) == [written_by_config([4], (2, 0.0, 0, 1.0, 0, 0.0))]
    assert not numbers(result._asdict())["finished"].any()


@pytest.mark.parametrize("seed", range(6))
def test_the_likeliest_are_those_that_a_config_keeps(seed):
    generator = np.random.default_rng(seed)
    scores = generator.normal(0, 2, (6, VOCABULARY_SIZE)).astype("float32")
    top_k = generator.choice([0, *range(2, VOCABULARY_SIZE + 3)], 6).astype("int32")
    top_p = np.append(generator.uniform(0, 1, 5), 1.0).astype("float32")
    kept = ops.convert_to_numpy(keep_likeliest(scores, top_k, top_p))
    for row, k, p, found in zip(scores, top_k, top_p, kept, strict=True):
        config = SampleConfig(top_k=int(k), top_p=float(p))
        expected = ops.convert_to_numpy(shape_scores(ops.array(row[None]), config))[0]
        np.testing.assert_array_equal(found > NEVER, expected > NEVER)
        np.testing.assert_array_equal(found[found > NEVER], row[found > NEVER])


@pytest.mark.parametrize("few", [1, 3, 8])
def test_the_likeliest_are_found_among_few_or_among_all(few, monkeypatch):
    generator = np.random.default_rng(0)
    scores = generator.normal(0, 2, (200, 20)).round(1).astype("float32")  # with ties
    scores[::7, 3:9] = NEVER
    top_k = generator.integers(0, 22, 200).astype("int32")
    top_p = generator.choice([0.0, 0.3, 0.9, 0.999, 1.0], 200).astype("float32")
    expected = numbers({"kept": keep_likeliest(scores, top_k, top_p)})["kept"]
    monkeypatch.setattr(sampling, "_FEW", few)
    found = numbers({"kept": keep_likeliest(scores, top_k, top_p)})["kept"]
    np.testing.assert_array_equal(found, expected)
    # Who is sure of its threshold has the one that a look at all would find.
    threshold, is_sure = sampling._lowest_kept(scores, top_k, top_p, few)
    kept = numbers({"kept": ops.where(scores < threshold, NEVER, scores)})["kept"]
    is_sure = ops.convert_to_numpy(is_sure)[:, 0]
    assert is_sure.any()
    assert not is_sure.all()
    np.testing.assert_array_equal(kept[is_sure], expected[is_sure])


def test_all_are_kept_where_all_are_wanted():
    scores = np.zeros((1, 50_000), "float32")  # their probabilities' sum passes 1
    kept = keep_likeliest(scores, np.array([0], "int32"), np.array([1.0], "float32"))
    assert ops.convert_to_numpy(kept > NEVER).all()


def test_no_tokens_are_an_empty_text_beside_others():
    result = written(PROMPTS[:2], [(0, 1.0, 0, 1.0, 0, 0.0), WISHES[0]])
    texts = texts_of(result)
    assert texts == [[], written_by_config(PROMPTS[1], WISHES[0])]
    assert not numbers(result._asdict())["finished"][0]
    alone = written(PROMPTS[:1], [(0, 0.0, 0, 1.0, 0, 0.0)], room=1)
    assert texts_of(alone) == [[]]
