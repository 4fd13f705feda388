"""Reads the tokenizer beside a checkpoint's weights."""

from pathlib import Path

from configs.console import Console
from configs.errors import UserError
from configs.files import LFSPointerError
from configs.model import EncoderConfig
from model.weights.checkpoint import Checkpoint
from model.weights.settings import Settings
from pipeline.tokenizers.artifact import TokenizerModel
from pipeline.tokenizers.imports import import_tokenizer

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
        return _read_tokenizer_files(folder, checkpoint.family)
    except LFSPointerError:
        raise  # with the file itself there is one
    except UserError as error:
        console.warn(
            f"no tokenizer is imported: {str(error).rstrip('.')}. Without the one it "
            "was trained with, the model cannot read text"
        )
        return None


def _read_tokenizer_files(folder: Path, family: str) -> TokenizerModel:
    named = folder / "tokenizer_config.json"
    told = Settings.of_file(named) if named.is_file() else Settings({}, str(named))
    sentinels = (
        told.integer("extra_ids", _T5_SENTINELS, minimum=0) if family == "t5" else 0
    )
    has_pieces = any(folder.glob("*.model")) or any(folder.glob("*.spm"))
    is_text = (folder / "vocab.txt").is_file() and not (
        has_pieces or (folder / "tokenizer.json").is_file()
    )
    return import_tokenizer(
        folder,
        lowercase=_flag(told, "do_lower_case") if is_text else None,
        strip_accents=_flag(told, "strip_accents") if is_text else None,
        num_sentinels=sentinels if has_pieces else 0,
    )


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
