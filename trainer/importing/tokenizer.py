"""Reads the tokenizer beside a checkpoint's weights."""

from collections.abc import Iterable
from pathlib import Path

from transbeam.configs.base.atomic_files import LFSPointerError
from transbeam.configs.base.errors import UserError
from transbeam.configs.cli.console import Console
from transbeam.configs.schema.model import EncoderConfig
from transbeam.model.weights.checkpoints.checkpoint import Checkpoint
from transbeam.model.weights.checkpoints.hf_config import HFConfig
from transbeam.pipeline.tokenizers.base.file_reading import (
    parse_json_object,
    read_bytes,
)
from transbeam.pipeline.tokenizers.base.vocabulary import is_reserved
from transbeam.pipeline.tokenizers.files.added_tokens import (
    AddedToken,
    read_added_tokens,
)
from transbeam.pipeline.tokenizers.files.import_tokenizer import import_tokenizer
from transbeam.pipeline.tokenizers.files.tokenizer_json_reader import added_tokens
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)
from transbeam.trainer.importing.tokenizer_checks import (
    check_framing,
    check_settings,
    tokenizer_settings,
)

# T5 has sentinels that its SentencePiece file does not name.
_T5_SENTINELS = 100


def read_checkpoint_tokenizer(
    folder: Path, checkpoint: Checkpoint, console: Console
) -> TokenizerModel | None:
    """Reads the tokenizer beside the weights; None, with a warning, if that fails.

    An image model has no tokenizer. A Git LFS pointer in place of a file is an error.
    """
    config = checkpoint.config
    if isinstance(config, EncoderConfig) and config.patches:
        return None
    try:
        if checkpoint.format == "keras_hub":
            return _read_preset_tokenizer(folder)
        rows = checkpoint.vocabulary_size
        settings = tokenizer_settings(folder)
        tokenizer = _read_tokenizer_files(folder, settings, checkpoint.family, rows)
        check_settings(folder, settings, tokenizer)
        if isinstance(config, EncoderConfig):
            check_framing(folder, settings, tokenizer)
        _warn_of_left_out(folder, tokenizer, rows, console)
        return tokenizer
    except LFSPointerError:
        raise  # the tokenizer exists, only its file has not been downloaded
    except UserError as error:
        console.warn(
            f"no tokenizer is imported: {str(error).rstrip('.')}. Without its "
            "tokenizer, the model cannot process text"
        )
        return None


def _warn_of_left_out(
    folder: Path, tokenizer: TokenizerModel, rows: int, console: Console
) -> None:
    """Warns of added tokens that are not imported, and of unused embedding rows."""
    pieces = {*tokenizer.pieces}
    if (spare := rows - len(tokenizer.pieces)) > 0:
        console.say(
            f"the weights have {rows:,} rows and the tokenizer {len(pieces):,} pieces: "
            f"the last {spare:,} rows are never used"
        )
    tokens = read_added_tokens(folder)
    file = folder / "tokenizer.json"
    if file.is_file() and not isinstance(tokenizer, SentencePieceModel):
        tokens = added_tokens(parse_json_object(read_bytes(file), str(file)), str(file))
    if silent := _not_found_in_texts(tokens, tokenizer):
        console.warn(
            f"special tokens that are not recognized in texts or in the output of a "
            f"chat template, where their letters are ordinary text: {_listed(silent)}"
        )
    left_out = [token for token in tokens if token.content not in pieces]
    if not left_out:
        return
    reason = "a SentencePiece model is imported unchanged"
    if all(token.id >= rows for token in left_out):
        reason = f"the weights have no rows beyond {rows - 1:,}"
    console.warn(f"added tokens are not imported, as {reason}: {_listed(left_out)}")


def _not_found_in_texts(
    tokens: Iterable[AddedToken], tokenizer: TokenizerModel
) -> list[AddedToken]:
    """Lists special tokens in the vocabulary that our tokenizer never produces."""
    if isinstance(tokenizer, SentencePieceModel):
        return []  # its own model defines which pieces are found in texts
    special = tokenizer.special
    used = {special.pad, special.unknown, special.begin, special.end, special.mask}
    pieces = {*tokenizer.pieces}
    return [
        token
        for token in tokens
        if token.special
        and token.content in pieces
        and token.id not in {*used, *special.sentinels}
        and not is_reserved(token.content)
    ]


def _listed(tokens: Iterable[AddedToken]) -> str:
    return ", ".join(f"{token.content!r} ({token.id})" for token in tokens)


def _read_tokenizer_files(
    folder: Path, settings: HFConfig, family: str, num_rows: int | None = None
) -> TokenizerModel:
    sentinels = (
        settings.integer("extra_ids", _T5_SENTINELS, minimum=0) if family == "t5" else 0
    )
    has_pieces = any(folder.glob("*.model")) or any(folder.glob("*.spm"))
    return import_tokenizer(
        folder,
        num_sentinels=sentinels if has_pieces else 0,
        num_rows=num_rows,
    )


def _read_preset_tokenizer(folder: Path) -> TokenizerModel:
    """Reads the tokenizer of a KerasHub preset, whose files have other names."""
    assets = folder / "assets/tokenizer"
    text, pieces = assets / "vocabulary.txt", assets / "vocabulary.spm"
    if text.is_file():
        settings = HFConfig.of_file(folder / "tokenizer.json").section("config")
        return import_tokenizer(text, lowercase=settings.flag("lowercase", False))
    return import_tokenizer(pieces if pieces.is_file() else assets)
