import numpy as np
import pytest
from keras import ops

from tests.model.compiling import compiled
from tests.model.conftest import tensorflow_only
from tests.model.generation.fake_model import numbers, table_model
from transbeam.configs.base.errors import ConfigError, DataError
from transbeam.configs.schema.generation import (
    GenerationConfig,
    GreedyConfig,
    SampleConfig,
    SpeculativeConfig,
)
from transbeam.model.generation.decode_functions import DecodeFunctions
from transbeam.model.generation.generate import generate
from transbeam.model.generation.ragged import left_pad, unpad

PROMPTS = [[1, 2, 3], [4], [5, 6]]
STEPS = table_model().steps


def write(prompts=PROMPTS, steps=STEPS, seeds=None, **options):
    """Texts, each as long as it is."""
    token_ids, padding_mask = left_pad(prompts)
    config = GenerationConfig(**{"max_new_tokens": 8, **options})
    result = generate(steps, token_ids, padding_mask, config=config, seeds=seeds)
    result = numbers(result)
    return unpad(result["token_ids"], result["lengths"])


def write_alone(tokens, stops=(), number=8):
    """The reference: one row, the whole text read again for each token."""
    model, tokens, new = table_model(), list(tokens), []
    while len(new) < number and not (new and new[-1] in stops):
        new.append(int(np.argmax(model.logits_after(tokens + new))))
    return new


def test_a_fake_model_spells_a_word():
    word = "sequentially"
    letters = [ord(letter) - ord("a") + 1 for letter in word]

    def scores_after(token_ids):
        # Each letter of this word comes but once or is followed by what its place says.
        place = ops.minimum(token_ids, len(word))
        return ops.one_hot(ops.take(ops.array([*letters, 0]), place), 32) * 9

    def prefill(token_ids, padding_mask, slots):
        start = ops.zeros_like(token_ids[:, -1:])
        return scores_after(start)[:, 0], {"place": start}

    def step(token_ids, cache, index):
        place = cache["place"] + 1
        return scores_after(place), {"place": place}

    config = GenerationConfig(max_new_tokens=len(word) + 3, stop_token_ids=(25,))
    result = numbers(
        generate(DecodeFunctions(prefill, step), np.array([[9]]), config=config)
    )
    spelt = "".join(chr(token + ord("a") - 1) for token in result["token_ids"][0, :12])
    assert spelt == word
    assert result["lengths"].tolist() == [12]
    assert result["token_ids"][0, 12:].tolist() == [0, 0, 0]


@pytest.mark.quick_on_jax
def test_greedy_is_the_highest_score_of_the_whole_text_each_time():
    assert write() == [write_alone(prompt) for prompt in PROMPTS]


def test_ragged_rows_end_each_at_its_own_stop():
    texts = write(stop_token_ids=(7, 2), max_new_tokens=30)
    assert texts == [write_alone(prompt, {7, 2}, 30) for prompt in PROMPTS]
    assert len({len(text) for text in texts}) > 1


@pytest.mark.parametrize("method", [GreedyConfig(), SampleConfig(top_p=0.9)])
@pytest.mark.parametrize("jit", [False, True])
def test_compiled_equals_eager(method, jit):
    token_ids, padding_mask = left_pad(PROMPTS)
    config = GenerationConfig(method=method, max_new_tokens=6, stop_token_ids=(7,))

    def run(token_ids, padding_mask, seeds):
        return generate(STEPS, token_ids, padding_mask, config=config, seeds=seeds)

    arguments = (token_ids, padding_mask, np.array([3, 4, 5], "int32"))
    eager, graph = numbers(run(*arguments)), numbers(compiled(run, jit=jit)(*arguments))
    assert eager["token_ids"].tolist() == graph["token_ids"].tolist()
    assert eager["lengths"].tolist() == graph["lengths"].tolist()


def test_a_sample_depends_on_its_seed_and_not_on_its_neighbours():
    method = SampleConfig(temperature=1.5)
    seeds = np.array([11, 12, -13], "int32")
    together = write(method=method, seeds=seeds)
    for prompt, seed, text in zip(PROMPTS, seeds, together, strict=True):
        assert write([prompt], method=method, seeds=np.array([seed])) == [text]
    assert together != write(method=method, seeds=seeds + 1)


@pytest.mark.quick_on_jax
def test_a_known_sample_stays_what_it_was():
    # The same under TensorFlow and JAX, in this version and the next.
    texts = write(method=SampleConfig(), seeds=np.array([1, 2, 3]), max_new_tokens=5)
    assert texts == [[10, 5, 7, 6, 3], [4, 7, 6, 6, 1], [0, 8, 4, 7, 3]]


def test_more_padding_changes_nothing():
    token_ids, padding_mask = left_pad(PROMPTS, multiple=7)
    assert token_ids.shape == (3, 7)
    config = GenerationConfig(max_new_tokens=8)
    result = numbers(generate(STEPS, token_ids, padding_mask, config=config))
    assert result["token_ids"].tolist() == write()


@tensorflow_only  # JAX traces the loop, and does not run it step by step
def test_no_step_after_the_last_token():
    steps_taken = []

    def step(token_ids, cache, index):
        steps_taken.append(int(index))
        return STEPS.step(token_ids, cache, index)

    counting = DecodeFunctions(STEPS.prefill, step)
    write([[1, 2]], steps=counting, max_new_tokens=4)
    assert steps_taken == [2, 3, 4]


@tensorflow_only  # JAX knows all shapes
def test_a_length_known_only_at_run_time():
    import tensorflow as tf

    free = tf.TensorSpec([None, None], tf.int32)

    @tf.function(input_signature=[free, free])
    def run(token_ids, padding_mask):
        config = GenerationConfig(max_new_tokens=8)
        return generate(STEPS, token_ids, padding_mask, config=config)["token_ids"]

    for prompts in (PROMPTS, PROMPTS[1:]):
        assert run(*left_pad(prompts)).numpy().tolist() == write(prompts)


def test_what_is_refused():
    config = GenerationConfig(max_new_tokens=8)
    one = np.array([[1, 2]])
    with pytest.raises(ValueError, match=r"token_ids has shape \(2,\); expected"):
        generate(STEPS, one[0], config=config)
    with pytest.raises(ValueError, match="token_ids has dtype float32"):
        generate(STEPS, one.astype("float32"), config=config)
    with pytest.raises(ValueError, match=r"padding_mask has shape \(1, 1\); expected"):
        generate(STEPS, one, one[:, :1], config=config)
    with pytest.raises(DataError, match=r"shape \(1, 0\): prompts without a token"):
        generate(STEPS, one[:, :0], config=config)
    two, mask = np.array([[0, 1], [0, 0]]), np.array([[0, 1], [0, 0]])
    with pytest.raises(DataError, match="padding_mask: row 1 is all padding"):
        generate(STEPS, two, mask, config=config)
    with pytest.raises(DataError, match="row 0 has padding after a token"):
        generate(STEPS, one, np.array([[1, 0]]), config=config)
    with pytest.raises(DataError, match="make 102, but the model reads 100"):
        generate(STEPS, one, config=GenerationConfig(max_new_tokens=100))
    with pytest.raises(ConfigError, match="stop_token_ids: there is no token 11"):
        generate(STEPS, one, config=GenerationConfig(stop_token_ids=(11,)))
    with pytest.raises(ValueError, match="seeds is None"):
        generate(STEPS, one, config=GenerationConfig(method=SampleConfig()))
    sample = GenerationConfig(method=SampleConfig())
    with pytest.raises(ValueError, match=r"seeds has shape \(2,\); expected one for"):
        generate(STEPS, one, config=sample, seeds=np.array([1, 2]))
    for seed in (2**32, -(2**31) - 1):
        with pytest.raises(ValueError, match=f"seeds, .* to {seed}; expected .* 32"):
            generate(STEPS, one, config=sample, seeds=np.array([seed]))
    with pytest.raises(ValueError, match="draft is None"):
        generate(STEPS, one, config=GenerationConfig(method=SpeculativeConfig()))


def test_an_exact_fit_is_not_refused():
    assert len(write([[1, 2]], max_new_tokens=98)[0]) == 98


def test_the_seeds_of_32_bits_are_all_different():
    def text(seeds):
        return write([[1]], method=SampleConfig(), seeds=seeds, max_new_tokens=5)

    # With a sign or without one, a seed is its bits.
    assert text([-1]) == text(np.array([2**32 - 1])) == text(np.array([-1], "int32"))
    assert len({str(text([seed])) for seed in (0, 1, 2**31 - 1, 2**31, -1)}) > 1


@tensorflow_only
def test_seeds_that_a_graph_could_cut_are_refused():
    import tensorflow as tf

    sample = GenerationConfig(method=SampleConfig(), max_new_tokens=2)

    @tf.function
    def run(seeds):
        return generate(STEPS, np.array([[1, 2]]), config=sample, seeds=seeds)

    run(tf.constant([1], "int32"))
    with pytest.raises(ValueError, match="seeds has dtype int64"):
        run(tf.constant([1], "int64"))
