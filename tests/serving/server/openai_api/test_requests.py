"""Bodies of requests: what is read, ignored, and refused by name."""

import json

import numpy as np
import pytest

from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.openai_api.chat_request import ChatMessage, ChatRequest
from transbeam.serving.server.openai_api.completion_request import CompletionRequest
from transbeam.serving.server.openai_api.embedding_api import EmbeddingRequest
from transbeam.serving.server.openai_api.openai_errors import (
    OpenAIRequestError,
    openai_error_body,
)

COMPLETION = {"model": "m", "prompt": "a"}
HELLO = {"role": "user", "content": "hi"}
CHAT = {"model": "m", "messages": [HELLO]}
EMBEDDING = {"model": "m", "input": "a"}


def completion(**fields):
    return CompletionRequest.from_json(json.dumps({**COMPLETION, **fields}).encode())


def chat(**fields):
    return ChatRequest.from_json(json.dumps({**CHAT, **fields}).encode())


def embedding(**fields):
    return EmbeddingRequest.from_json(json.dumps({**EMBEDDING, **fields}).encode())


def messages(*given):
    return list(chat(messages=list(given)).messages)


@pytest.mark.parametrize("read", [completion, chat])
def test_what_clients_send_beside_is_ignored(read):
    """Fault 33: such fields were answered with 400."""
    plain, sent = (
        read(seed=7, **fields)
        for fields in (
            {},
            {
                "store": True,
                "metadata": {"a": "b"},
                "user": "someone",
                "parallel_tool_calls": True,
                "service_tier": "auto",
                "prompt_cache_key": "k",
                "safety_identifier": "s",
                "reasoning_effort": "low",
                "never_heard_of": [1],
                "frequency_penalty": 0.0,
                "presence_penalty": 0,
                "n": 1,
                "best_of": 1,
                "response_format": {"type": "text"},
                "logit_bias": None,
                "stop": None,
            },
        )
    )
    assert sent == plain


def test_what_clients_send_beside_texts_to_embed_is_ignored():
    assert embedding(user="someone", never_heard_of=[1]) == embedding()


@pytest.mark.parametrize(
    ("read", "name", "value"),
    [
        *(
            (read, *field)
            for read in (completion, chat)
            for field in (
                ("frequency_penalty", 0.5),
                ("presence_penalty", -1),
                ("response_format", {"type": "json_object"}),
                ("guided_json", {}),
                ("stop_token_ids", [1]),
                ("best_of", 2),
            )
        ),
        (completion, "suffix", "end"),
        (completion, "prompt_logprobs", 1),
        (chat, "tools", [{"type": "function"}]),
        (chat, "tool_choice", "required"),
        (chat, "functions", [{"name": "f"}]),
        (chat, "audio", {"voice": "a"}),
        (chat, "modalities", ["text", "audio"]),
        (chat, "chat_template", "{{ messages }}"),
        (chat, "continue_final_message", True),
    ],
)
def test_what_would_change_the_output_is_refused_by_name(read, name, value):
    with pytest.raises(OpenAIRequestError, match=f"{name}: is not supported") as caught:
        read(**{name: value})
    assert caught.value.param == name
    assert caught.value.error_code == "unsupported_parameter"


@pytest.mark.parametrize(
    ("read", "fields", "param"),
    [
        *(
            (read, fields, next(iter(fields)))
            for read in (completion, chat)
            for fields in (
                {"model": None},
                {"model": 3},
                {"temperature": 2.5},
                {"temperature": float("nan")},
                {"temperature": "0"},
                {"temperature": True},
                {"top_p": -0.1},
                {"max_tokens": -1},
                {"max_tokens": 1.5},
                {"max_completion_tokens": 2**31},
                {"n": 0},
                {"n": 129},
                {"seed": "a"},
                {"stop": ["a"] * 5},
                {"stop": [1]},
                {"stream": "yes"},
                {"stream_options": True},
                {"logit_bias": {"a": 1}},
                {"logit_bias": [1]},
                {"n": 2, "stream": True},
            )
        ),
        *(
            (completion, fields, next(iter(fields)))
            for fields in (
                {"prompt": None},
                {"prompt": []},
                {"prompt": [[]]},
                {"prompt": ["a", 1]},
                {"prompt": [True]},
                {"prompt": [-1]},
                {"prompt": [[1], "a"]},
                {"prompt": {"a": 1}},
                {"logprobs": 6},
                {"logprobs": True},
                {"echo": 1},
                {"prompt": ["a", "b"], "stream": True},
                {"echo": True, "stream": True},
                {"logprobs": 1, "stream": True},
            )
        ),
        *(
            (chat, fields, next(iter(fields)))
            for fields in (
                {"messages": None},
                {"messages": []},
                {"messages": "hi"},
                {"top_logprobs": 21},
                {"top_logprobs": 2},
                {"logprobs": 1},
                {"logprobs": True, "stream": True},
            )
        ),
        (embedding, {"model": None}, "model"),
        (embedding, {"input": None}, "input"),
        (embedding, {"input": []}, "input"),
        (embedding, {"encoding_format": "hex"}, "encoding_format"),
        (embedding, {"dimensions": 0}, "dimensions"),
    ],
)
def test_invalid_fields_are_named(read, fields, param):
    with pytest.raises(OpenAIRequestError, match=f"{param}: expected") as caught:
        read(**fields)
    assert caught.value.param == param
    error = json.loads(openai_error_body(caught.value))["error"]
    assert error["type"] == "invalid_request_error"
    assert error.keys() == {"message", "type", "param", "code"}


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"\xff", b'"a"'])
@pytest.mark.parametrize("kind", [CompletionRequest, ChatRequest, EmbeddingRequest])
def test_bodies_that_are_no_objects(kind, body):
    with pytest.raises(StatusError, match="INVALID_ARGUMENT: JSON"):
        kind.from_json(body)


def test_sampling_parameters():
    found = completion(
        temperature=0.5,
        top_p=0.25,
        top_k=3,
        max_tokens=4,
        max_completion_tokens=5,
        logit_bias={"7": -100, "8": 2.5},
        seed=2**40 + 3,
        stop=[".", ""],
    ).text.sampling
    assert found.inputs == {
        "temperature": np.float32(0.5),
        "top_p": np.float32(0.25),
        "top_k": 3,
        "max_new_tokens": 5,  # the newer name counts
        "logit_bias": b"7:-100,8:2.5",
    }
    assert found.inputs["max_new_tokens"].dtype == np.int32
    assert (found.seed, found.stops) == (3, (b".",))


def test_a_seed_that_is_left_out_is_another_each_time():
    assert len({completion().text.sampling.seed for _ in range(8)}) > 1
    assert completion(seed=-1).text.sampling.seed == 2**31 - 1


def test_columns_of_several_texts_of_several_prompts():
    sampling = completion(seed=2**31 - 1, logit_bias={"1": 1}).text.sampling
    columns = sampling.columns(2, 2)
    assert columns["seed"].tolist() == [2**31 - 1, 0, 2**31 - 1, 0]
    assert columns["logit_bias"].tolist() == [b"1:1"] * 4


def test_the_developer_is_the_system():
    """Fault 32, and the newer name of the role."""
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    found = messages(
        {"role": "developer", "content": parts},
        {"role": "assistant", "content": "", "tool_calls": [], "refusal": None},
    )
    assert found == [
        ChatMessage("system", "one\ntwo"),
        ChatMessage("assistant", ""),
    ]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("hi", "messages[0]: expected an object"),
        ({"content": "hi"}, "messages[0].role: expected one of system"),
        ({"role": "robot", "content": "hi"}, "messages[0].role: expected one of"),
        ({"role": "tool", "content": "hi"}, "messages[0].role: is not supported"),
        ({"role": "user"}, "messages[0].content: expected a text"),
        ({"role": "user", "content": None}, "messages[0].content: expected a text"),
        ({"role": "user", "content": ["hi"]}, "messages[0].content[0]: expected"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {}}]},
            "messages[0].content[0]: is not supported: image_url",
        ),
        (
            {"role": "user", "content": [{"type": "text", "text": 1}]},
            'messages[0].content[0]: expected {"type": "text"',
        ),
        (
            {"role": "assistant", "content": "", "tool_calls": [{}]},
            "messages[0].tool_calls: is not supported",
        ),
    ],
)
def test_messages_that_cannot_be_read(message, words):
    with pytest.raises(OpenAIRequestError) as caught:
        messages(message)
    assert words in caught.value.message


def test_chat_logprobs_are_asked_for_by_two_fields():
    assert chat().text.num_alternatives is None
    assert chat(logprobs=False).text.num_alternatives is None
    assert chat(logprobs=True).text.num_alternatives == 0
    assert chat(logprobs=True, top_logprobs=20).text.num_alternatives == 20
