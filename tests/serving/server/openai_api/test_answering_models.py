"""Exports of decoders that learned to answer, asked through OpenAI's API."""

import pytest

from tests.serving.server.openai_api.conftest import copied, opened, small_run
from transbeam.configs.schema.objectives.supervised import DialogueConfig
from transbeam.pipeline.objectives.dialogue import chat_format
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer
from transbeam.serving.server.models.catalog import ModelSettings

# Two exports take half a minute. Commands of docs/answering.md ask such models, too.
pytestmark = pytest.mark.thorough(instead="test_a_chat_and_its_stream")

TALKER, ANSWERER = "talker", "answerer"
TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "a list"},
    {"role": "assistant", "content": "of"},
    {"role": "user", "content": "it"},
]


@pytest.fixture(scope="module")
def runs():
    dialogue = DialogueConfig(chat_template="plain")
    return {
        ANSWERER: small_run("completion"),
        TALKER: small_run("completion", objective=dialogue),
    }


@pytest.fixture(scope="module")
def door(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("answering")
    copies = {name: copied(run, folder / name) for name, run in runs.items()}
    models = tuple(ModelSettings(name, path) for name, path in copies.items())
    with opened(models, runs) as found:
        yield found


def test_a_conversation_is_answered_as_its_rendered_text(door):
    tokenizer = load_tokenizer(door.runs[TALKER].run_folder / "data/tokenizer")
    text = chat_format(tokenizer).render_prompt(TALK)
    expected = door.predict(TALKER, "serving_default", text=[text])
    body = {"model": TALKER, "messages": TALK, "temperature": 0}
    status, answer = door.post("chat/completions", body)
    assert status == 200, answer
    (choice,) = answer["choices"]
    assert choice["message"]["content"] == expected["generated_text"][0] != ""
    assert answer["usage"]["completion_tokens"] == expected["length"][0]
    _, *parts, last = door.chunks("chat/completions", body)
    deltas = [chunk["choices"][0]["delta"] for chunk in parts]
    assert len(deltas) > 1
    assert (
        "".join(delta["content"] for delta in deltas) == expected["generated_text"][0]
    )
    assert last["choices"][0]["finish_reason"] == choice["finish_reason"]


def test_roles_out_of_order_are_refused(door):
    body = {"model": TALKER, "messages": TALK[1:2] + TALK[3:]}
    status, answer = door.post("chat/completions", body)
    assert status == 400
    assert "roles out of order" in answer["error"]["message"]
    assert answer["error"]["param"] == "messages"


def test_a_prompt_is_put_into_the_template_once(door):
    prompt = "def add(a, b):"
    expected = door.predict(ANSWERER, "serving_default", text=[prompt])
    whole = door.complete(prompt, model=ANSWERER, max_tokens=expected["length"][0])
    assert whole["choices"][0]["text"] == expected["generated_text"][0] != ""
    chunks = door.chunks(
        "completions", {"model": ANSWERER, "prompt": prompt, "temperature": 0}
    )
    texts = [chunk["choices"][0]["text"] for chunk in chunks]
    assert len(texts) > 2
    assert "".join(texts) == expected["generated_text"][0]
