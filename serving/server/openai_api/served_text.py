"""The tokenizer and the chat template of a served version."""

import threading
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

from grpc import StatusCode

from transbeam.configs.base.errors import UserError
from transbeam.pipeline.tokenizers.base.chat_template import ChatTemplateError
from transbeam.pipeline.tokenizers.files.chat_format import ChatFormat
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel
from transbeam.serving.base.exported_tokenizer import (
    read_chat_template,
    read_exported_tokenizer,
)
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.models.loaded_version import Loaded
from transbeam.serving.server.openai_api.chat_renderer import (
    ChatRenderer,
    RefusedChat,
    TemplateRenderer,
)
from transbeam.serving.server.openai_api.openai_errors import OpenAIRequestError
from transbeam.serving.server.openai_api.token_texts import TokenTexts
from transbeam.serving.server.request_handling.service import HeldVersion


@dataclass(frozen=True)
class ServedText:
    """Conversions between texts and token ids for a version.

    Attributes:
        model: Name of the model.
        tokens: The texts of tokens; None if the export has no tokenizer.
        chat: The renderer of conversations.
    """

    model: str
    tokens: TokenTexts | None
    chat: ChatRenderer

    def required_tokens(self, param: str) -> TokenTexts:
        """Returns the texts of tokens.

        Args:
            param: Name of the field that needs them.

        Raises:
            OpenAIRequestError: The export has no tokenizer.
        """
        if self.tokens is None:
            raise OpenAIRequestError(
                f"{param}: the export of {self.model!r} has no tokenizer beside its "
                "graph, as those of earlier versions of Transbeam. Export it again",
                param=param,
            )
        return self.tokens


class ServedTexts:
    """Reads the files of versions, each once."""

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Loaded, ServedText] = WeakKeyDictionary()
        self._reading = threading.Lock()

    def find(self, held: HeldVersion) -> ServedText:
        """Returns the conversions of a version; blocks while its files are read.

        Args:
            held: The version.

        Raises:
            StatusError: A file is damaged.
        """
        with self._reading:
            found = self._kept.get(held.loaded)
            if found is None:
                found = _read(held.target.name, held.loaded.folder)
                self._kept[held.loaded] = found
            return found


def _read(model: str, version: Path) -> ServedText:
    try:
        tokenizer = read_exported_tokenizer(version)
        template = read_chat_template(version)
    except UserError as error:
        raise StatusError(StatusCode.FAILED_PRECONDITION, str(error)) from None
    tokens = None if tokenizer is None else TokenTexts(tokenizer)
    return ServedText(model, tokens, _renderer(model, template, tokenizer))


def _renderer(
    model: str, template: str | None, tokenizer: TokenizerModel | None
) -> ChatRenderer:
    if template is None:
        return RefusedChat(f"the model {model!r} has no chat template")
    if tokenizer is None:
        return RefusedChat(
            f"the export of {model!r} has a chat template and no tokenizer beside its "
            "graph, as those of earlier versions of Transbeam"
        )
    try:
        return TemplateRenderer(ChatFormat(template, tokenizer))
    except ChatTemplateError as error:
        return RefusedChat(f"{model}: {error}")
