"""Models of span corruption: what stands in each gap of a text."""

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
    log_likelihood,
    logits_of,
    rows_of,
    wishes,
)
from tests.serving.signatures.parity_scenario import Scene
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.schema.evaluation import EvaluationConfig
from transbeam.configs.schema.generation import BeamConfig, GenerationConfig
from transbeam.configs.schema.model import Seq2SeqModelConfig
from transbeam.configs.schema.objectives.language_modeling import SpanCorruptionConfig
from transbeam.configs.schema.tokenizer import (
    ByteBPEConfig,
    UnigramConfig,
    WordPieceConfig,
)
from transbeam.model.generation.generate import generate
from transbeam.model.generation.keras_decode_functions import seq2seq_steps
from transbeam.model.generation.ragged import unpad
from transbeam.serving.parity.attention_maps import attention_rows
from transbeam.serving.parity.export_parity import require_passed
from transbeam.serving.parity.span_corruption import SpanCorruptionParityChecker
from transbeam.serving.predict.prediction import describe, predict
from transbeam.serving.signatures.task_factory import make_signature_task
from transbeam.serving.text_ops.sentinels import tokenize_with_gaps

TEXTS = [
    "a <extra_id_0> of the <extra_id_1> .",
    "",
    "<extra_id_0><extra_id_1><extra_id_2>",
    "true , raise <extra_id_0> when " * 9 + "<extra_id_1>",
    "ünknown <extra_id_11> <extra_id_12> 漢字!",
]
DECODER_LENGTH = 12
CASES = {
    "unigram": (
        UnigramConfig(vocabulary_size=80, num_sentinels=12),
        EvaluationConfig(),
    ),
    "roberta": (
        ByteBPEConfig(vocabulary_size=320, specials="roberta", num_sentinels=12),
        EvaluationConfig(method=BeamConfig(num_beams=3), max_new_tokens=8),
    ),
    "wordpiece": (
        WordPieceConfig(vocabulary_size=160, num_sentinels=12),
        EvaluationConfig(max_new_tokens=8),
    ),
}

SIGNATURES = ("tokenize", "serving_default", "generate", "search", "score")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=() if name == "unigram" else pytest.mark.thorough)
        for name in CASES
    ],
)
def run(request, tmp_path_factory):
    """The trained run, and a function that calls its signatures in a session."""
    tokenizer, evaluation = CASES[request.param]
    config = replace(
        TINY,
        objective=SpanCorruptionConfig(decoder_length=DECODER_LENGTH),
        tokenizer=tokenizer,
        evaluation=evaluation,
        model=Seq2SeqModelConfig(**SMALL),
        export=replace(TINY.export, examples=("a <extra_id_0> of ints",)),
    )
    scene = Scene.of(tmp_path_factory.mktemp("gaps") / "run", config)
    with scene.exported(*SIGNATURES) as ask:
        yield SimpleNamespace(trained=scene.trained, ask=ask)


def source_of(trained, text):
    """The encoder's input: the text and the end token."""
    (ids,) = tokenize_with_gaps(trained.tokenizer, [text]).to_list()
    return [*ids[: LENGTH - 1], trained.tokenizer.special.end]


def begin_of(trained):
    special = trained.tokenizer.special
    return special.pad if special.begin is None else special.begin


def fills_of(trained, source, answer):
    """By hand: what stands behind each gap of the source, up to the next one."""
    special = trained.tokenizer.special
    behind, tokens = {}, []
    for token in answer:
        if token in special.sentinels:
            tokens = []
            behind.setdefault(token, tokens)
        elif token not in (special.pad, special.begin, special.end):
            tokens.append(token)
    told = []
    for gap in (token for token in source if token in special.sentinels):
        row = [behind.get(gap, [])]
        ids = tf.ragged.constant(row, dtype=tf.int32, ragged_rank=1)
        (text,) = trained.tokenizer.detokenize(ids).numpy()
        told.append(text.decode("utf-8", "replace").strip(" ").encode())
    return told


@pytest.mark.thorough(
    instead="test_the_gate_finds_gaps_that_are_mixed_up, "
    "test_it_passed_the_gate_and_has_files_for_phones"  # servers, of a causal model
)
def test_it_passes_the_gate_also_streamed_and_needs_no_python(run, native):
    made = exported_run(run.trained.config)
    result = made.result
    forms = {row["form"] for row in result["parity"]}
    assert {"our server, REST", "our server, streamed over gRPC"} <= forms
    checks = {row["check"] for row in result["parity"]}
    assert "gaps filled otherwise, texts" in checks
    assert all(row["passed"] for row in result["parity"])
    assert list(result["tflite"]) == list(run.trained.config.export.tflite)
    path = made.saved_model
    assert (path / "assets.extra/golden_requests").is_file()
    with session_on(path) as ask:
        native(path, ask)


def by_chance(number):
    """Wishes for which each piece is as likely as any other, a sentinel, too."""
    seeds = [*range(number)]
    return wishes(number, temperature=1e4, max_new_tokens=24, seed=seeds)


def test_states_that_were_put_together_fit_their_signature(run):
    endpoints = make_signature_task(run.trained).endpoints()
    begin, step, join = (
        endpoints[f"stream_{name}"] for name in ("begin", "step", "join")
    )
    asked = {"text": TEXTS[:1], **wishes(1)}
    told = begin.function(
        *(tf.constant(asked[spec.name], spec.dtype) for spec in begin.inputs)
    )
    state = [told[spec.name] for spec in step.inputs]
    both = join.function(*state, *state)
    columns = [one["state_token_ids"].shape[1] for one in (told, both)]
    assert columns[1] > columns[0]
    joined = [both[spec.name] for spec in step.inputs]
    assert all(map(tf.TensorSpec.is_compatible_with, step.inputs, joined))


def test_an_answer_is_what_generation_writes(run):
    trained, ask = run.trained, run.ask
    config, special = trained.config, trained.tokenizer.special
    answers = ask("serving_default", {"text": TEXTS})
    assert answers["truncated"].tolist() == [False, False, False, True, False]
    for row, text in enumerate(TEXTS):
        source = np.array([source_of(trained, text)], np.int32)
        steps = seq2seq_steps(trained.model, source, np.ones_like(source))
        found = generate(
            steps,
            np.array([[begin_of(trained)]], np.int32),
            config=GenerationConfig(
                method=config.evaluation.method,
                max_new_tokens=config.evaluation.max_new_tokens or DECODER_LENGTH,
                stop_token_ids=(special.end,),
                pad_token_id=special.pad,
            ),
        )
        ids, lengths = (np.asarray(found[name]) for name in ("token_ids", "lengths"))
        if ids.ndim == 3:
            ids, lengths = ids[:, 0], lengths[:, 0]
        assert rows_of(answers)[row] == unpad(ids, lengths)[0]


@pytest.mark.parametrize("signature", ["serving_default", "generate", "search"])
def test_fills_stand_in_the_order_of_their_gaps(run, signature):
    trained, ask = run.trained, run.ask
    texts = TEXTS * 8
    number = len(texts)
    more = {
        "serving_default": {},
        "generate": by_chance(number),
        "search": {
            "max_new_tokens": [8] * number,
            "num_beams": [2] * number,
            "length_penalty": [1.0] * number,
        },
    }[signature]
    answers = ask(signature, {"text": texts, **more})
    assert answers["fills"].shape == (number, 3)
    for row, text in enumerate(texts):
        expected = fills_of(trained, source_of(trained, text), rows_of(answers)[row])
        rest = [b""] * (3 - len(expected))
        assert answers["fills"][row].tolist() == expected + rest
        gaps = [
            trained.tokenizer.pieces[token].encode()
            for token in source_of(trained, text)
            if token in trained.tokenizer.special.sentinels
        ]
        assert answers["gaps"][row].tolist() == gaps + rest
    if signature == "generate":
        assert answers["fills"].any()


def test_an_answer_is_spelled_as_it_is_scored(run):
    """The content of `generated_text` can be a `target_text`."""
    trained, ask = run.trained, run.ask
    special = trained.tokenizer.special
    warm = wishes(len(TEXTS), temperature=1.5, seed=[7, 8, 9, 10, 11])
    answers = ask("generate", {"text": TEXTS, **warm})
    targets = [
        "<extra_id_0> list <extra_id_1> a tensor",
        *(text.decode() for text in answers["generated_text"][1:]),
    ]
    found = ask("score", {"text": TEXTS, "target_text": targets})
    tokenized = tokenize_with_gaps(trained.tokenizer, targets).to_list()
    gaps = [token for token in tokenized[0] if token in special.sentinels]
    assert gaps == list(special.sentinels[:2])
    for row, (text, ids) in enumerate(zip(TEXTS, tokenized, strict=True)):
        source = source_of(trained, text)
        whole = [begin_of(trained), *ids[: DECODER_LENGTH - 1], special.end]
        inputs = {"encoder_token_ids": source, "decoder_token_ids": whole}
        expected = log_likelihood(logits_of(trained.model, **inputs), whole[1:])
        assert found["log_likelihood"][row] == pytest.approx(expected, rel=1e-4)
        assert found["num_tokens"][row] == len(whole) - 1


def test_a_row_does_not_depend_on_its_neighbours(run):
    trained, ask = run.trained, run.ask
    together = ask("serving_default", {"text": TEXTS})
    for row, text in enumerate(TEXTS):
        alone = ask("serving_default", {"text": [text]})
        assert rows_of(alone) == rows_of(together)[row : row + 1]
        read = source_of(trained, text)
        gaps = sum(token in trained.tokenizer.special.sentinels for token in read)
        assert alone["fills"].shape == (1, gaps)
        assert alone["fills"][0].tolist() == together["fills"][row, :gaps].tolist()


def test_hostile_texts_and_an_empty_batch(run):
    ask = run.ask
    texts = [b"\xff\xfe<extra_id_0>\x00\xe6", b"<extra_id_0>" * 99, *HOSTILE_TEXTS]
    answers = ask("serving_default", {"text": texts})
    assert answers["fills"].shape == (len(texts), LENGTH - 1)
    for text in [*answers["generated_text"], *answers["fills"].ravel()]:
        text.decode("utf-8")
    assert not answers["fills"][2:].any()  # no gap is in them
    empty = ask("serving_default", {"text": np.array([], object)})
    assert {len(value) for value in empty.values()} == {0}


def test_who_looks_at_whom_is_told(run):
    (row,) = attention_rows("functions", asking(run.trained), run.trained)
    require_passed([row])


def test_predict_fills_the_gaps(run):
    text = "a <extra_id_0> of ints"
    (found,) = predict(AskingClient(run.ask, "text"), [text])
    answer = run.ask("serving_default", {"text": [text]})
    assert found["fills"] == [answer["fills"][0, 0].decode()]
    gap = found["fills"][0] or "<extra_id_0>"
    assert found["filled"] == f"a {gap} of ints"
    assert describe(found).endswith(f"  → {found['filled']}")


def test_the_gate_finds_gaps_that_are_mixed_up(run):
    trained, ask = run.trained, run.ask

    def drawn(signature, texts):
        if signature != "serving_default":
            return ask(signature, texts)
        return ask("generate", {**texts, **by_chance(len(texts["text"]))})

    def mixed_up(signature, texts):
        answers = dict(drawn(signature, texts))
        if signature == "serving_default":
            answers["fills"] = answers["fills"][:, ::-1]
        return answers

    judge = SpanCorruptionParityChecker(trained, [(text,) for text in TEXTS * 4])
    require_passed(judge.saved_model_rows("straight", drawn))
    with pytest.raises(ArtifactError, match="gaps filled otherwise"):
        require_passed(judge.saved_model_rows("mixed up", mixed_up))
