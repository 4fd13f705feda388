"""Checks the files beside a tokenizer against the imported tokenizer.

tokenizer_config.json    the tokenizer's class and settings
special_tokens_map.json  special pieces by their role
tokenizer.json           the pieces around a text

Slightly wrong ids would degrade a model silently, so a disagreement is an error.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import ArtifactError
from transbeam.model.weights.checkpoints.hf_config import HFConfig, shown
from transbeam.pipeline.tokenizers.base.file_reading import (
    parse_json_object,
    read_bytes,
)
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import ByteBPEModel
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel

# Classes of transformers that tokenize by a `vocab.txt`, or by a `vocab.json` with
# `merges.txt`, as ours do; without the suffix `Fast`.
_WORDPIECE = (
    *("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"),
    *("MobileBertTokenizer", "ConvBertTokenizer", "SqueezeBertTokenizer"),
)
_BYTE_BPE = (
    *("GPT2Tokenizer", "RobertaTokenizer", "BartTokenizer", "LongformerTokenizer"),
    *("LEDTokenizer", "CodeGenTokenizer", "DebertaTokenizer", "BlenderbotTokenizer"),
)
# Our names of special ids, by those of transformers.
_SPECIAL = {
    "pad_token": "pad",
    "unk_token": "unknown",
    "cls_token": "begin",
    "sep_token": "end",
    "mask_token": "mask",
}


def tokenizer_settings(folder: Path) -> HFConfig:
    """Reads `tokenizer_config.json`; no settings if it is not there."""
    named = folder / "tokenizer_config.json"
    return HFConfig.of_file(named) if named.is_file() else HFConfig({}, str(named))


def check_settings(folder: Path, settings: HFConfig, tokenizer: TokenizerModel) -> None:
    """Checks the settings of a WordPiece or byte-level BPE tokenizer.

    Args:
        folder: The checkpoint's folder.
        settings: Its `tokenizer_config.json`.
        tokenizer: The tokenizer, which was read from the checkpoint's other files.

    Raises:
        ArtifactError: A setting is not supported, so the imported tokenizer would
            produce other ids.
    """
    has_json = (folder / "tokenizer.json").is_file()
    if isinstance(tokenizer, WordPieceModel):
        if not has_json:
            _check_class(settings, _WORDPIECE)
        settings.only("tokenize_chinese_chars", True)
        settings.only("do_basic_tokenize", True)
        settings.only("clean_text", True)
        settings.only("never_split", [])
        settings.only("word_tokenizer_type", "basic")
        settings.only("subword_tokenizer_type", "wordpiece")
        _check_agreement(settings, "do_lower_case", tokenizer.lowercase)
        _check_agreement(settings, "strip_accents", tokenizer.strip_accents)
    elif isinstance(tokenizer, ByteBPEModel):
        if not has_json:
            _check_class(settings, _BYTE_BPE)
        _check_agreement(settings, "add_prefix_space", tokenizer.add_prefix_space)


def check_framing(folder: Path, settings: HFConfig, tokenizer: TokenizerModel) -> None:
    """Checks the pieces that an encoder's tokenizer puts around a text.

    Args:
        folder: The checkpoint's folder.
        settings: Its `tokenizer_config.json`.
        tokenizer: The tokenizer, as read from the checkpoint's vocabulary files.

    Raises:
        ArtifactError: The special tokens or their positions differ from those of the
            imported tokenizer.
    """
    file = folder / "special_tokens_map.json"
    for source in (settings, HFConfig.of_file(file)) if file.is_file() else (settings,):
        for key, name in _SPECIAL.items():
            ours = _piece(tokenizer, name)
            theirs = _content(source.values.get(key))
            if ours is not None and theirs not in (None, ours):
                raise source.refusal(key, f"{ours!r}, as the vocabulary has it")
    file = folder / "tokenizer.json"
    if file.is_file():
        _check_post_processor(file, tokenizer)


def _check_class(settings: HFConfig, known: tuple[str, ...]) -> None:
    name = settings.values.get("tokenizer_class")
    if name is not None and str(name).removesuffix("Fast") not in known:
        raise settings.refusal("tokenizer_class", f"one of {', '.join(known)}")


def _check_agreement(settings: HFConfig, key: str, ours: bool) -> None:
    """Checks that a setting agrees with `tokenizer.json`, which transformers uses."""
    if key in settings and settings.flag(key, ours) != ours:
        raise settings.refusal(
            key, f"{json.dumps(ours)}, as tokenizer.json says. Make the two agree"
        )


def _check_post_processor(file: Path, tokenizer: TokenizerModel) -> None:
    around = pieces_around(file)
    ours = (_piece(tokenizer, "begin"), _piece(tokenizer, "end"))
    if around != ours:
        begin, end = ("nothing" if piece is None else repr(piece) for piece in around)
        raise ArtifactError(
            f"{file}: post_processor puts {begin} before a text and {end} behind it, "
            f"expected {ours[0]!r} and {ours[1]!r}, which our encoders read"
        )


def pieces_around(file: Path) -> tuple[str | None, str | None]:
    """The pieces that a `tokenizer.json` puts before and after a text.

    Raises:
        ArtifactError: The file is damaged.
    """
    return _around(parse_json_object(read_bytes(file), str(file)).get("post_processor"))


def _around(post_processor: Any) -> tuple[str | None, str | None]:
    """The pieces before and after a text, from a post-processor.

    Example:
    >>> single = [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]
    >>> _around({"type": "TemplateProcessing", "single": single})
    ('<s>', None)
    """
    match post_processor:
        case {"type": "BertProcessing" | "RobertaProcessing", "cls": cls, "sep": sep}:
            return _first(cls), _first(sep)
        case {"type": "Sequence", "processors": [*processors]}:
            # The ByteLevel processor puts nothing around a text.
            all_around = [_around(processor) for processor in processors]
            return max(all_around, key=lambda pair: pair != (None, None), default=_NONE)
        case {"type": "TemplateProcessing", "single": [*single]}:
            names = [_template_name(part) for part in single]
            at = names.index(None) if None in names else len(names)
            return _joined(names[:at]), _joined(names[at + 1 :])
        case _:
            return _NONE


_NONE = (None, None)


def _template_name(part: Any) -> str | None:
    """The special piece of a template entry; None if the entry is the text."""
    match part:
        case {"SpecialToken": {"id": str(name)}}:
            return name
        case _:
            return None


def _joined(names: Iterable[str | None]) -> str | None:
    return "".join(name for name in names if name) or None


def _first(pair: Any) -> str | None:
    return pair[0] if isinstance(pair, list) and pair else None


def _piece(tokenizer: TokenizerModel, name: str) -> str | None:
    number = getattr(tokenizer.special, name)
    return None if number is None else tokenizer.pieces[number]


def _content(entry: Any) -> str | None:
    """The content of a token entry, which is a string or an object with flags."""
    entry = entry.get("content") if isinstance(entry, Mapping) else entry
    return entry if isinstance(entry, str) else None if entry is None else shown(entry)
