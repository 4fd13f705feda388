"""Reading with a cache equals reading the whole text again."""

from functools import partial

import keras
import numpy as np
import pytest
from keras import ops

from tests.model.compiling import compiled, compiled_on_jax
from tests.model.conftest import others_thorough
from tests.model.generation.fake_model import numbers
from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.attention import (
    FullAttentionConfig,
    KernelAttentionConfig,
    SlidingWindowAttentionConfig,
)
from transbeam.configs.schema.block import (
    AlibiPositionConfig,
    GatedFeedForwardConfig,
    LearnedPositionConfig,
    NoPositionConfig,
    RelativeBiasPositionConfig,
    RmsNormConfig,
    RopePositionConfig,
    SinusoidalPositionConfig,
)
from transbeam.configs.schema.generation import (
    BeamConfig,
    ContrastiveConfig,
    GenerationConfig,
    SampleConfig,
    SpeculativeConfig,
)
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    Seq2SeqModelConfig,
)
from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    PrefixConfig,
    SpanCorruptionConfig,
)
from transbeam.model.build import build_model
from transbeam.model.decoder import build_decoder
from transbeam.model.encoder import build_encoder
from transbeam.model.generation.generate import generate
from transbeam.model.generation.keras_decode_functions import (
    decoder_steps,
    seq2seq_steps,
)
from transbeam.model.generation.ragged import left_pad, unpad
from transbeam.model.seq2seq import build_seq2seq

VOCABULARY_SIZE = 23
PROMPTS = [[1, 2, 3, 4, 5], [6, 7], [8]]
SOURCES = [[9, 8, 7, 6], [5, 4], [3, 2, 1]]
FULL = FullAttentionConfig(num_heads=4)
POSITIONS = {
    "learned": LearnedPositionConfig(),
    "learned_offset": LearnedPositionConfig(offset=2),
    "sinusoidal": SinusoidalPositionConfig(),
    "relative_bias": RelativeBiasPositionConfig(num_buckets=8, max_distance=6),
    "alibi": AlibiPositionConfig(),
    "rope": RopePositionConfig(),
    "none": NoPositionConfig(),
}
ATTENTIONS = {
    "full": FULL,
    "grouped": FullAttentionConfig(num_heads=4, num_key_value_heads=2, head_dim=6),
    "multi_query": FullAttentionConfig(num_heads=4, num_key_value_heads=1),
    "unscaled": FullAttentionConfig(num_heads=4, scale_scores=False),
    "window": SlidingWindowAttentionConfig(num_heads=4, window_size=4),
    "window_grouped": SlidingWindowAttentionConfig(
        num_heads=4, num_key_value_heads=2, window_size=2
    ),
    "kernel": KernelAttentionConfig(num_heads=4, feature_map="elu"),
}
PAIRS = [(position, "full") for position in POSITIONS]
PAIRS += [("rope", attention) for attention in ATTENTIONS if attention != "full"]
PAIRS += [("relative_bias", "window"), ("alibi", "window"), ("alibi", "grouped")]
# Each position and each attention once.
ONCE = [(position, "full") for position in ("learned_offset", "sinusoidal", "none")]
ONCE += [("learned", "full"), ("relative_bias", "window"), ("alibi", "grouped")]
ONCE += [
    ("rope", attention)
    for attention in ("multi_query", "unscaled", "window_grouped", "kernel")
]


def options(position="rope", attention="full", **changes):
    chosen = {
        "num_layers": 2,
        "hidden_dim": 16,
        "max_sequence_length": 24,
        "position": POSITIONS[position],
        "attention": ATTENTIONS[attention],
    }
    return {**chosen, **changes}


@pytest.fixture
def decoder(randomise):
    def build(*names, **changes):
        config = DecoderConfig(**options(*names, **changes))
        return randomise(build_decoder(config, VOCABULARY_SIZE))

    return build


@pytest.fixture
def seq2seq(randomise):
    def build(*names, **changes):
        config = Seq2SeqModelConfig(**options(*names, **changes))
        return randomise(build_seq2seq(config, VOCABULARY_SIZE))

    return build


def whole_logits(model, tokens, source=None):
    """The model's own, of one text at once: `(T, V)`."""
    row = {"token_ids": np.array([tokens]), "padding_mask": np.ones((1, len(tokens)))}
    if source is not None:
        both = {"encoder": np.array([source]), "decoder": np.array([tokens])}
        row = {}
        for side, ids in both.items():
            row[f"{side}_token_ids"] = ids
            row[f"{side}_padding_mask"] = np.ones_like(ids)
    row = {name: value.astype("int32") for name, value in row.items()}
    return ops.convert_to_numpy(compiled_on_jax(model)(row)["logits"])[0]


def check_reading(steps, model, sources=(None, None, None)):
    """Prompts, then one more token, then three at once."""
    more = np.random.default_rng(0).integers(1, VOCABULARY_SIZE, (3, 4)).astype("int32")

    def read(prompts, mask, more):
        logits, cache = steps.prefill(prompts, mask, 12)
        one, cache = steps.step(more[:, :1], cache, ops.array(5, dtype="int32"))
        three, cache = steps.step(more[:, 1:], cache, ops.array(6, dtype="int32"))
        return ops.concatenate([ops.expand_dims(logits, 1), one, three], axis=1)

    found = compiled_on_jax(read)(*left_pad(PROMPTS), more)
    found = ops.convert_to_numpy(found)
    for row, (prompt, source) in enumerate(zip(PROMPTS, sources, strict=True)):
        expected = whole_logits(model, [*prompt, *more[row].tolist()], source)
        np.testing.assert_allclose(
            found[row], expected[len(prompt) - 1 :], rtol=2e-4, atol=2e-4
        )


@pytest.mark.parametrize("names", others_thorough(PAIRS, ONCE), ids="-".join)
def test_a_decoder_reads_with_a_cache_as_without(decoder, names):
    model = decoder(*names)
    check_reading(decoder_steps(model), model)


@pytest.mark.parametrize(
    "changes",
    [
        {"tie_embeddings": False, "vocabulary_multiple": 8},
        {"norm": RmsNormConfig(placement="post")},
        {
            "norm": RmsNormConfig(),
            "feedforward": GatedFeedForwardConfig(intermediate_dim=20),
        },
        {"embedding_scale": True, "embeddings_norm": True},
        {"embedding_dim": 6, "embeddings_norm": True},
        {"embedding_dim": 6, "tie_embeddings": False},
    ],
)
def test_what_else_a_decoder_may_have(decoder, changes):
    model = decoder(num_layers=1, **changes)
    check_reading(decoder_steps(model), model)


@pytest.mark.parametrize(
    "names",
    [
        ("rope", "grouped"),
        pytest.param(("relative_bias", "full"), marks=pytest.mark.thorough),
        ("alibi", "multi_query"),
    ],
    ids="-".join,
)
def test_prompts_are_prefixes_whose_tokens_see_each_other(randomise, names):
    config = DecoderConfig(**options(*names))
    model = randomise(build_model(config, PrefixConfig(), VOCABULARY_SIZE))
    texts = write(decoder_steps(model))["token_ids"]
    for text, prompt in zip(texts, PROMPTS, strict=True):
        row = np.array([[*prompt, *text]], "int32")
        prefix = (np.arange(row.shape[1]) < len(prompt))[None].astype("int32")
        inputs = {"token_ids": row, "padding_mask": np.ones_like(row)}
        logits = compiled_on_jax(model)({**inputs, "prefix_mask": prefix})["logits"]
        best = ops.convert_to_numpy(logits)[0, len(prompt) - 1 : -1].argmax(axis=-1)
        assert best.tolist() == text.tolist()
    causal = build_model(config, CausalConfig(), VOCABULARY_SIZE)
    causal.set_weights(model.get_weights())
    read = [decoder_steps(of).prefill(*left_pad(PROMPTS), 12) for of in (model, causal)]
    off = np.abs(np.subtract(*(ops.convert_to_numpy(logits) for logits, _ in read)))
    assert (off.max(axis=1) > 1e-2).tolist() == [True, True, False]  # one token alone


@pytest.mark.parametrize(
    ("names", "changes"),
    [
        pytest.param(("sinusoidal", "full"), {}, marks=pytest.mark.thorough),
        (("relative_bias", "grouped"), {"scale_logits": True}),
        (("rope", "window"), {"tie_embeddings": False, "num_decoder_layers": 1}),
        pytest.param(("learned", "multi_query"), {}, marks=pytest.mark.thorough),
        (("learned", "full"), {"embedding_dim": 6, "scale_logits": True}),
    ],
)
def test_a_pair_reads_with_a_cache_as_without(seq2seq, names, changes):
    model = seq2seq(*names, **changes)
    sources, mask = left_pad(SOURCES)
    # Padding of a source stands behind it, as in training.
    sources = np.array([[*row, *[0] * (4 - len(row))] for row in SOURCES], "int32")
    mask = (sources != 0).astype("int32")
    check_reading(seq2seq_steps(model, sources, mask), model, SOURCES)


def write(
    steps,
    prompts=PROMPTS,
    seeds=None,
    draft=None,
    compiling=compiled_on_jax,
    **changes,
):
    config = GenerationConfig(**{"max_new_tokens": 6, **changes})

    def run(token_ids, padding_mask):
        return generate(
            steps, token_ids, padding_mask, config=config, seeds=seeds, draft=draft
        )

    return numbers(compiling(run)(*left_pad(prompts)))


def check_greedy(texts, prompts, model, sources=(None, None, None)):
    for text, prompt, source in zip(texts, prompts, sources, strict=True):
        logits = whole_logits(model, [*prompt, *text], source)
        assert logits[len(prompt) - 1 : -1].argmax(axis=-1).tolist() == text.tolist()


ONE_GRAPH = [(("rope", "grouped"), True), (("relative_bias", "full"), False)]
OTHER_WAY = [(names, not jit) for names, jit in ONE_GRAPH]
OTHER_WAY += [(("alibi", "window"), jit) for jit in (False, True)]


@pytest.mark.parametrize(
    ("names", "jit"),
    [
        pytest.param(*ONE_GRAPH[0], marks=pytest.mark.quick_on_jax),
        ONE_GRAPH[1],
        *(pytest.param(*case, marks=pytest.mark.thorough) for case in OTHER_WAY),
    ],
)
def test_greedy_in_one_graph(decoder, names, jit):
    model = decoder(*names, num_layers=1)
    in_one = partial(compiled, jit=jit)
    texts = write(decoder_steps(model), compiling=in_one)["token_ids"]
    check_greedy(texts, PROMPTS, model)


def test_a_pair_answers_from_a_single_token(seq2seq):
    model = seq2seq("relative_bias", "full", num_layers=1)
    sources = np.array(SOURCES[:1], "int32")

    def run(sources, mask):
        steps = seq2seq_steps(model, sources, mask)
        config = GenerationConfig(max_new_tokens=6)
        return generate(steps, np.array([[0]]), config=config)["token_ids"]

    run = compiled_on_jax(run)
    texts = ops.convert_to_numpy(run(sources, np.ones_like(sources)))
    check_greedy(texts, [[0]], model, SOURCES[:1])


@pytest.mark.parametrize(
    "attention", others_thorough(["full", "grouped", "window"], ["grouped", "window"])
)
def test_with_a_draft_it_is_greedy(decoder, attention):
    model, draft = (
        decoder("rope", attention, num_layers=1),
        decoder("none", num_layers=1),
    )
    greedy = write(decoder_steps(model))["token_ids"]
    ahead = write(
        decoder_steps(model), draft=decoder_steps(draft), method=SpeculativeConfig()
    )
    assert ahead["token_ids"].tolist() == greedy.tolist()


def test_writing_ahead_to_the_last_position(decoder):
    # The draft goes beyond the 24 learned positions; what is kept does not.
    model = decoder("learned", num_layers=1)
    options = {"prompts": [[1] * 20], "max_new_tokens": 4}
    greedy = write(decoder_steps(model), **options)["token_ids"]
    method = SpeculativeConfig(num_draft_tokens=3)
    steps = decoder_steps(model)
    ahead = write(steps, draft=steps, method=method, **options)["token_ids"]
    assert ahead.tolist() == greedy.tolist()


def test_one_beam_is_greedy_and_more_find_better(decoder):
    model = decoder("learned", "grouped", num_layers=1)
    steps = decoder_steps(model)
    greedy = write(steps)["token_ids"]
    one = write(steps, method=BeamConfig(num_beams=1))
    assert one["token_ids"][:, 0].tolist() == greedy.tolist()
    four = write(steps, method=BeamConfig(num_beams=4, num_results=2))
    assert (four["scores"][:, 0] >= one["scores"][:, 0] - 1e-5).all()
    for row, prompt in enumerate(PROMPTS):
        for tokens, score in zip(
            four["token_ids"][row], four["scores"][row], strict=True
        ):
            logits = whole_logits(model, [*prompt, *tokens]).astype("float64")
            chances = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
            new = chances[len(prompt) - 1 : -1][np.arange(6), tokens]
            assert score == pytest.approx(new.mean(), abs=1e-4)


def test_beams_share_the_context_of_their_text(seq2seq):
    model = seq2seq("sinusoidal", "full", num_layers=1)
    sources = np.array([[9, 8, 7], [5, 4, 0]], "int32")
    config = GenerationConfig(method=BeamConfig(num_beams=3), max_new_tokens=5)
    start = np.array([[1], [1]], "int32")

    def run(sources, mask, start):
        return generate(seq2seq_steps(model, sources, mask), start, config=config)

    mask = (sources != 0).astype("int32")
    run = compiled_on_jax(run)
    both = numbers(run(sources, mask, start))["token_ids"]
    alone = numbers(run(sources[1:, :2], mask[1:, :2], start[1:]))
    assert both[1].tolist() == alone["token_ids"][0].tolist()


def test_contrastive_search_keeps_hidden_states(decoder):
    steps = decoder_steps(decoder("rope", num_layers=1), keep_hidden=True)
    greedy = write(steps)["token_ids"].tolist()
    method = ContrastiveConfig(top_k=3, penalty=0.0)
    assert write(steps, method=method)["token_ids"].tolist() == greedy
    method = ContrastiveConfig(top_k=3, penalty=0.8)
    together = write(steps, method=method)["token_ids"]
    assert together.tolist() != greedy
    alone = write(steps, prompts=PROMPTS[1:2], method=method)["token_ids"]
    assert alone[0].tolist() == together[1].tolist()


@pytest.mark.parametrize("jit", others_thorough([False, True], [False]))
def test_a_sample_is_the_same_compiled_or_not_and_alone_or_not(decoder, jit):
    steps = decoder_steps(decoder("rope", "grouped", num_layers=1))
    seeds = np.array([7, 8, 9], "int32")
    method = SampleConfig(temperature=2.0, top_p=0.95)
    config = GenerationConfig(max_new_tokens=6, method=method)
    eager = numbers(generate(steps, *left_pad(PROMPTS), config=config, seeds=seeds))
    texts = unpad(eager["token_ids"], eager["lengths"])
    in_one = partial(compiled, jit=jit)
    graph = write(steps, compiling=in_one, seeds=seeds, method=method)
    assert unpad(graph["token_ids"], graph["lengths"]) == texts
    alone = write(steps, prompts=PROMPTS[1:2], seeds=seeds[1:2], method=method)
    assert alone["token_ids"][0].tolist() == texts[1]


def test_half_precision_caches_are_half_as_large(randomise):
    config = DecoderConfig(**options("rope", "grouped"))
    model = build_decoder(config, VOCABULARY_SIZE, dtype="mixed_bfloat16")
    steps = decoder_steps(randomise(model, 0.1))
    logits, cache = steps.prefill(*left_pad(PROMPTS), 12)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    kept = cache["layers"][0]["key"]
    assert keras.backend.standardize_dtype(kept.dtype) == "bfloat16"
    assert tuple(kept.shape) == (3, 2, 12, 6)  # two heads for four queries
    # Weights cast once for all steps are those that each step would cast.
    texts = write(steps)["token_ids"].tolist()
    assert texts == write(steps._replace(begin=None))["token_ids"].tolist()


def test_texts_longer_than_the_positions_are_refused(decoder):
    steps = decoder_steps(decoder("learned"))
    assert write(steps, prompts=[[1] * 18])["token_ids"].shape == (1, 6)
    with pytest.raises(DataError, match="prompts of 19 tokens"):
        write(steps, prompts=[[1] * 19])
    # With rotary or relative positions nothing limits the length.
    endless = decoder_steps(decoder("alibi"))
    assert write(endless, prompts=[[1] * 30])["token_ids"].shape == (1, 6)


def test_models_that_cannot_write_are_refused(randomise):
    encoder = build_encoder(EncoderConfig(num_layers=1, hidden_dim=8), VOCABULARY_SIZE)
    packed = build_decoder(
        DecoderConfig(num_layers=1, hidden_dim=8), VOCABULARY_SIZE, packed=True
    )
    with pytest.raises(ValueError, match=r"its inputs are .*document_ids"):
        decoder_steps(packed)
    with pytest.raises(ValueError, match="no logits"):
        decoder_steps(encoder)


def check_written_alike(trained, bare, steps):
    weights = {weight.path: ops.convert_to_numpy(weight) for weight in trained.weights}
    for weight in bare.weights:
        weight.assign(weights[weight.path])
    assert list(trained.output) == ["logits"]
    here, there = (write(steps(model)) for model in (trained, bare))
    assert [list(text) for text in here] == [list(text) for text in there]


def test_a_model_as_it_was_trained_writes_too(randomise):
    config = DecoderConfig(**options())
    trained = randomise(build_model(config, CausalConfig(), VOCABULARY_SIZE))
    check_written_alike(trained, build_decoder(config, VOCABULARY_SIZE), decoder_steps)


def test_a_pair_as_it_was_trained_writes_too(randomise):
    config = Seq2SeqModelConfig(**options("relative_bias"), scale_logits=True)
    trained = randomise(build_model(config, SpanCorruptionConfig(), VOCABULARY_SIZE))
    source = left_pad(SOURCES)
    check_written_alike(
        trained,
        build_seq2seq(config, VOCABULARY_SIZE),
        lambda model: seq2seq_steps(model, *source),
    )
