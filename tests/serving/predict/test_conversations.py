"""Messages become prompts by the chat template beside the model."""

import numpy as np
import pytest

from tests.pipeline.objectives.test_dialogue import END, bytes_model
from tests.serving.session import AskingClient
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.pipeline.tokenizers.base.builtin_chat_templates import (
    find_chat_template,
)
from transbeam.pipeline.tokenizers.files.chat_format import with_chat_template
from transbeam.serving.__main__ import main
from transbeam.serving.base.exported_tokenizer import write_exported_tokenizer
from transbeam.serving.predict.conversations import reply


def capitals(signature, inputs):
    """Answers of a model that writes its prompt in capitals."""
    texts = inputs["text"]
    return {
        "generated_text": np.array([text.upper() for text in texts], object),
        "token_ids": np.zeros((len(texts), 1), np.int32),
        "length": np.ones(len(texts), np.int32),
        "finished": np.ones(len(texts), np.bool_),
    }


CLIENT = AskingClient(capitals, "text")


@pytest.fixture
def version(tmp_path):
    folder = tmp_path / "1"
    folder.mkdir()
    (folder / "saved_model.pb").touch()
    model = with_chat_template(bytes_model(), find_chat_template("plain"))
    write_exported_tokenizer(folder, model)
    return folder


def test_each_message_begins_a_conversation(version) -> None:
    found = reply(CLIENT, version.parent, ["Hi", "Bye"])
    assert [(each["text"], each["generated_text"]) for each in found] == [
        ("Hi", "USER: HI\nASSISTANT:"),
        ("Bye", "USER: BYE\nASSISTANT:"),
    ]


def test_special_tokens_and_models_without_a_template(version, tmp_path) -> None:
    with pytest.raises(ConfigError, match="a part of the chat template"):
        reply(CLIENT, version, [f"Hi{END}"])
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "saved_model.pb").touch()
    with pytest.raises(ArtifactError, match="has no chat template"):
        reply(CLIENT, plain, ["Hi"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--server", "http://x", "--name", "m"], "/openai/v1/chat/completions"),
        (["--model", "x", "--text", "a"], "give one of --text, --message"),
    ],
)
def test_commands_that_make_no_sense(capsys, arguments, message) -> None:
    assert main(["predict", *arguments, "--message", "Hi"]) == 2
    assert message in capsys.readouterr().err
