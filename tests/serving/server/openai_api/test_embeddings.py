"""`embeddings` by hand: of texts and of ids, as numbers and as base64."""

import base64

import numpy as np
import pytest

from tests.serving.server.openai_api.conftest import MASKED, OLD, TRANSLATOR

TEXTS = ["a list", "", "the shape of the array ."]


def embeddings(door, given, **fields):
    status, answer = door.post(
        "embeddings", {"model": MASKED, "input": given, **fields}
    )
    assert status == 200, answer
    return answer


def vectors_of(answer):
    return np.array([each["embedding"] for each in answer["data"]], np.float32)


@pytest.fixture(scope="module")
def plain(door):
    return embeddings(door, TEXTS)


def test_the_reply(door, plain):
    read = door.predict(MASKED, "tokenize", text=TEXTS)
    wanted = door.predict(MASKED, "embed", text=TEXTS)["embedding"]
    np.testing.assert_array_equal(vectors_of(plain), np.float32(wanted))
    assert plain["object"] == "list"
    assert plain["model"] == MASKED
    assert [each["index"] for each in plain["data"]] == [0, 1, 2]
    assert {each["object"] for each in plain["data"]} == {"embedding"}
    tokens = sum(read["length"])
    assert plain["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}


def test_base64_has_little_endian_float32_numbers(door, plain):
    """Fault 28: it was refused, and the official client asks for it unless told."""
    answer = embeddings(door, TEXTS, encoding_format="base64")
    found = [
        np.frombuffer(base64.b64decode(each["embedding"]), "<f4")
        for each in answer["data"]
    ]
    np.testing.assert_array_equal(np.stack(found), vectors_of(plain))


def test_one_text_is_a_list_of_one(door, plain):
    answer = embeddings(door, TEXTS[0])
    np.testing.assert_allclose(vectors_of(answer), vectors_of(plain)[:1], atol=1e-5)


def test_ids_with_and_without_the_special_tokens(door, plain):
    read = door.predict(MASKED, "tokenize", text=TEXTS)
    ids = [
        row[:length]
        for row, length in zip(read["token_ids"], read["length"], strict=True)
    ]
    for given in (ids, [ids[0][1:-1], ids[1], ids[2][1:-1]]):
        answer = embeddings(door, given)
        np.testing.assert_array_equal(vectors_of(answer), vectors_of(plain))
        assert answer["usage"] == plain["usage"]
    alone = vectors_of(embeddings(door, ids[0]))
    np.testing.assert_allclose(alone, vectors_of(plain)[:1], atol=1e-5)


def test_the_width_of_the_model_may_be_named(door, plain):
    width = vectors_of(plain).shape[1]
    answer = embeddings(door, TEXTS, dimensions=width)
    np.testing.assert_array_equal(vectors_of(answer), vectors_of(plain))


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"model": TRANSLATOR}, "model", "no signature 'embed'"),
        ({"model": OLD, "input": [5]}, "input", "has no tokenizer beside its graph"),
        ({"dimensions": 7}, "dimensions", "vectors of this model have 32 numbers"),
        ({"input": [100_000]}, "input", "found 100000"),
        ({"input": [[9, 1, 9]]}, "input", "the tokens of no text"),
        ({"input": ["a", "a " * 99]}, "input", "input 1 is longer than the model"),
    ],
)
def test_requests_that_cannot_be_answered(door, fields, param, words):
    body = {"model": MASKED, "input": "a", **fields}
    status, answer = door.post("embeddings", body)
    assert status == 400, answer
    assert words in answer["error"]["message"]
    assert answer["error"]["param"] == param
