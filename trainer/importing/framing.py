"""Reads a tokenizer's framing: begin token, end tokens and chat template."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transbeam.configs.cli.console import Console
from transbeam.model.weights.checkpoints.hf_config import HFConfig
from transbeam.pipeline.tokenizers.base.file_reading import decode_utf8, read_bytes
from transbeam.pipeline.tokenizers.base.framing import CHAT_TEMPLATE_FILE
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)
from transbeam.trainer.importing.tokenizer_checks import (
    pieces_around,
    tokenizer_settings,
)

# A folder for further templates in newer checkpoints.
_FURTHER_TEMPLATES = "additional_chat_templates"


def with_framing(
    tokenizer: TokenizerModel,
    folder: Path,
    family: str,
    ends: Sequence[int],
    console: Console,
    *,
    writes: bool = True,
) -> TokenizerModel:
    """Adds begin token, end tokens and chat template of a checkpoint to a tokenizer.

    Args:
        tokenizer: The tokenizer of a decoder or an encoder-decoder.
        folder: The checkpoint's folder.
        family: The model family, such as `gpt2`.
        ends: Ids that end a text, from the checkpoint's settings.
        console: Prints warnings on settings that cannot be imported.
        writes: True for a generative model, whose prompts have no end token.

    Raises:
        ArtifactError: A file is damaged.
    """
    settings = tokenizer_settings(folder)
    number, special = len(tokenizer.pieces), tokenizer.special
    if strange := [i for i in ends if i >= number]:
        console.warn(
            f"eos_token_id: none of the {number:,} pieces has the id "
            f"{' or '.join(map(str, strange))}, so it ends no text"
        )
    begin, end = _pieces_around(folder, tokenizer)
    # The default of transformers.
    usual = begin is not None if begin or end else family != "gpt2"
    adds_begin = settings.flag("add_bos_token", usual)
    if special.begin == special.end:  # used at the end only
        if adds_begin and (begin or "add_bos_token" in settings):
            console.warn(
                f"{settings.where}: add_bos_token is not imported: the same token "
                "begins and ends documents, and is added only at their ends"
            )
        adds_begin = True
    if writes and (end or settings.flag("add_eos_token", False)):
        console.warn(
            f"{settings.where}: add_eos_token is not imported: a prompt must not end "
            "with an end token"
        )
    framing = replace(
        tokenizer.framing,
        add_begin=adds_begin,
        stop_ids=tuple(i for i in ends if i < number and i != special.end),
        chat_template=_chat_template(folder, settings, console),
    )
    return replace(tokenizer, framing=framing)


def adds_end_token(folder: Path, tokenizer: TokenizerModel) -> bool:
    """Returns whether a checkpoint's tokenizer adds an end token to a text."""
    _, end = _pieces_around(folder, tokenizer)
    return end is not None or tokenizer_settings(folder).flag("add_eos_token", False)


def _pieces_around(
    folder: Path, tokenizer: TokenizerModel
) -> tuple[str | None, str | None]:
    """Special tokens around a text, from `tokenizer.json`; none for SentencePiece."""
    file = folder / "tokenizer.json"
    if isinstance(tokenizer, SentencePieceModel) or not file.is_file():
        return None, None
    return pieces_around(file)


def _chat_template(folder: Path, settings: HFConfig, console: Console) -> str | None:
    """Reads the chat template, from its own file or from `tokenizer_config.json`."""
    if more := sorted((folder / _FURTHER_TEMPLATES).glob("*.jinja")):
        named = ", ".join(file.name for file in more)
        console.warn(f"{folder / _FURTHER_TEMPLATES}: not imported: {named}")
    file = folder / CHAT_TEMPLATE_FILE
    if file.is_file():
        text = decode_utf8(read_bytes(file), str(file)).removeprefix("\ufeff")
        return text.replace("\r\n", "\n")  # like Python's text mode
    older = folder / "chat_template.json"
    if older.is_file():
        settings = HFConfig.of_file(older)
    template = settings.values.get("chat_template")
    if isinstance(template, list):
        template = _default_template(template, settings, console)
    if template is not None and not isinstance(template, str):
        raise settings.refusal("chat_template", "a Jinja template")
    return template


def _default_template(
    templates: list[Any], settings: HFConfig, console: Console
) -> Any:
    """The template named `default`; warns that the other templates are not imported."""
    named: dict[str, Any] = {}
    for one in templates:
        if not isinstance(one, dict) or not {"name", "template"} <= one.keys():
            raise settings.refusal("chat_template", "templates, each with its name")
        named[str(one["name"])] = one["template"]
    default = named.pop("default", None)
    if named:
        console.warn(
            f"{settings.where}: chat_template: only `default` is imported, not "
            f"{', '.join(named)}"
        )
    return default
