"""The official client of OpenAI against the server, as its users call it."""

import asyncio

import numpy as np
import openai
import pytest

from tests.serving.server.openai_api.conftest import (
    CHATTER,
    MASKED,
    PREFIX,
    WRITER,
)

HELLO = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def settings(door):
    url = f"{door.client.addresses.rest}{PREFIX}"
    return {"base_url": url, "api_key": "none", "max_retries": 0}


@pytest.fixture(scope="module")
def client(settings):
    with openai.OpenAI(**settings) as client:
        yield client


@pytest.fixture(scope="module")
def wanted(readable):
    return {"max_tokens": 8, "temperature": 0, "logit_bias": readable, "seed": 1}


def test_a_completion_and_its_stream(client, wanted):
    fields = {"model": WRITER, "prompt": "returns a", **wanted}
    whole = client.completions.create(**fields, logprobs=1)
    assert whole.choices[0].finish_reason == "length"
    assert len(whole.choices[0].logprobs.tokens) == whole.usage.completion_tokens == 8
    options = {"include_usage": True}
    with client.completions.create(
        **fields, stream=True, stream_options=options
    ) as stream:
        chunks = list(stream)
    *parts, usage = chunks
    assert usage.usage == whole.usage
    assert "".join(c.choices[0].text for c in parts) == whole.choices[0].text
    assert parts[-1].choices[0].finish_reason == "length"


def test_a_chat_and_its_stream(client, wanted):
    fields = {"model": CHATTER, "messages": HELLO, **wanted}
    whole = client.chat.completions.create(**fields, logprobs=True, top_logprobs=3)
    message = whole.choices[0].message
    assert message.role == "assistant"
    content = whole.choices[0].logprobs.content
    assert "".join(token.token for token in content) == message.content
    assert {len(token.top_logprobs) for token in content} == {3}
    parts = list(client.chat.completions.create(**fields, stream=True))
    assert all(chunk.usage is None for chunk in parts)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in parts)
    assert text == message.content
    assert parts[-1].choices[0].finish_reason == "length"


def test_the_client_that_awaits(settings, wanted):
    async def ask():
        async with openai.AsyncOpenAI(**settings) as client:
            fields = {"model": CHATTER, "messages": HELLO, **wanted}
            whole = await client.chat.completions.create(**fields)
            stream = await client.chat.completions.create(**fields, stream=True)
            parts = [chunk.choices[0].delta.content or "" async for chunk in stream]
            return whole.choices[0].message.content, "".join(parts)

    whole, streamed = asyncio.run(ask())
    assert whole == streamed != ""


def test_embeddings_in_the_format_that_the_client_asks_for(client, door):
    texts = ["a list", "the shape"]
    wanted = door.predict(MASKED, "embed", text=texts)["embedding"]
    for encoding in (openai.omit, "float"):
        found = client.embeddings.create(
            model=MASKED, input=texts, encoding_format=encoding
        )
        vectors = np.array([each.embedding for each in found.data])
        np.testing.assert_allclose(vectors, wanted, rtol=1e-6)
    assert found.usage.prompt_tokens == found.usage.total_tokens > 0


def test_models(client, models):
    """Fault 34: the list was empty."""
    names = sorted(model.name for model in models)
    listed = client.models.list().data
    assert [model.id for model in listed] == names
    for model in listed:
        assert client.models.retrieve(model.id) == model
        assert model.object == "model"
        assert model.created > 1_700_000_000


def test_errors_are_the_client_s_own(client, wanted):
    with pytest.raises(openai.NotFoundError) as missing:
        client.completions.create(model="nobody", prompt="a")
    assert missing.value.code == "model_not_found"
    assert missing.value.param == "model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")
    with pytest.raises(openai.BadRequestError, match="has no chat template"):
        client.chat.completions.create(model=WRITER, messages=HELLO, stream=True)
    tool = {"type": "function", "function": {"name": "f"}}
    with pytest.raises(openai.BadRequestError, match="tools: is not supported"):
        client.chat.completions.create(model=CHATTER, messages=HELLO, tools=[tool])
