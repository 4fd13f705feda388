"""Replies of an exported model to messages, by the chat template beside it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.base.saved_models import find_version
from transbeam.pipeline.tokenizers.files.chat_format import ChatFormat, make_chat_format
from transbeam.serving.base.exported_tokenizer import read_exported_tokenizer
from transbeam.serving.client.interface import Client
from transbeam.serving.predict.prediction import predict


def reply(client: Client, model: Path, messages: Sequence[str]) -> list[dict[str, Any]]:
    """Generates the reply to each message, the first of a conversation.

    Args:
        client: A client of the SavedModel.
        model: The SavedModel: its version folder or the folder above.
        messages: What users say.

    Returns:
        As `transbeam.serving.predict.prediction.predict`, with the message as `text`.

    Raises:
        ArtifactError: The model has no chat template, or none that can be used.
        ConfigError: A message has a special token of the template.
    """
    chat = _chat_format(find_version(model))
    prompts = [_prompt(chat, message) for message in messages]
    found = predict(client, prompts)
    return [
        {**prediction, "text": message}
        for prediction, message in zip(found, messages, strict=True)
    ]


def _chat_format(version: Path) -> ChatFormat:
    tokenizer = read_exported_tokenizer(version)
    chat = None if tokenizer is None else make_chat_format(tokenizer)
    if chat is None:
        raise ArtifactError(
            f"{version}: has no chat template, so --message cannot be written as a "
            "prompt. Give the model's input with --text, or export a model of "
            "objective.kind=dialogue"
        )
    return chat


def _prompt(chat: ChatFormat, message: str) -> str:
    conversation = [{"role": "user", "content": message}]
    if found := chat.find_marker(conversation):
        raise ConfigError(
            f"--message: found {found[1]!r}, which the model reads as a part of the "
            "chat template and not as text. Leave it out"
        )
    return chat.render_prompt(conversation)
