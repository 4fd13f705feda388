"""A SavedModel needs no Python: a C program gets the same answers from it."""

import subprocess

import numpy as np
import pytest

from tests.serving.conftest import LENGTH
from tests.serving.native.c_client import ask_natively, require_same
from tests.serving.native.sample_requests import answers_of, requests_of
from tests.serving.session import session_on
from tests.serving.untrained import TINY, untrained
from transbeam.serving.export.saved_model_writer import write_saved_model
from transbeam.serving.signatures.task_factory import make_signature_task

MODELS = sorted(path.stem for path in TINY.glob("*.yaml"))


def test_every_signature_answers_the_same_without_python(native, exported):
    with session_on(exported.saved_model) as ask:
        native(exported.saved_model, ask)


@pytest.mark.thorough(instead="test_every_signature_answers_the_same_without_python")
def test_texts_of_any_kind_and_length(program, exported):
    texts = ["", "the [MASK]", "[MASK] " * LENGTH, "ünknown 漢字 👩‍👩‍👧‍👦!", "a\x00b"]
    requests = [
        (name, {"text": np.array(texts, object)})
        for name in ("serving_default", "embed", "tokenize")
    ]
    answers = ask_natively(program, exported.saved_model, requests)
    with session_on(exported.saved_model) as ask:
        for (name, inputs), found in zip(requests, answers, strict=True):
            require_same(found, ask(name, inputs), atol=1e-6)


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    """Folder of all models' tokenizers, as many are equal."""
    return tmp_path_factory.mktemp("tokenizers")


@pytest.mark.thorough(instead="test_every_signature_answers_the_same_without_python")
@pytest.mark.parametrize("name", MODELS)
def test_every_tiny_model_answers_as_keras_does(name, program, tokenizers, tmp_path):
    trained = untrained(name, tokenizers)
    write_saved_model(trained, tmp_path / "1")
    task = make_signature_task(trained)
    requests = requests_of(task)
    answers = ask_natively(program, tmp_path / "1", requests)
    for found, expected in zip(answers, answers_of(task, requests), strict=True):
        require_same(found, expected)


def test_the_program_says_what_is_wrong(program, tmp_path):
    done = subprocess.run([program, tmp_path], input="", capture_output=True, text=True)
    assert done.returncode == 1
    assert str(tmp_path) in done.stderr
