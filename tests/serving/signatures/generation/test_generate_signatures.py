"""Models that write: how texts go on and what answers them, each by its own wishes."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from grpc import StatusCode
from tensorflow.core.protobuf import saved_model_pb2

from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.model.generation.numpy_logits_processors import by_numpy
from tests.serving.conftest import LENGTH, TINY, exported_run
from tests.serving.server.streaming.gated_stream import written
from tests.serving.session import AskingClient, session_on
from tests.serving.signatures.generation_reference import (
    SMALL,
    fitting,
    leaving,
    log_likelihood,
    logits_of,
    rows_of,
    wishes,
)
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.cli.progress import SilentBar
from transbeam.configs.schema.evaluation import EvaluationConfig
from transbeam.configs.schema.generation import BeamConfig, GenerationConfig
from transbeam.configs.schema.model import DecoderConfig, Seq2SeqModelConfig
from transbeam.configs.schema.objectives.language_modeling import CausalConfig
from transbeam.configs.schema.objectives.supervised import (
    Seq2SeqConfig,
    TextToTextConfig,
)
from transbeam.configs.schema.tokenizer import ByteBPEConfig, UnigramConfig
from transbeam.model.generation.generate import generate
from transbeam.model.generation.keras_decode_functions import decoder_steps
from transbeam.model.generation.ragged import left_pad
from transbeam.serving.base.stream_events import FinalEvent
from transbeam.serving.base.trained_run import load_trained
from transbeam.serving.parity.export_parity import require_passed
from transbeam.serving.parity.generation import GenerationParityChecker
from transbeam.serving.predict.prediction import describe, predict
from transbeam.serving.server.base.status import from_number
from transbeam.serving.server.inference.signature import ServableSignature
from transbeam.serving.server.streaming.stream_requests import (
    begin_signature,
    stream_request,
)
from transbeam.trainer.evaluation.batch_generate import write_answers

TEXTS = ["a tensor of the same", "", "true , raise an error when " * 9, "ünknown 漢字!"]
SECOND = ["the name of the list", "a dog", "", "of all the letters " * 9]
BYTES = ByteBPEConfig(vocabulary_size=300, specials="roberta")
BEAMS = EvaluationConfig(method=BeamConfig(num_beams=3), max_new_tokens=6)
CASES = {
    "causal": (
        CausalConfig(),
        UnigramConfig(vocabulary_size=60),
        EvaluationConfig(max_new_tokens=6),
    ),
    "roberta": (CausalConfig(), BYTES, EvaluationConfig(max_new_tokens=6)),
    "gpt2": (CausalConfig(), ByteBPEConfig(vocabulary_size=300), EvaluationConfig()),
    "text_to_text": (
        TextToTextConfig(source="{second_text} of: {text}", decoder_length=12),
        UnigramConfig(vocabulary_size=60),
        BEAMS,
    ),
    "seq2seq": (Seq2SeqConfig(decoder_length=12), BYTES, BEAMS),
}
# tests/trainer/evaluation asks an export of `seq2seq`, too.
QUICK = ("causal",)


def config_of(name):
    objective, tokenizer, evaluation = CASES[name]
    family = DecoderConfig if objective.kind == "causal" else Seq2SeqModelConfig
    example = "a list\tthe list" if name == "text_to_text" else "a list"
    return replace(
        TINY,
        objective=objective,
        tokenizer=tokenizer,
        evaluation=evaluation,
        model=family(**SMALL),
        export=replace(TINY.export, examples=(example,)),
    )


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=() if name in QUICK else pytest.mark.thorough)
        for name in CASES
    ],
)
def run(request):
    """A run of each kind, exported: what is trained, the result, and how to ask."""
    name = request.param
    made = exported_run(config_of(name), optimized=name not in QUICK)
    path = made.saved_model
    with session_on(path) as ask:
        yield load_trained(made.run_folder), made.result, ask, path


def asked(trained, texts=None, second=SECOND):
    two = trained.config.objective.kind == "text_to_text"
    if texts is None:  # a prompt has to leave room, and an encoder's text is cut
        causal = trained.config.objective.kind == "causal"
        texts = fitting(trained, TEXTS) if causal else TEXTS
    return {"text": texts, "second_text": second} if two else {"text": texts}


DIFFERENT = wishes(
    temperature=[0.0, 1.5, 0.7, 1.0],
    top_k=[0, 9, 0, 3],
    top_p=[1.0, 0.9, 0.5, 1.0],
    max_new_tokens=[8, 5, 8, 3],
    seed=[0, 1, 2, 3],
    min_p=[0.0, 0.05, 0.2, 0.0],
    repetition_penalty=[1.0, 1.3, 1.0, 0.8],
    no_repeat_ngram_size=[2, 0, 1, 0],
    logit_bias=["", "", "5:3,6:-100", "4:2.5"],
)


def written_by_keras(trained, ids, number, adjust=lambda scores, row: scores):
    """The likeliest token, again and again, the whole row read anew each time."""
    special = trained.tokenizer.special
    causal = trained.config.objective.kind == "causal"
    go = special.pad if special.begin is None else special.begin
    row = list(ids) if causal else [go]
    new = []
    while len(new) < number and special.end not in new:
        side = "" if causal else "decoder_"
        inputs = {f"{side}token_ids": row + new}
        if not causal:
            inputs["encoder_token_ids"] = list(ids)
        inputs |= {
            name.replace("token_ids", "padding_mask"): [1] * len(row)
            for name, row in inputs.items()
        }
        arrays = {name: np.array([row], np.int32) for name, row in inputs.items()}
        logits = np.asarray(trained.model(arrays, training=False)["logits"])
        new.append(int(adjust(logits[0, -1], row + new).argmax()))
    return new


def test_it_passed_the_gate_and_has_files_for_phones(run):
    trained, result, _, path = run
    phones = ("XNNPACK", "builtin kernels")
    variants = trained.config.export.tflite
    # The records have texts for one stack.
    judged = variants if trained.config.model.kind == "decoder" else ()
    assert {row["form"] for row in result["parity"]} == {
        "SavedModel in Python",
        "our server, REST",
        "our server, gRPC",
        "our server, streamed over REST",
        "our server, streamed over gRPC",
        *(f"TFLite {variant}, {how}" for variant in variants for how in phones),
        *(f"TFLite {variant}" for variant in judged),  # by its perplexity
    }
    # A causal model embeds texts, too, in Python, by REST and by gRPC.
    embeds = 3 if trained.config.objective.kind == "causal" else 0
    assert len(result["parity"]) == 42 + embeds + len(judged)
    assert list(result["tflite"]) == list(variants)
    for variant in variants:
        assert (path.parents[1] / f"tflite/model_{variant}.tflite").is_file()


def test_the_likeliest_tokens_are_those_of_keras_without_a_cache(run):
    trained, _, ask, _ = run
    columns = asked(trained)
    tokens = rows_of(ask("tokenize", columns))
    answers = ask("generate", {**columns, **wishes()})
    for row, ids in enumerate(tokens):
        assert rows_of(answers)[row] == written_by_keras(trained, ids, 8)
        assert answers["truncated"][row] == (row in cut(run))


def test_scores_are_adjusted_as_the_definitions_say(run):
    trained, _, ask, _ = run
    columns, end = asked(trained), trained.tokenizer.special.end
    given = {
        "repetition_penalty": [1.0, 1.5, 1.0, 4.0],
        "no_repeat_ngram_size": [2, 0, 1, 3],
        "logit_bias": [f"{end}:-100", "", "", f"5:1.5,6:-2,{end}:-3"],
    }
    biases = [[(end, -100)], [], [], [(5, 1.5), (6, -2), (end, -3)]]
    answers = ask("generate", {**columns, **wishes(**given)})
    for row, ids in enumerate(rows_of(ask("tokenize", columns))):
        penalty, size = (given[n][row] for n in list(given)[:2])

        def adjust(scores, tokens, row=row, penalty=penalty, size=size):
            asked = [penalty], [size], [biases[row]]
            return by_numpy(scores[None], [tokens], *asked)[0]

        assert rows_of(answers)[row] == written_by_keras(trained, ids, 8, adjust)
    assert rows_of(answers) != rows_of(ask("generate", {**columns, **wishes()}))


def test_a_limit_never_eats_the_prompt(run):
    trained, _, ask, _ = run
    causal = trained.config.objective.kind == "causal"
    texts = [leaving(trained, room) for room in (1, 3, 20)] if causal else TEXTS[:3]
    columns = asked(trained, texts, SECOND[:3])
    tokens = rows_of(ask("tokenize", columns))
    for number in (2, LENGTH, 2**31 - 1):
        answers = ask("generate", {**columns, **wishes(3, max_new_tokens=number)})
        for row, ids in enumerate(tokens):
            most = min(number, LENGTH - (len(ids) if causal else 1))
            assert rows_of(answers)[row] == written_by_keras(trained, ids, most)
        if causal:
            assert not answers["truncated"].any()
    default = trained.config.evaluation.max_new_tokens or 64
    left_out = ask("generate", {**columns, **wishes(3, max_new_tokens=-1)})
    said = ask("generate", {**columns, **wishes(3, max_new_tokens=default)})
    assert rows_of(left_out) == rows_of(said)


def test_no_tokens_are_an_empty_text_on_every_road(run, signatures):
    trained, _, ask, _ = run
    columns = asked(trained, ["a dog", TEXTS[0], "", leaving(trained, 0)])
    numbers = [0, 4, 0, 0]
    none = wishes(max_new_tokens=numbers)
    for signature, given in (
        ("generate", none),
        ("search", searches(max_new_tokens=numbers)),
    ):
        answers = ask(signature, {**columns, **given})
        for row in (0, 2, 3):
            assert answers["length"][row] == 0
            assert answers["generated_text"][row] == b""
            assert not answers["finished"][row]
            assert answers.get("score", [0.0] * 4)[row] == 0
        assert 1 <= answers["length"][1] <= 4
    told, _ = streams(run, signatures, {**columns, **none}, (0, 0, 1, 2))
    check_told(told, ask("generate", {**columns, **none}))
    assert [len(one.items) for one in told][2:] == [1, 1]


def test_a_prompt_without_room_is_refused(run, signatures):
    trained, _, ask, _ = run
    if trained.config.objective.kind != "causal":
        return  # an encoder has room of its own
    columns = asked(trained, ["a", leaving(trained, 0)], SECOND[:2])
    said = f"the prompt has {LENGTH} tokens and leaves no room for new ones: the model "
    said += f"reads {LENGTH}. Shorten it to {LENGTH - 1} tokens or fewer"
    for signature, given in (
        ("generate", wishes(2)),
        ("search", searches(2)),
        ("serving_default", {}),
        ("stream_begin", {n: v for n, v in wishes(2).items() if n != "stop"}),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=said):
            ask(signature, {**columns, **given})
    good, refused = streams(run, signatures, {**columns, **wishes(2)}, (0, 0))[0]
    assert isinstance(good.end(), FinalEvent)
    assert refused.failure().code is StatusCode.INVALID_ARGUMENT
    tokens = ask("tokenize", columns)
    ids = {"token_ids": tokens["token_ids"], "length": tokens["length"]}
    numbers = {name: row for name, row in wishes(2).items() if name != "stop"}
    with pytest.raises(tf.errors.InvalidArgumentError, match=said):
        ask("generate_ids", {**ids, **numbers})


def test_one_value_for_all_texts(run):
    trained, _, ask, _ = run
    columns = asked(trained)
    one = {name: values[:1] for name, values in wishes(stop="e").items()}
    answers = ask("generate", {**columns, **one})
    expected = ask("generate", {**columns, **wishes(stop="e")})
    assert rows_of(answers) == rows_of(expected)


def cut(run):
    """Mask of the texts that do not fit into the encoder."""
    return {"seq2seq": {2}, "text_to_text": {2, 3}}.get(
        run[0].config.objective.kind, set()
    )


def test_a_row_does_not_depend_on_its_neighbours_and_its_seed_repeats_it(run):
    trained, _, ask, _ = run
    columns = asked(trained)
    together = ask("generate", {**columns, **DIFFERENT})
    for row in range(len(TEXTS)):
        one = {name: [values[row]] for name, values in {**columns, **DIFFERENT}.items()}
        alone = ask("generate", one)
        assert rows_of(alone) == rows_of(together)[row : row + 1]
        for name in ("generated_text", "finished", "truncated"):
            assert alone[name][0] == together[name][row]
    lengths = together["length"].tolist()
    assert all(
        n <= most for n, most in zip(lengths, DIFFERENT["max_new_tokens"], strict=True)
    )
    drawn = wishes(temperature=2.0)
    seeds = [
        rows_of(ask("generate", {**columns, **drawn, "seed": [s] * 4}))
        for s in (0, 0, 1)
    ]
    assert seeds[0] == seeds[1] != seeds[2]


def searches(number=4, **other):
    """The inputs of `search` but for the texts; a list where rows differ."""
    default = {"max_new_tokens": 8, "num_beams": 3, "length_penalty": 1.0}
    return {
        name: value if isinstance(value, list) else [value] * number
        for name, value in {**default, **other}.items()
    }


def test_the_likeliest_texts_are_those_that_keras_finds(run):
    trained, _, ask, _ = run
    if trained.config.objective.kind != "causal":
        return  # `serving_default` of these searches, and is held against Keras below
    columns = asked(trained)
    found = ask("search", {**columns, **searches()})
    prompts = rows_of(ask("tokenize", columns))
    special = trained.tokenizer.special
    config = GenerationConfig(
        method=BeamConfig(num_beams=3),
        max_new_tokens=8,
        stop_token_ids=(special.end,),
        pad_token_id=special.pad,
    )
    expected = generate(decoder_steps(trained.model), *left_pad(prompts), config=config)
    best = {name: np.asarray(value)[:, 0] for name, value in expected.items()}
    assert found["token_ids"].tolist() == best["token_ids"].tolist()
    assert found["length"].tolist() == best["lengths"].tolist()
    np.testing.assert_allclose(found["score"], best["scores"], rtol=1e-4)


def test_a_search_does_not_depend_on_its_neighbours(run):
    trained, _, ask, _ = run
    columns = asked(trained)
    different = searches(
        max_new_tokens=[8, 5, 1, 3],
        num_beams=[1, 4, 2, 16],
        length_penalty=[1.0, 0.0, -0.5, 2.0],
    )
    together = ask("search", {**columns, **different})
    for row in range(len(TEXTS)):
        one = {name: [values[row]] for name, values in {**columns, **different}.items()}
        alone = ask("search", one)
        assert rows_of(alone) == rows_of(together)[row : row + 1]
        for name in ("generated_text", "finished", "truncated"):
            assert alone[name][0] == together[name][row]
        assert alone["score"][0] == pytest.approx(together["score"][row], rel=1e-4)
    greedy = ask("generate", {**columns, **wishes()})
    assert rows_of(together)[:1] == rows_of(greedy)[:1]
    tokens = ask("tokenize", columns)
    inputs = {"token_ids": tokens["token_ids"], "length": tokens["length"]}
    by_ids = ask("search_ids", {**inputs, **different})
    assert set(by_ids) == {"token_ids", "length", "finished", "score"}
    assert rows_of(by_ids) == rows_of(together)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_new_tokens", -2),
        ("num_beams", 0),
        ("num_beams", 17),
        ("length_penalty", float("nan")),
    ],
)
def test_searches_that_cannot_be_meant_are_refused(run, name, value):
    trained, _, ask, _ = run
    given = searches()
    given[name] = [given[name][0], value, *given[name][2:]]
    with pytest.raises(tf.errors.InvalidArgumentError, match=name):
        ask("search", {**asked(trained), **given})


def test_texts_end_before_their_strings(run):
    trained, _, ask, _ = run
    columns = asked(trained)
    warm = wishes(temperature=1.5, max_new_tokens=16, seed=[5, 6, 7, 8])
    whole = ask("generate", {**columns, **warm})
    texts = [text.decode() for text in whole["generated_text"]]
    # Not the stand-in of bytes that are no character, which were others.
    letters = [text[len(text) // 2 :].strip("\ufffd")[:1] for text in texts]
    assert any(letters)
    letters[1] = f"never there\x1f{letters[1]}"  # one of two
    letters[3] = ""
    answers = ask("generate", {**columns, **warm, "stop": letters})
    ended_before = 0
    for row, (text, joined) in enumerate(zip(texts, letters, strict=True)):
        stops = [stop for stop in joined.split("\x1f") if stop]
        places = [text.find(stop) for stop in stops if stop in text]
        expected = text[: min(places, default=len(text))]
        assert answers["generated_text"][row].decode() == expected
        if places:
            assert answers["finished"][row]
        ended_before += answers["length"][row] < whole["length"][row]
    assert ended_before  # the loop did not go on to the end in vain
    assert answers["length"][3] == whole["length"][3]


def test_ids_are_written_on_as_their_texts_are(run):
    trained, _, ask, _ = run
    columns = asked(trained)
    tokens = ask("tokenize", columns)
    by_text = ask("generate", {**columns, **DIFFERENT})
    inputs = {"token_ids": tokens["token_ids"], "length": tokens["length"]}
    numbers = {name: row for name, row in DIFFERENT.items() if name != "stop"}
    by_ids = ask("generate_ids", {**inputs, **numbers})
    assert set(by_ids) == {"token_ids", "length", "finished"}
    assert rows_of(by_ids) == rows_of(by_text)


def test_a_score_is_the_sum_of_log_probabilities(run):
    trained, _, ask, _ = run
    columns, special = asked(trained), trained.tokenizer.special
    targets = ["a list", "", "of the shape " * 9, "x"]
    causal = trained.config.objective.kind == "causal"
    found = ask("score", columns if causal else {**columns, "target_text": targets})
    tokens = rows_of(ask("tokenize", columns))
    answers = trained.tokenizer.tokenize(targets).to_list()
    for row, ids in enumerate(tokens):
        if causal:
            whole = [*ids, special.end][:LENGTH]
            inputs = {"token_ids": whole}
        else:
            go = special.pad if special.begin is None else special.begin
            whole = [go, *answers[row][:11], special.end]
            inputs = {"encoder_token_ids": ids, "decoder_token_ids": whole}
        expected = log_likelihood(logits_of(trained.model, **inputs), whole[1:])
        assert found["log_likelihood"][row] == pytest.approx(expected, rel=1e-4)
        assert found["num_tokens"][row] == len(whole) - 1


def test_without_wishes_it_writes_as_it_was_judged(run):
    trained, _, ask, _ = run
    config, columns = trained.config, asked(trained)
    answers = ask("serving_default", columns)
    if config.objective.kind == "causal":
        number = config.evaluation.max_new_tokens or 64
        expected = ask("generate", {**columns, **wishes(max_new_tokens=number)})
        assert rows_of(answers) == rows_of(expected)
        assert answers["finished"].tolist() == expected["finished"].tolist()
        return
    texts = [text.encode() for text in TEXTS]
    if config.objective.kind == "text_to_text":
        pairs = zip(TEXTS, SECOND, strict=True)
        texts = [f"{second} of: {text}".encode() for text, second in pairs]
    found = write_answers(texts, trained.model, trained.tokenizer, config, SilentBar())
    assert [text.decode() for text in answers["generated_text"]] == found


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_new_tokens", -2),
        ("temperature", -0.5),
        ("temperature", float("nan")),
        ("top_k", -1),
        ("top_p", 1.01),
        ("top_p", float("nan")),
    ],
)
def test_wishes_that_cannot_be_meant_are_refused(run, name, value):
    trained, _, ask, _ = run
    given = wishes()
    given[name] = [given[name][0], value, *given[name][2:]]
    with pytest.raises(tf.errors.InvalidArgumentError, match=name):
        ask("generate", {**asked(trained), **given})


def test_hostile_texts_and_an_empty_batch(run):
    trained, _, ask, _ = run
    causal = trained.config.objective.kind == "causal"
    texts = fitting(trained, HOSTILE_TEXTS) if causal else list(HOSTILE_TEXTS)
    columns = asked(trained, texts, texts[::-1])
    warm = wishes(len(texts), temperature=1.5, seed=list(range(len(texts))))
    answers = ask("generate", {**columns, **warm})
    for text in answers["generated_text"]:
        text.decode("utf-8")  # does not end amid a character
    nothing = {
        name: np.array([], np.asarray(values).dtype if name in warm else object)
        for name, values in {**columns, **warm}.items()
    }
    nothing["stop"] = np.array([], object)
    empty = ask("generate", nothing)
    assert {len(value) for value in empty.values()} == {0}
    raw = {**columns, "text": [b"\xff\xfe\x00\xe6", *texts[1:]]}
    assert len(ask("serving_default", raw)["length"]) == len(texts)


@pytest.fixture(scope="module")
def signatures(run):
    """As our server reads them."""
    file = run[-1] / "saved_model.pb"
    (graph,) = saved_model_pb2.SavedModel.FromString(file.read_bytes()).meta_graphs
    return {
        name: ServableSignature(name, one) for name, one in graph.signature_def.items()
    }


def streams(run, signatures, columns, moments, stops=(), most_rows=4):
    """The listeners of texts that come at different moments, and what was run."""
    _, _, ask, _ = run
    dtypes = begin_signature(signatures).dtypes
    seen = []

    def seeing(name, inputs):
        seen.append(name)
        try:
            return ask(name, inputs)
        except tf.errors.OpError as error:  # which our server makes of one
            raise from_number(error.error_code, error.message) from None

    requests = []
    for row in range(len(moments)):
        given = {
            name: one_of(values[row], tf.as_dtype(dtypes[name]).as_numpy_dtype)
            for name, values in columns.items()
            if name in dtypes
        }
        if stops:
            given["stop"] = np.array([stop.encode() for stop in stops[row]], object)
        requests.append(stream_request(given, begin_signature(signatures)))
    comings = list(zip(moments, requests, strict=True))
    return written(seeing, comings, most_rows), seen


def one_of(value, dtype):
    return np.array([value.encode() if isinstance(value, str) else value], dtype)


def check_told(told, answers):
    """They are told what `generate` answers."""
    tokens = rows_of(answers)
    for row, one in enumerate(told):
        whole = one.end()
        assert [part.token_id for part in one.parts] == tokens[row]
        assert one.text == whole.generated_text
        assert whole == FinalEvent(
            answers["generated_text"][row].decode(),
            answers["length"][row],
            answers["finished"][row],
            answers["truncated"][row],
        )


@pytest.mark.parametrize("moments", [(0, 0, 0, 0), (0, 2, 3, 5), (4, 0, 2, 0)])
def test_streams_that_come_and_go_are_what_is_generated(run, signatures, moments):
    trained, _, ask, _ = run
    ran = set()
    for given in (DIFFERENT, wishes(), wishes(temperature=2.0, seed=[4, 5, 6, 7])):
        columns = {**asked(trained), **given}
        told, seen = streams(run, signatures, columns, moments, most_rows=3)
        check_told(told, ask("generate", columns))
        ran.update(seen)
    assert ran == {"stream_begin", "stream_step", "stream_join", "stream_keep"}


def test_streams_without_wishes(run, signatures):
    trained, _, ask, _ = run
    columns = asked(trained)
    expected = ask("generate", {**columns, **wishes(max_new_tokens=-1)})
    for given in ({}, {"max_new_tokens": [-1] * 4}):
        told, _ = streams(run, signatures, {**columns, **given}, (0, 1, 2, 3))
        check_told(told, expected)


def test_streams_end_before_their_strings(run, signatures):
    trained, _, ask, _ = run
    warm = wishes(temperature=1.5, max_new_tokens=16, seed=[5, 6, 7, 8])
    columns = {**asked(trained), **warm}
    texts = [text.decode() for text in ask("generate", columns)["generated_text"]]
    letters = [text[len(text) // 2 :].strip("\ufffd")[:2] for text in texts]
    assert any(letters)
    stops = [[letters[0]], ["never there", letters[1]], [], [letters[3], ""]]
    columns["stop"] = ["\x1f".join(strings) for strings in stops]
    told, _ = streams(run, signatures, columns, (0, 3, 1, 2), stops)
    answers = ask("generate", columns)
    check_told(told, answers)
    assert any(
        one.end().generated_text != text for one, text in zip(told, texts, strict=True)
    )


def test_streams_of_hostile_texts(run, signatures):
    trained, _, ask, _ = run
    causal = trained.config.objective.kind == "causal"
    texts = fitting(trained, HOSTILE_TEXTS) if causal else list(HOSTILE_TEXTS)
    warm = wishes(len(texts), temperature=1.5, seed=list(range(len(texts))))
    columns = {**asked(trained, texts, texts[::-1]), **warm}
    columns["text"][0] = b"\xff\xfe\x00\xe6"
    moments = [number // 3 for number in range(len(texts))]
    told, _ = streams(run, signatures, columns, moments, most_rows=16)
    check_told(told, ask("generate", columns))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_new_tokens", -2),
        ("temperature", float("nan")),
        ("top_k", -1),
        ("top_p", 1.01),
    ],
)
def test_streams_that_cannot_be_meant_are_refused_alone(run, signatures, name, value):
    trained, _, ask, _ = run
    columns = {**asked(trained), **wishes()}
    expected = ask("generate", columns)
    columns[name] = [*columns[name][:3], value]
    *told, refused = streams(run, signatures, columns, (0, 1, 1, 1))[0]
    check_told(told, {name: values[:3] for name, values in expected.items()})
    assert refused.failure().code is StatusCode.INVALID_ARGUMENT
    assert name in refused.failure().message


@pytest.mark.thorough(instead="test_every_signature_answers_the_same_without_python")
def test_it_needs_no_python(run, native):
    native(run[-1], run[-2])


def test_predict_tells_people_what_was_written(run):
    trained, _, ask, _ = run
    columns = asked(trained, ["a list"], ["the list"])
    client = AskingClient(ask, *columns)
    (found,) = predict(client, columns["text"], columns.get("second_text", ()))
    answer = ask("serving_default", columns)
    assert found["generated_text"].encode() == answer["generated_text"][0]
    assert found["num_tokens"] == answer["length"][0]
    assert found["finished"] == answer["finished"][0]
    assert found["generated_text"].strip("\n").split("\n")[0] in describe(found)


def test_the_gate_finds_another_model(run):
    trained, _, ask, _ = run
    texts = [tuple(row) for row in zip(*asked(trained).values(), strict=True)]
    for weight in trained.model.weights:
        weight.assign(weight * 1.5)
    try:
        rows = GenerationParityChecker(trained, texts).saved_model_rows(
            "SavedModel", ask
        )
    finally:
        for weight in trained.model.weights:
            weight.assign(weight / 1.5)
    with pytest.raises(ArtifactError, match="below the best token's"):
        require_passed(rows)
    failed = {row.check for row in rows if not row.passed}
    assert "log-likelihood a token, largest difference" in failed
    assert "token ids, texts that differ" not in failed
