"""`completions` by hand: whole and streamed, echoed, stopped, and with scores."""

import json

import numpy as np
import pytest

from tests.serving.server.openai_api.conftest import (
    MASKED,
    OLD,
    TRANSLATOR,
    WRITER,
)

PROMPT = "returns a list"
# Of the text of the fixture `readable`: two tokens.
SPANNING = "TF"


@pytest.fixture(scope="module")
def plain(door, readable):
    """A text of twelve tokens: RTTTTTFTbebebebe."""
    return door.complete(PROMPT, max_tokens=12, logit_bias=readable, logprobs=0)


def text_of(answer):
    return answer["choices"][0]["text"]


def log_softmax(logits):
    shifted = np.asarray(logits, np.float64)
    shifted = shifted - shifted.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def scores_by_hand(door, ids):
    """Log-probabilities (T-1, V) of what follows each token but the last."""
    inputs = {"token_ids": [ids[:-1]], "padding_mask": [[1] * (len(ids) - 1)]}
    return log_softmax(door.predict(WRITER, "logits_ids", **inputs)[0])


def test_the_whole_reply(door, readable, plain):
    generated = door.predict(
        WRITER,
        "generate",
        text=[PROMPT],
        max_new_tokens=[12],
        logit_bias=[",".join(f"{token}:-100" for token in readable)],
    )
    assert plain["id"].startswith("cmpl-")
    assert plain["created"] > 1_700_000_000
    head = {name: plain[name] for name in ("object", "model", "usage")}
    assert head == {
        "object": "text_completion",
        "model": WRITER,
        "usage": {"prompt_tokens": 11, "completion_tokens": 12, "total_tokens": 23},
    }
    (choice,) = plain["choices"]
    assert choice["text"] == generated["generated_text"][0]
    assert choice["finish_reason"] == "length"
    assert choice["index"] == 0
    assert choice["logprobs"]["top_logprobs"] == [None] * 12
    assert "".join(choice["logprobs"]["tokens"]) == choice["text"]
    assert SPANNING in choice["text"]


def test_a_stream_has_the_text_and_the_tokens_of_the_plain_reply(door, readable, plain):
    body = {
        "model": WRITER,
        "prompt": PROMPT,
        "max_tokens": 12,
        "temperature": 0,
        "logit_bias": readable,
    }
    usual = door.chunks("completions", body)
    told = door.chunks(
        "completions", {**body, "stream_options": {"include_usage": True}}
    )
    # Fault 29: unasked there is no chunk with usage, nor the field.
    assert not any("usage" in chunk for chunk in usual)
    *parts, usage = told
    assert (usage["choices"], usage["usage"]) == ([], plain["usage"])
    assert [chunk["usage"] for chunk in parts] == [None] * len(parts)
    for chunks in (usual, parts):
        assert len({(chunk["id"], chunk["created"]) for chunk in chunks}) == 1
        assert {chunk["object"] for chunk in chunks} == {"text_completion"}
        *others, last = [chunk["choices"][0] for chunk in chunks]
        # Fault 30: the last chunk says why, and none before.
        assert [each["finish_reason"] for each in others] == [None] * len(others)
        assert (last["text"], last["finish_reason"]) == ("", "length")
        assert "".join(each["text"] for each in others) == text_of(plain)
        assert len(others) == plain["usage"]["completion_tokens"]


@pytest.mark.parametrize("as_ids", [False, True])
@pytest.mark.parametrize("stop", [SPANNING, ["nowhere", SPANNING], ["be", SPANNING]])
def test_a_stop_string_over_two_tokens(door, readable, plain, stop, as_ids):
    """Fault 31: missed, or sent in part."""
    prompt = PROMPT
    if as_ids:
        prompt = door.predict(WRITER, "tokenize", text=[PROMPT])["token_ids"][0]
    fields = {"max_tokens": 12, "logit_bias": readable, "stop": stop}
    answer = door.complete(prompt, **fields)
    before = text_of(plain).partition(SPANNING)[0]
    assert text_of(answer) == before
    assert answer["choices"][0]["finish_reason"] == "stop"
    # All tokens here are one letter: those before, and the two of the stop string.
    assert answer["usage"]["completion_tokens"] == len(before) + 2
    body = {"model": WRITER, "prompt": prompt, "temperature": 0, **fields}
    *parts, usage = door.chunks(
        "completions", {**body, "stream_options": {"include_usage": True}}
    )
    texts = [chunk["choices"][0]["text"] for chunk in parts]
    assert "".join(texts) == before
    assert parts[-1]["choices"][0]["finish_reason"] == "stop"
    assert usage["usage"] == answer["usage"]


def test_what_only_looked_like_a_stop_string_is_sent(door, readable, plain):
    body = {"model": WRITER, "prompt": PROMPT, "max_tokens": 12, "temperature": 0}
    body |= {"logit_bias": readable, "stop": f"{SPANNING}nowhere"}
    texts = [each["choices"][0]["text"] for each in door.chunks("completions", body)]
    assert "".join(texts) == text_of(plain)
    assert SPANNING in "".join(texts)


def test_logprobs_by_hand(door, readable, plain):
    """The model's own scores, before biases and sampling."""
    ids = door.predict(WRITER, "tokenize", text=[PROMPT])["token_ids"][0]
    answer = door.complete(PROMPT, max_tokens=12, logit_bias=readable, logprobs=5)
    (choice,) = answer["choices"]
    found = choice["logprobs"]
    pieces = door.tokenizer.pieces
    whole = [*ids, *(pieces.index(token) for token in found["tokens"])]
    scores = scores_by_hand(door, whole)[len(ids) - 1 :]
    own = [row[token] for row, token in zip(scores, whole[len(ids) :], strict=True)]
    np.testing.assert_allclose(found["token_logprobs"], own, rtol=1e-5)
    for top, row in zip(found["top_logprobs"], scores, strict=True):
        best = np.sort(row)[::-1][:5]
        assert np.isclose(max(top.values()), best[0], rtol=1e-5)
        # The token itself is listed, too, and tokens may have one text.
        assert 2 <= len(top) <= 6
    ends = np.cumsum([0, *map(len, found["tokens"])])
    assert found["text_offset"] == ends[:-1].tolist()


def test_greedy_tokens_are_the_best_ones(door):
    answer = door.complete(PROMPT, max_tokens=4, logprobs=1)
    found = answer["choices"][0]["logprobs"]
    for own, top in zip(found["token_logprobs"], found["top_logprobs"], strict=True):
        assert list(top.values()) == [own]


@pytest.mark.parametrize("max_tokens", [0, 1])
def test_lm_eval_scores_a_text(door, max_tokens):
    """Ids, echo, logprobs and max_tokens as `lm-eval local-completions` sends them."""
    context, text = "returns a ", "returns a list"
    given = door.predict(WRITER, "tokenize", text=[context, text])
    length, whole = given["length"][0], given["token_ids"][1]
    answer = door.complete([whole], echo=True, logprobs=1, max_tokens=max_tokens)
    found = answer["choices"][0]["logprobs"]
    assert found["token_logprobs"][0] is found["top_logprobs"][0] is None
    assert len(found["tokens"]) == len(whole) + max_tokens
    assert text_of(answer).startswith(text)
    assert answer["usage"]["completion_tokens"] == max_tokens
    # As lm-eval adds them up: without the token that was generated.
    end = len(whole)
    scores = scores_by_hand(door, whole)
    own = [row[token] for row, token in zip(scores, whole[1:], strict=True)]
    np.testing.assert_allclose(found["token_logprobs"][1:end], own, rtol=1e-5)
    total = sum(found["token_logprobs"][length:end])
    by_signature = [
        door.predict(WRITER, "score_ids", token_ids=[ids], length=[len(ids)])
        for ids in (whole, whole[:length])
    ]
    both, first = (each["log_likelihood"][0] for each in by_signature)
    assert np.isclose(total, both - first, rtol=1e-4)
    greedy = [
        own == max(top.values())
        for own, top in zip(
            found["token_logprobs"][length:end],
            found["top_logprobs"][length:end],
            strict=True,
        )
    ]
    assert greedy == (scores.argmax(axis=1) == whole[1:])[length - 1 :].tolist()


def test_several_prompts_and_several_texts_of_each(door, readable):
    fields = {"max_tokens": 6, "logit_bias": readable, "temperature": 1, "seed": 5}
    answer = door.complete(["returns", "a list"], n=2, **fields)
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    texts = [choice["text"] for choice in answer["choices"]]
    assert len(set(texts)) == 4
    alone = [
        text_of(door.complete(prompt, **{**fields, "seed": seed}))
        for prompt in ("returns", "a list")
        for seed in (5, 6)
    ]
    assert texts == alone
    prompts = door.predict(WRITER, "tokenize", text=["returns", "a list"])["length"]
    assert answer["usage"]["prompt_tokens"] == sum(prompts)
    assert answer["usage"]["completion_tokens"] == 4 * 6


def test_without_a_seed_texts_differ(door):
    texts = {text_of(door.complete("a", temperature=2, max_tokens=9)) for _ in "ab"}
    assert len(texts) == 2


@pytest.mark.parametrize("prompt", ["", "é", "a\u0000b"])
def test_prompts_of_ids_are_those_of_texts(door, prompt):
    ids = door.predict(WRITER, "tokenize", text=[prompt])
    ids = ids["token_ids"][0]
    by_text, by_ids = (
        door.complete(given, max_tokens=5, echo=True) for given in (prompt, ids)
    )
    assert text_of(by_text) == text_of(by_ids)
    assert by_text["usage"] == by_ids["usage"]
    assert text_of(by_text).startswith(prompt)


def test_an_encoder_decoder(door):
    answer = door.complete(PROMPT, model=TRANSLATOR, max_tokens=3, logprobs=1)
    found = answer["choices"][0]["logprobs"]
    greedy = [max(top.values()) for top in found["top_logprobs"]]
    assert found["token_logprobs"] == greedy
    assert answer["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"model": MASKED}, "model", "generates no texts"),
        ({"model": TRANSLATOR, "echo": True, "logprobs": 1}, "echo", "causal models"),
        ({"model": OLD, "logprobs": 1}, "logprobs", "Export it again"),
        ({"model": OLD, "prompt": [5]}, "prompt", "Export it again"),
        ({"prompt": [5, 300]}, "prompt", "found 300"),
        ({"prompt": "a" * 100}, None, "the prompt has 100 tokens"),
        ({"prompt": [5] * 100}, None, "found 100; expected 0 to 64"),
        ({"prompt": "\ud83d"}, None, "surrogate"),
        ({"model": TRANSLATOR, "prompt": "a" * 200}, "prompt", "longer than"),
        # The letters of a piece that the tokenizer has as a whole.
        ({"prompt": [84, 85], "stream": True}, "prompt", "without `stream`"),
        ({"model": MASKED, "stream": True}, None, "cannot be streamed"),
    ],
)
def test_requests_that_cannot_be_answered(door, fields, param, words):
    body = {"model": WRITER, "prompt": "a", "max_tokens": 2, **fields}
    status, answer = door.post("completions", body)
    assert status == 400, answer
    assert answer.keys() == {"error"}
    assert words in answer["error"]["message"]
    assert answer["error"]["param"] == param
    assert answer["error"]["type"] == "invalid_request_error"


def test_texts_of_older_exports(door):
    new, old = (door.complete(PROMPT, model=model) for model in (WRITER, OLD))
    assert text_of(new) == text_of(old)
    assert new["usage"] == old["usage"]


def test_a_chunk_is_one_line_whatever_is_in_it(door):
    for data in door.events(
        "completions", {"model": WRITER, "prompt": "\n", "temperature": 2, "seed": 3}
    ):
        assert "\n" not in data
        assert data == "[DONE]" or json.loads(data)
