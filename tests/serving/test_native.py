"""A SavedModel needs no Python: a C program gets the same answers from it."""

import subprocess

import numpy as np

from serving.forms import ask_saved_model
from tests.serving.conftest import LENGTH
from tests.serving.native import ask_natively


def test_every_signature_answers_the_same_without_python(native, exported):
    native(exported.saved_model, ask_saved_model(exported.saved_model))


def test_texts_of_any_kind_and_length(program, exported, ask):
    texts = ["", "the [MASK]", "[MASK] " * LENGTH, "ünknown 漢字 👩‍👩‍👧‍👦!", "a\x00b"]
    requests = [
        (name, {"text": np.array(texts, object)})
        for name in ("serving_default", "embed", "tokenize")
    ]
    answers = ask_natively(program, exported.saved_model, requests)
    for (name, _), found in zip(requests, answers, strict=True):
        expected = ask(name, texts)
        assert found.keys() == expected.keys()
        for output, value in expected.items():
            if value.dtype.kind == "f":
                np.testing.assert_allclose(found[output], value, atol=1e-6)
            else:
                np.testing.assert_array_equal(found[output], value)


def test_the_program_says_what_is_wrong(program, tmp_path):
    done = subprocess.run([program, tmp_path], input="", capture_output=True, text=True)
    assert done.returncode == 1
    assert str(tmp_path) in done.stderr
