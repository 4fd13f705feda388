"""`chat/completions` by hand, of a writer with a chat template and of one without."""

import pytest

from tests.serving.server.openai_api.conftest import CHATTER, OLD, TRANSLATOR, WRITER

PATH = "chat/completions"
MESSAGES = [
    {"role": "developer", "content": [{"type": "text", "text": "be brief"}]},
    {"role": "user", "content": "hi"},
]
# By hand: the template's text, without the begin token that the tokenizer has not.
PROMPT = "system: be brief\nuser: hi\nassistant:"


@pytest.fixture(scope="module")
def body(readable):
    return {
        "model": CHATTER,
        "messages": MESSAGES,
        "temperature": 0,
        "max_completion_tokens": 6,
        "logit_bias": readable,
    }


def test_the_whole_reply(door, readable, body):
    status, answer = door.post(PATH, {**body, "logprobs": True, "top_logprobs": 2})
    assert status == 200
    same = door.complete(
        PROMPT, model=CHATTER, max_tokens=6, logit_bias=readable, logprobs=2
    )
    assert answer["id"].startswith("chatcmpl-")
    assert answer["object"] == "chat.completion"
    assert answer["usage"] == same["usage"]
    (choice,), (other,) = answer["choices"], same["choices"]
    assert choice["message"] == {
        "role": "assistant",
        "content": other["text"],
        "refusal": None,
    }
    assert choice["finish_reason"] == other["finish_reason"] == "length"
    content = choice["logprobs"]["content"]
    found = other["logprobs"]
    assert [each["logprob"] for each in content] == found["token_logprobs"]
    assert "".join(each["token"] for each in content) == other["text"]
    for token in content:
        assert bytes(token["bytes"]).decode() == token["token"]
        top = [each["logprob"] for each in token["top_logprobs"]]
        assert len(top) == 2
        assert top == sorted(top, reverse=True)


def test_a_stream(door, body):
    _, answer = door.post(PATH, body)
    (message,) = [choice["message"] for choice in answer["choices"]]
    options = {"stream_options": {"include_usage": True, "include_obfuscation": False}}
    first, *parts, last, usage = door.chunks(PATH, {**body, **options})
    assert first["object"] == "chat.completion.chunk"
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    deltas = [chunk["choices"][0]["delta"] for chunk in parts]
    assert "".join(delta["content"] for delta in deltas) == message["content"]
    assert last["choices"][0]["delta"] == {}
    assert last["choices"][0]["finish_reason"] == "length"
    assert usage["usage"] == answer["usage"]
    assert usage["choices"] == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fields", "words", "code"),
    [
        ({"model": WRITER}, "has no chat template", "no_chat_template"),
        ({"model": TRANSLATOR}, "/openai/v1/completions", "no_chat_template"),
        ({"model": OLD}, "/openai/v1/completions", "no_chat_template"),
        ({"messages": MESSAGES[::-1]}, "the system speaks first", None),
        ({"tools": [{}]}, "tools: is not supported", "unsupported_parameter"),
    ],
)
def test_requests_that_are_refused(door, body, fields, words, code, stream):
    status, answer = door.post(PATH, {**body, **fields, "stream": stream})
    assert status == 400, answer
    assert words in answer["error"]["message"]
    assert answer["error"]["code"] == code
