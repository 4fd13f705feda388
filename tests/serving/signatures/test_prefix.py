"""Prefix language models: what is given is seen both ways, and texts go on from it."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.serving.conftest import LENGTH, TINY, exported_run
from tests.serving.session import AskingClient, asking, session_on
from tests.serving.signatures.generation_reference import (
    SMALL,
    fitting,
    log_likelihood,
    rows_of,
    wishes,
)
from tests.serving.signatures.parity_scenario import Scene
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.schema.evaluation import EvaluationConfig
from transbeam.configs.schema.generation import GenerationConfig
from transbeam.configs.schema.model import DecoderConfig
from transbeam.configs.schema.objectives.language_modeling import PrefixConfig
from transbeam.configs.schema.tokenizer import ByteBPEConfig, UnigramConfig
from transbeam.model.generation.generate import generate
from transbeam.model.generation.keras_decode_functions import decoder_steps
from transbeam.model.generation.ragged import left_pad, unpad
from transbeam.serving.parity.attention_maps import attention_rows
from transbeam.serving.parity.export_parity import require_passed
from transbeam.serving.parity.prefix import PrefixParityChecker
from transbeam.serving.predict.prediction import describe, predict

TEXTS = ["a tensor of the same", "", "true , raise an error when " * 9, "ünknown 漢字!"]
TARGETS = [" shape as the input", "a list", " a list of", "of all the letters " * 9]
NEW = 6
TOKENIZERS = {
    "unigram": UnigramConfig(vocabulary_size=60),
    "roberta": ByteBPEConfig(vocabulary_size=300, specials="roberta"),
    "gpt2": ByteBPEConfig(vocabulary_size=300),
}

SIGNATURES = (
    "tokenize",
    "serving_default",
    "generate",
    "search",
    "score",
    "score_ids",
    "logits_ids",
)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=() if name == "unigram" else pytest.mark.thorough)
        for name in TOKENIZERS
    ],
)
def run(request, tmp_path_factory):
    """The trained run, and a function that calls its signatures in a session."""
    config = replace(
        TINY,
        objective=PrefixConfig(),
        tokenizer=TOKENIZERS[request.param],
        evaluation=EvaluationConfig(max_new_tokens=NEW),
        # What a prefix shows its own tokens takes a second layer to reach the logits.
        model=DecoderConfig(**{**SMALL, "num_layers": 2}),
        export=replace(TINY.export, examples=("a list",)),
    )
    scene = Scene.of(tmp_path_factory.mktemp("prefix") / "run", config)
    with scene.exported(*SIGNATURES) as ask:
        yield SimpleNamespace(trained=scene.trained, ask=ask)


def logits_of(trained, ids, given):
    """Keras's, of one row alone: float64 (T, V)."""
    row = np.array([ids], np.int32)
    prefix = (np.arange(len(ids)) < given).astype(np.int32)[np.newaxis]
    inputs = {"token_ids": row, "padding_mask": np.ones_like(row)}
    outputs = trained.model({**inputs, "prefix_mask": prefix}, training=False)
    return np.asarray(outputs["logits"], np.float64)[0]


def score_of(trained, ids, given):
    """The log-likelihood of what is not given, by hand."""
    logits = logits_of(trained, ids, given)[given - 1 : -1]
    return log_likelihood(logits, ids[given:])


def framed(trained, text, target):
    """A document's ids, and how many of them are given."""
    special, tokenizer = trained.tokenizer.special, trained.tokenizer
    own, both = tokenizer.tokenize([text, text + target]).to_list()
    common = 0
    while common < min(len(own), len(both)) and own[common] == both[common]:
        common += 1
    begin = [special.begin] if special.begin not in (None, special.end) else []
    before = [*begin, *both[:common]] or [special.end]
    after = [*both[common:], special.end][: LENGTH - 1]
    before = before[len(after) - LENGTH :]
    return [*before, *after], len(before)


@pytest.mark.thorough(
    instead="test_the_gate_finds_a_model_that_does_not_see_both_ways, "
    "test_it_passed_the_gate_and_has_files_for_phones"  # servers, of a causal model
)
def test_it_passes_the_gate_also_streamed_and_needs_no_python(run, native):
    made = exported_run(run.trained.config)
    result = made.result
    forms = {row["form"] for row in result["parity"]}
    assert {"our server, REST", "our server, streamed over gRPC"} <= forms
    assert all(row["passed"] for row in result["parity"])
    assert list(result["tflite"]) == list(run.trained.config.export.tflite)
    path = made.saved_model
    assert (path / "assets.extra/golden_requests").is_file()
    with session_on(path) as ask:
        native(path, ask)


def test_a_text_goes_on_as_generation_writes_it(run):
    trained, ask = run.trained, run.ask
    columns = {"text": fitting(trained, TEXTS, NEW)}
    prompts = rows_of(ask("tokenize", columns))
    special = trained.tokenizer.special
    config = GenerationConfig(
        max_new_tokens=NEW,
        stop_token_ids=(special.end,),
        pad_token_id=special.pad,
    )
    found = generate(decoder_steps(trained.model), *left_pad(prompts), config=config)
    expected = unpad(*(np.asarray(found[name]) for name in ("token_ids", "lengths")))
    answers = ask("serving_default", columns)
    assert rows_of(answers) == expected
    greedy = wishes(max_new_tokens=NEW)
    assert rows_of(ask("generate", {**columns, **greedy})) == expected
    for prompt, new in zip(prompts, expected, strict=True):
        logits = logits_of(trained, [*prompt, *new], len(prompt))
        assert logits[len(prompt) - 1 : -1].argmax(axis=1).tolist() == new


def test_what_is_given_is_seen_both_ways(run):
    ask = run.ask
    (ids,) = rows_of(ask("tokenize", {"text": TEXTS[:1]}))
    other = [*ids[:-1], ids[0] + 1]
    rows = np.array([ids, other], np.int32)
    inputs = {"token_ids": rows, "padding_mask": np.ones_like(rows)}

    def off(given):
        prefix = np.repeat([np.arange(len(ids)) < given], 2, axis=0)
        logits = ask("logits_ids", {**inputs, "prefix_mask": prefix.astype(np.int32)})
        return np.abs(np.subtract(*logits["logits"])).max(axis=1)

    assert (off(len(ids)) > 1e-3).all()  # the last token is seen by those before it
    assert (off(len(ids) - 1)[:-1] < 1e-5).all()  # and is not where it is not given


def test_a_score_is_that_of_the_target_after_the_text(run):
    trained, ask = run.trained, run.ask
    found = ask("score", {"text": TEXTS, "target_text": TARGETS})
    for row, pair in enumerate(zip(TEXTS, TARGETS, strict=True)):
        ids, given = framed(trained, *pair)
        expected = score_of(trained, ids, given)
        assert found["log_likelihood"][row] == pytest.approx(expected, rel=1e-4)
        assert found["num_tokens"][row] == len(ids) - given
        tokens = trained.tokenizer.tokenize(["".join(pair)]).to_list()[0]
        assert found["truncated"][row] == (len(tokens) + 1 > LENGTH)
    # A later token of the prefix counts for the first ones of the target.
    other = ask("score", {"text": ["a tensor of the list"], "target_text": TARGETS[:1]})
    assert abs(other["log_likelihood"][0] - found["log_likelihood"][0]) > 1e-2


def test_scores_from_ids_are_those_from_texts(run):
    trained, ask = run.trained, run.ask
    rows = [framed(trained, *pair) for pair in zip(TEXTS, TARGETS, strict=True)]
    ids = np.zeros((len(rows), LENGTH), np.int32)
    for row, (tokens, _) in enumerate(rows):
        ids[row, : len(tokens)] = tokens
    inputs = {
        "token_ids": ids,
        "length": [len(tokens) for tokens, _ in rows],
        "prefix_length": [given for _, given in rows],
    }
    found = ask("score_ids", inputs)
    expected = ask("score", {"text": TEXTS, "target_text": TARGETS})
    for name in ("log_likelihood", "num_tokens"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)


def test_what_is_generated_scores_as_it_was_chosen(run):
    """A text that was written, given back as a target."""
    trained, ask = run.trained, run.ask
    texts = ["the name of the list", "a tensor", "returns"]
    answers = ask("generate", {"text": texts, **wishes(3, max_new_tokens=NEW)})
    written = [text.decode() for text in answers["generated_text"]]
    found = ask("score", {"text": texts, "target_text": written})
    for row, (text, new) in enumerate(zip(texts, written, strict=True)):
        expected = score_of(trained, *framed(trained, text, new))
        assert found["log_likelihood"][row] == pytest.approx(expected, rel=1e-4)


def test_a_row_does_not_depend_on_its_neighbours(run):
    ask = run.ask
    columns = {"text": TEXTS, "target_text": TARGETS}
    prompts = fitting(run.trained, TEXTS)
    together = ask("score", columns), ask("serving_default", {"text": prompts})
    for row in range(len(TEXTS)):
        one = {name: texts[row : row + 1] for name, texts in columns.items()}
        alone = (
            ask("score", one),
            ask("serving_default", {"text": prompts[row : row + 1]}),
        )
        assert alone[0]["log_likelihood"][0] == pytest.approx(
            together[0]["log_likelihood"][row], rel=1e-5
        )
        assert rows_of(alone[1]) == rows_of(together[1])[row : row + 1]


def test_hostile_texts_and_an_empty_batch(run):
    ask = run.ask
    texts = [b"\xff\xfe\x00\xe6", *HOSTILE_TEXTS]
    found = ask("score", {"text": texts, "target_text": texts[::-1]})
    assert np.isfinite(found["log_likelihood"]).all()
    assert (found["num_tokens"] >= 1).all()
    prompts = [texts[0], *fitting(run.trained, HOSTILE_TEXTS)]
    for text in ask("serving_default", {"text": prompts})["generated_text"]:
        text.decode("utf-8")
    nothing = np.array([], object)
    empty = ask("score", {"text": nothing, "target_text": nothing})
    assert {len(value) for value in empty.values()} == {0}


def test_who_looks_at_whom_is_told(run):
    (row,) = attention_rows("functions", asking(run.trained), run.trained)
    require_passed([row])


def test_predict_tells_people_how_it_goes_on(run):
    (found,) = predict(AskingClient(run.ask, "text"), ["a list"])
    answer = run.ask("serving_default", {"text": ["a list"]})
    assert found["generated_text"].encode() == answer["generated_text"][0]
    assert "  → " in describe(found)


def test_the_gate_finds_a_model_that_does_not_see_both_ways(run):
    """As if the prefix had been left out on the way."""
    trained, ask = run.trained, run.ask

    def blind(signature, texts):
        if signature != "score":
            return ask(signature, texts)
        ids, given = zip(*(framed(trained, *p) for p in pairs(texts)), strict=True)
        token_ids = tf.ragged.constant(ids, dtype=tf.int32).to_tensor().numpy()
        length = [len(row) for row in ids]
        mask = (np.arange(token_ids.shape[1]) < np.array(length)[:, None]).astype(
            "int32"
        )
        inputs = {"token_ids": token_ids, "padding_mask": mask}
        logits = ask("logits_ids", {**inputs, "prefix_mask": np.zeros_like(mask)})
        log = tf.nn.log_softmax(logits["logits"]).numpy()
        told = [
            sum(log[r, c - 1, row[c]] for c in range(start, len(row)))
            for r, (row, start) in enumerate(zip(ids, given, strict=True))
        ]
        numbers = np.array(length) - np.array(given)
        return {"log_likelihood": np.array(told), "num_tokens": numbers}

    def pairs(texts):
        return zip(texts["text"], texts["target_text"], strict=True)

    judge = PrefixParityChecker(trained, [(text,) for text in TEXTS])
    require_passed(judge.saved_model_rows("whole", ask))
    with pytest.raises(ArtifactError, match="log-likelihood a token"):
        require_passed(judge.saved_model_rows("blind", blind))
