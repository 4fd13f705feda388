"""Reads the tokenizer beside a checkpoint's weights."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from configs.console import Console
from configs.errors import UserError
from configs.files import LFSPointerError
from configs.model import EncoderConfig
from model.weights.checkpoint import Checkpoint
from model.weights.settings import Settings
from pipeline.tokenizers.added_tokens import read_added_tokens
from pipeline.tokenizers.artifact import TokenizerModel
from pipeline.tokenizers.byte_bpe_model import ByteBPEModel
from pipeline.tokenizers.framing import CHAT_TEMPLATE_FILE
from pipeline.tokenizers.imports import import_tokenizer
from pipeline.tokenizers.reading import decode_utf8, parse_json_object, read_bytes
from pipeline.tokenizers.sentence_piece_model import SentencePieceModel
from pipeline.tokenizers.tokenizer_json import added_tokens
from trainer.import_tokenizer_checks import (
    check_framing,
    check_settings,
    pieces_around,
)

# Newer checkpoints have templates beside the usual one there.
_FURTHER_TEMPLATES = "additional_chat_templates"

# T5 has sentinels that its SentencePiece file does not name.
_T5_SENTINELS = 100


def read_tokenizer_of(
    folder: Path, checkpoint: Checkpoint, console: Console
) -> TokenizerModel | None:
    """The tokenizer beside the weights; None, and a warning, if it cannot be had."""
    config = checkpoint.config
    if isinstance(config, EncoderConfig) and config.patches:
        return None
    try:
        if checkpoint.format == "keras_hub":
            return _read_preset_tokenizer(folder)
        rows = checkpoint.vocabulary_size
        told = _settings(folder)
        tokenizer = _read_tokenizer_files(folder, told, checkpoint.family, rows)
        check_settings(folder, told, tokenizer)
        if isinstance(config, EncoderConfig):
            check_framing(folder, told, tokenizer)
        _warn_of_left_out(folder, tokenizer, rows, console)
        return tokenizer
    except LFSPointerError:
        raise  # with the file itself there is one
    except UserError as error:
        console.warn(
            f"no tokenizer is imported: {str(error).rstrip('.')}. Without the one it "
            "was trained with, the model cannot read text"
        )
        return None


def _warn_of_left_out(
    folder: Path, tokenizer: TokenizerModel, rows: int, console: Console
) -> None:
    """Names the added tokens that the tokenizer has not taken, and rows of none."""
    pieces = {*tokenizer.pieces}
    if (spare := rows - len(tokenizer.pieces)) > 0:
        console.say(
            f"the weights have {rows:,} rows and the tokenizer {len(pieces):,} pieces: "
            f"the last {spare:,} rows are never used"
        )
    tokens = read_added_tokens(folder)
    file = folder / "tokenizer.json"
    if file.is_file() and not isinstance(tokenizer, SentencePieceModel):
        content = parse_json_object(read_bytes(file), str(file))
        tokens = added_tokens(content, str(file))
    left_out = [token for token in tokens if token.content not in pieces]
    if not left_out:
        return
    listed = ", ".join(f"{token.content!r} ({token.id})" for token in left_out)
    reason = "a SentencePiece model is taken as it is"
    if all(token.id >= rows for token in left_out):
        reason = f"the weights have no rows beyond {rows - 1:,}"
    console.warn(f"added tokens are not taken over, for {reason}: {listed}")


def with_framing(
    tokenizer: TokenizerModel,
    folder: Path,
    family: str,
    ends: Sequence[int],
    console: Console,
) -> TokenizerModel:
    """A tokenizer with what is said beside it of how texts begin, end and are put.

    Args:
        tokenizer: Of a model that writes.
        folder: The checkpoint's.
        family: Of the model, such as `gpt2`.
        ends: Ids that end a text, as the checkpoint says.
        console: Hears what cannot be taken over.

    Raises:
        ArtifactError: A file is damaged.
    """
    told = _settings(folder)
    number, special = len(tokenizer.pieces), tokenizer.special
    if strange := [i for i in ends if i >= number]:
        console.warn(
            f"eos_token_id: none of the {number:,} pieces has the id "
            f"{' or '.join(map(str, strange))}, so it ends no text"
        )
    begin, end = _pieces_around(folder, tokenizer)
    # As transformers has it where nothing is said.
    usual = begin is not None if begin or end else family != "gpt2"
    adds_begin = told.flag("add_bos_token", usual)
    if special.begin == special.end:  # which stands at the end alone
        if adds_begin and (begin or "add_bos_token" in told):
            console.warn(
                f"{told.where}: add_bos_token is not taken over: one piece begins and "
                "ends documents, and stands at their ends only"
            )
        adds_begin = True
    if end or told.flag("add_eos_token", False):
        console.warn(
            f"{told.where}: add_eos_token is not taken over: a text that is to be "
            "written on is not ended"
        )
    framing = replace(
        tokenizer.framing,
        add_begin=adds_begin,
        stop_ids=tuple(i for i in ends if i < number and i != special.end),
        chat_template=_chat_template(folder, told, console),
    )
    return replace(tokenizer, framing=framing)


def _pieces_around(
    folder: Path, tokenizer: TokenizerModel
) -> tuple[str | None, str | None]:
    """What a `tokenizer.json` puts around a text, if the tokenizer is made of it."""
    file = folder / "tokenizer.json"
    if isinstance(tokenizer, SentencePieceModel) or not file.is_file():
        return None, None
    return pieces_around(file)


def _chat_template(folder: Path, told: Settings, console: Console) -> str | None:
    """The template: in a file of its own, as newer checkpoints have it, or not."""
    if more := sorted((folder / _FURTHER_TEMPLATES).glob("*.jinja")):
        named = ", ".join(file.name for file in more)
        console.warn(f"{folder / _FURTHER_TEMPLATES}: not taken over: {named}")
    file = folder / CHAT_TEMPLATE_FILE
    if file.is_file():
        text = decode_utf8(read_bytes(file), str(file)).removeprefix("\ufeff")
        return text.replace("\r\n", "\n")  # as it is read as text
    older = folder / "chat_template.json"
    if older.is_file():
        told = Settings.of_file(older)
    template = told.values.get("chat_template")
    if isinstance(template, list):
        template = _default_of(template, told, console)
    if template is not None and not isinstance(template, str):
        raise told.refusal("chat_template", "a Jinja template")
    return template


def _default_of(templates: list[Any], told: Settings, console: Console) -> Any:
    """The template without a name of its own; the others are named."""
    named: dict[str, Any] = {}
    for one in templates:
        if not isinstance(one, dict) or not {"name", "template"} <= one.keys():
            raise told.refusal("chat_template", "templates, each with its name")
        named[str(one["name"])] = one["template"]
    default = named.pop("default", None)
    if named:
        console.warn(
            f"{told.where}: chat_template: only `default` is taken over, not "
            f"{', '.join(named)}"
        )
    return default


def _settings(folder: Path) -> Settings:
    named = folder / "tokenizer_config.json"
    return Settings.of_file(named) if named.is_file() else Settings({}, str(named))


def _read_tokenizer_files(
    folder: Path, told: Settings, family: str, num_rows: int | None = None
) -> TokenizerModel:
    sentinels = (
        told.integer("extra_ids", _T5_SENTINELS, minimum=0) if family == "t5" else 0
    )
    has_pieces = any(folder.glob("*.model")) or any(folder.glob("*.spm"))
    is_text = (folder / "vocab.txt").is_file() and not (
        has_pieces or (folder / "tokenizer.json").is_file()
    )
    tokenizer = import_tokenizer(
        folder,
        lowercase=_flag(told, "do_lower_case") if is_text else None,
        strip_accents=_flag(told, "strip_accents") if is_text else None,
        num_sentinels=sentinels if has_pieces else 0,
        num_rows=num_rows,
    )
    is_pair = (
        isinstance(tokenizer, ByteBPEModel)
        and not (folder / "tokenizer.json").is_file()
    )
    if is_pair and told.flag("add_prefix_space", False):
        return replace(tokenizer, add_prefix_space=True)
    return tokenizer


def _flag(told: Settings, key: str) -> bool | None:
    """True or false; None if it is left out."""
    return told.flag(key, False) if key in told else None


def _read_preset_tokenizer(folder: Path) -> TokenizerModel:
    """KerasHub calls the same files otherwise."""
    assets = folder / "assets/tokenizer"
    text, pieces = assets / "vocabulary.txt", assets / "vocabulary.spm"
    if text.is_file():
        told = Settings.of_file(folder / "tokenizer.json").section("config")
        return import_tokenizer(text, lowercase=told.flag("lowercase", False))
    return import_tokenizer(pieces if pieces.is_file() else assets)
