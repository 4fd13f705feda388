import numpy as np
import pytest
from keras import ops

from tests.model.compiling import compiled, compiled_on_jax
from tests.model.conftest import tensorflow_only
from tests.model.generation.fake_model import (
    VOCABULARY_SIZE,
    FakeModel,
    numbers,
    table_model,
)
from tests.model.generation.test_generate import PROMPTS, write
from transbeam.configs.schema.generation import GenerationConfig, SpeculativeConfig
from transbeam.model.generation.generate import generate
from transbeam.model.generation.ragged import left_pad, unpad
from transbeam.model.generation.sampling import shape_scores

MODEL = table_model()
FREE = table_model(scale=0.7)
# Agrees with the model often, but not always.
NEAR = FakeModel(MODEL.table + table_model(5, scale=1.0).table)
FAR = table_model(9)


def ahead(
    method,
    draft=NEAR,
    model=MODEL,
    prompts=PROMPTS,
    seeds=None,
    compiling=compiled_on_jax,
    **options,
):
    config = GenerationConfig(method=method, **{"max_new_tokens": 8, **options})

    def run(token_ids, padding_mask):
        return generate(
            model.steps,
            token_ids,
            padding_mask,
            config=config,
            seeds=seeds,
            draft=draft.steps,
        )

    result = numbers(compiling(run)(*left_pad(prompts)))
    return unpad(result["token_ids"], result["lengths"])


@pytest.mark.parametrize("draft", [MODEL, NEAR, FAR])
@pytest.mark.parametrize("number", [1, 3])
def test_greedily_it_is_greedy(draft, number):
    method = SpeculativeConfig(num_draft_tokens=number)
    assert ahead(method, draft) == write()


def test_greedily_it_is_greedy_with_rules_and_stops():
    options = {
        "stop_token_ids": (7,),
        "stop_sequences": ((10, 5),),
        "min_new_tokens": 3,
        "repetition_penalty": 1.5,
        "banned_sequences": ((6, 10), (4,)),
        "forced_tokens": (6, 1),
    }
    assert ahead(SpeculativeConfig(), NEAR, **options) == write(**options)


def test_compiled_it_is_the_same():
    method = SpeculativeConfig(sample=True, num_draft_tokens=2)
    eager, graph = (
        ahead(method, model=FREE, seeds=np.array([3, 4, 5]), compiling=compiling)
        for compiling in (compiled_on_jax, compiled)
    )
    assert eager == graph


def test_no_more_tokens_than_asked_for():
    for number in (1, 2, 5):
        texts = ahead(SpeculativeConfig(num_draft_tokens=4), max_new_tokens=number)
        assert texts == write(max_new_tokens=number)


@tensorflow_only  # JAX traces the loop, and does not run it step by step
def test_a_draft_that_agrees_saves_steps():
    steps_taken = []

    class Counting(FakeModel):
        def step(self, token_ids, cache, index):
            if ops.shape(token_ids)[1] > 1:
                steps_taken.append(1)
            return super().step(token_ids, cache, index)

    config = GenerationConfig(
        method=SpeculativeConfig(num_draft_tokens=4), max_new_tokens=9
    )
    model = Counting(MODEL.table)
    generate(model.steps, np.array([[1]]), config=config, draft=MODEL.steps)
    # One of nine is the prompt's; four each in two rounds.
    assert len(steps_taken) == 2


def test_a_sample_depends_neither_on_its_neighbours_nor_on_the_number_ahead():
    seeds = np.array([3, 4, 5])
    one, three = (
        ahead(
            SpeculativeConfig(sample=True, num_draft_tokens=number),
            model=FREE,
            seeds=seeds,
        )
        for number in (1, 3)
    )
    assert one == three
    method = SpeculativeConfig(sample=True, num_draft_tokens=2)
    alone = ahead(method, model=FREE, prompts=PROMPTS[1:2], seeds=seeds[1:2])
    assert alone == three[1:2]


@pytest.mark.parametrize("draft", [NEAR, FAR])
def test_samples_are_distributed_as_the_model_alone_says(draft):
    number, prompt = 20_000, [1, 2]
    method = SpeculativeConfig(
        sample=True, num_draft_tokens=2, temperature=1.3, top_k=6
    )
    texts = np.array(
        ahead(
            method,
            draft,
            FREE,
            prompts=[prompt] * number,
            seeds=np.arange(number),
            max_new_tokens=3,
        )
    )
    counts = np.zeros((VOCABULARY_SIZE,) * 3)
    np.add.at(counts, tuple(texts.T), 1)

    def chances(tokens):
        scores = FREE.logits_after([*prompt, *tokens])[None]
        scores = ops.convert_to_numpy(shape_scores(ops.array(scores), method))[0]
        raised = np.exp(scores.astype("float64") - scores.max())
        return raised / raised.sum()

    expected = np.zeros_like(counts)
    for first, one in enumerate(chances([])):
        for second, two in enumerate(chances([first])):
            expected[first, second] = one * two * chances([first, second])
    expected *= number
    assert counts[expected == 0].sum() == 0
    common = expected > 20
    statistic = ((counts - expected)[common] ** 2 / expected[common]).sum()
    # Chi-square: its mean is the number of cells, its variance twice that.
    cells = common.sum()
    assert statistic < cells + 4 * np.sqrt(2 * cells)


def test_models_that_do_not_fit_are_refused():
    config = GenerationConfig(method=SpeculativeConfig())
    small = FakeModel(MODEL.table[:, :5])
    with pytest.raises(ValueError, match=r"draft: its logits have shape \(1, 5\)"):
        generate(MODEL.steps, np.array([[1]]), config=config, draft=small.steps)
    sums = MODEL.steps._replace(can_rewind=False)
    with pytest.raises(ValueError, match="draft: its cache cannot drop tokens"):
        generate(MODEL.steps, np.array([[1]]), config=config, draft=sums)
