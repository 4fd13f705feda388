"""The requests of a load test."""

import numpy as np
import pytest

from transbeam.configs.base.errors import ConfigError
from transbeam.serving.client.interface import SignatureTypes
from transbeam.serving.loadtest.request_source import request_sender

INPUTS = {
    "text": "DT_STRING",
    "max_new_tokens": "DT_INT32",
    "temperature": "DT_FLOAT",
    "stop": "DT_STRING",
    "sure": "DT_BOOL",
}
OTHERS = ["max_new_tokens=8", "temperature=0.5", "stop=a=b", "sure=True"]


class Recording:
    """A client that keeps what it was asked."""

    def __init__(self):
        self.asked = []

    def signatures(self):
        plain = SignatureTypes({"text": "DT_STRING"}, {})
        return {"plain": plain, "write": SignatureTypes(INPUTS, {})}

    def ask(self, signature, inputs):
        self.asked.append((signature, inputs))


def test_texts_come_in_turn():
    client = Recording()
    ask = request_sender(client, "plain", ["a", "b", "c"], rows=2)
    for number in range(3):
        ask(number)
    texts = [inputs["text"] for _, inputs in client.asked]
    assert texts == [["a", "b"], ["c", "a"], ["b", "c"]]
    assert all(set(inputs) == {"text"} for _, inputs in client.asked)


def test_other_inputs_are_the_same_in_each_row():
    client = Recording()
    request_sender(client, "write", ["a"], OTHERS, rows=2)(0)
    ((signature, inputs),) = client.asked
    assert signature == "write"
    assert inputs["text"] == ["a", "a"]
    found = {
        name: (v.dtype, v.tolist()) for name, v in inputs.items() if name != "text"
    }
    assert found == {
        "max_new_tokens": (np.int32, [8, 8]),
        "temperature": (np.float32, [0.5, 0.5]),
        "stop": (np.object_, ["a=b", "a=b"]),
        "sure": (np.bool_, [True, True]),
    }


@pytest.mark.parametrize(
    ("signature", "others", "message"),
    [
        ("none", [], "there is none"),
        ("write", [], "takes max_new_tokens, stop, sure, temperature, text; exp"),
        ("plain", ["seed=1"], "the signature plain takes text; expected"),
        (
            "write",
            [*OTHERS, "max_new_tokens=x"],
            "--with max_new_tokens=x: expected a IN",
        ),
        ("write", [*OTHERS, f"max_new_tokens={1 << 40}"], "expected a INT32"),
        ("write", [*OTHERS, "sure=2"], "--with sure=2: expected a BOOL"),
        ("write", ["seed"], "--with seed: expected NAME=VALUE"),
    ],
)
def test_what_cannot_be_asked(signature, others, message):
    with pytest.raises(ConfigError, match=message):
        request_sender(Recording(), signature, ["a"], others, rows=1)
