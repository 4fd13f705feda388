"""Beam search against a plain one in Python, which keeps lists of texts."""

import itertools

import numpy as np
import pytest
from keras import ops

from tests.model.compiling import compiled, compiled_on_jax
from tests.model.covering_arrays import in_pairs
from tests.model.generation.fake_model import (
    VOCABULARY_SIZE,
    numbers,
    table_model,
)
from tests.model.generation.test_generate import PROMPTS, write
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.generation import BeamConfig, GenerationConfig
from transbeam.model.generation.beam import Searches
from transbeam.model.generation.beam import search as search_rows
from transbeam.model.generation.decode_functions import DecodeFunctions
from transbeam.model.generation.generate import generate
from transbeam.model.generation.ragged import left_pad

MODEL = table_model(scale=1.0)


def search(
    prompts=PROMPTS,
    model=MODEL,
    number=6,
    stops=(2, 7),
    compiling=compiled_on_jax,
    **options,
):
    """Results of each row, best first: lists of tokens and score."""
    token_ids, padding_mask = left_pad(prompts)
    options = {"num_results": options.get("num_beams", 4), **options}
    config = GenerationConfig(
        method=BeamConfig(**options), max_new_tokens=number, stop_token_ids=stops
    )

    def run(token_ids, padding_mask):
        return generate(model.steps, token_ids, padding_mask, config=config)

    found = numbers(compiling(run)(token_ids, padding_mask))
    return [
        [
            (tokens[:length].tolist(), float(score))
            for tokens, length, score in zip(*row, strict=True)
        ]
        for row in zip(
            found["token_ids"], found["lengths"], found["scores"], strict=True
        )
    ]


def log_softmax(logits):
    logits = logits.astype("float64")
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def plain_search(
    prompt,
    model=MODEL,
    number=6,
    stops=(2, 7),
    num_beams=4,
    length_penalty=1.0,
    early_stopping=True,
):
    """One row: Hugging Face's scorer as its documentation and results describe it."""
    beams, finished, done = [([], 0.0)], [], False
    for length in range(1, number + 1):
        candidates = [
            ([*tokens, token], total + chance)
            for tokens, total in beams
            for token, chance in enumerate(
                log_softmax(model.logits_after([*prompt, *tokens]))
            )
        ]
        candidates.sort(key=lambda candidate: -candidate[1])
        beams = []
        for rank, (tokens, total) in enumerate(candidates):
            if tokens[-1] not in stops:
                beams.append((tokens, total))
            elif rank < num_beams:
                finished.append((tokens, total / length**length_penalty))
            if len(beams) == num_beams:
                break
        finished = sorted(finished, key=lambda text: -text[1])[:num_beams]
        if len(finished) == num_beams:
            attainable = candidates[0][1] / length**length_penalty
            if early_stopping or finished[-1][1] >= attainable:
                done = True
                break
    if not done:
        finished += [(text, total / number**length_penalty) for text, total in beams]
    return sorted(finished, key=lambda text: -text[1])[:num_beams]


@in_pairs(
    num_beams=[1, 2, 4],
    length_penalty=[0.0, 0.6, 2.0, -0.5],
    early_stopping=[True, False],
)
def test_equals_the_plain_search(num_beams, length_penalty, early_stopping):
    options = {
        "num_beams": num_beams,
        "length_penalty": length_penalty,
        "early_stopping": early_stopping,
    }
    for prompt, found in zip(PROMPTS, search(**options), strict=True):
        expected = plain_search(prompt, **options)
        assert [text for text, _ in found] == [text for text, _ in expected]
        np.testing.assert_allclose(
            [score for _, score in found],
            [score for _, score in expected],
            rtol=1e-5,
            atol=1e-5,
        )


WISHES = [
    {"number": 6, "num_beams": 1, "length_penalty": 1.0},
    {"number": 2, "num_beams": 4, "length_penalty": 0.0},
    {"number": 5, "num_beams": 3, "length_penalty": 2.0},
    {"number": 1, "num_beams": 2, "length_penalty": -0.5},
]


@pytest.mark.parametrize("early_stopping", [True, False])
def test_each_row_is_searched_as_it_asks(early_stopping):
    prompts = [PROMPTS[place % len(PROMPTS)] for place in range(len(WISHES))]
    wishes = {name: [one[name] for one in WISHES] for name in WISHES[0]}
    searches = Searches(
        ops.array(wishes["number"], "int32"),
        ops.array(wishes["num_beams"], "int32"),
        ops.array(wishes["length_penalty"], "float32"),
    )
    config = GenerationConfig(stop_token_ids=(2, 7))

    def run(token_ids, padding_mask):
        found = search_rows(
            MODEL.steps,
            (token_ids, padding_mask),
            searches,
            config,
            room=6,
            width=4,
            early_stopping=early_stopping,
        )
        return found._asdict()

    found = numbers(compiled_on_jax(run)(*left_pad(prompts)))
    for row, (prompt, asked) in enumerate(zip(prompts, WISHES, strict=True)):
        expected = plain_search(prompt, early_stopping=early_stopping, **asked)
        for place, (text, score) in enumerate(expected):
            length = found["lengths"][row, place]
            assert found["token_ids"][row, place, :length].tolist() == text
            assert found["scores"][row, place] == pytest.approx(score, rel=1e-5)


def test_one_beam_is_greedy():
    greedy = write(stop_token_ids=(2, 7), max_new_tokens=6)
    found = search(model=table_model(), num_beams=1)
    assert [row[0][0] for row in found] == greedy


def test_enough_beams_find_the_likeliest_of_all_texts():
    number, prompt = 2, [1, 2]

    def total(tokens):
        chances = (
            log_softmax(MODEL.logits_after([*prompt, *tokens[:place]]))[token]
            for place, token in enumerate(tokens)
        )
        return sum(chances)

    texts = itertools.product(range(VOCABULARY_SIZE), repeat=number)
    best = max(texts, key=total)
    found = search([prompt], number=number, stops=(), num_beams=VOCABULARY_SIZE)
    assert tuple(found[0][0][0]) == best
    assert found[0][0][1] == pytest.approx(total(best) / number, abs=1e-5)


def test_a_row_is_the_same_alone_and_compiled_or_not():
    together = search(compiling=compiled)
    for prompt, row in zip(PROMPTS, together, strict=True):
        alone = search([prompt])[0]
        assert [text for text, _ in alone] == [text for text, _ in row]
        np.testing.assert_allclose(
            [score for _, score in alone], [score for _, score in row], rtol=1e-5
        )


def test_what_a_row_has_finished_stays_while_others_go_on():
    # The stop is so likely that the first row has its texts at once.
    model = table_model(scale=1.0)
    state = model.state_after([1, 2, 3])
    model.table[state, 7] += 9.0
    rows = search(model=model, num_beams=2, number=8)
    assert rows[0][0][0] == [7]
    assert rows[0] == search([PROMPTS[0]], model=model, num_beams=2, number=8)[0]
    assert max(len(text) for text, _ in rows[1]) > 2


def test_stop_sequences_end_beams():
    token_ids, padding_mask = left_pad(PROMPTS)
    best = search(stops=(), num_beams=3)[0][0][0]
    config = GenerationConfig(
        method=BeamConfig(num_beams=3, length_penalty=0.0, early_stopping=False),
        max_new_tokens=6,
        stop_sequences=(tuple(best[2:4]),),
    )
    found = generate(MODEL.steps, token_ids, padding_mask, config=config)
    # Its sum can only fall from here on, so nothing beats it.
    assert numbers(found)["token_ids"][0, 0].tolist() == [*best[:4], 0, 0]


def test_results_are_the_best_of_the_beams():
    whole, some = search(num_beams=4), search(num_beams=4, num_results=2)
    assert some == [row[:2] for row in whole]
    with pytest.raises(ConfigError, match="num_results=3 is more than num_beams=2"):
        BeamConfig(num_beams=2, num_results=3)


def test_forced_tokens_cost_nothing():
    config = GenerationConfig(
        method=BeamConfig(num_beams=2), max_new_tokens=2, forced_tokens=(5, 6)
    )
    found = numbers(generate(MODEL.steps, ops.array([[1]]), config=config))
    assert found["token_ids"].tolist() == [[[5, 6]]]
    assert found["scores"].tolist() == [[0.0]]


def test_what_is_banned_is_not_among_the_results():
    steps = fake_steps_for_bans()
    method = BeamConfig(num_beams=4, num_results=4)
    config = GenerationConfig(
        method=method,
        banned_sequences=tuple((token,) for token in range(6)),
        stop_token_ids=(0,),
        max_new_tokens=6,
    )
    result = generate(steps, np.array([[1]]), config=config)
    lengths = ops.convert_to_numpy(result["lengths"])[0].tolist()
    texts = ops.convert_to_numpy(result["token_ids"])[0].tolist()
    assert (texts[0], lengths) == ([6] * 6, [6, 0, 0, 0])


def fake_steps_for_bans() -> DecodeFunctions:
    """Seven tokens, all alike."""

    def scores(token_ids):
        return ops.zeros((*token_ids.shape, 7))

    return DecodeFunctions(
        lambda tokens, mask, slots: (scores(tokens)[:, -1], ()),
        lambda tokens, cache, index: (scores(tokens), ()),
    )
