"""Reads the `tokenizer.json` of the Rust library `tokenizers`. Needs no TensorFlow.

Transbeam supports the features of `tokenizer.json` that BERT, GPT-2 and RoBERTa need; a
file with another feature is rejected, and the error names the feature.
"""

import json
from collections.abc import Callable
from typing import Any

from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.base.file_reading import sort_pieces
from transbeam.pipeline.tokenizers.base.vocabulary import (
    CONTINUATION,
    MAXIMUM_WORD_CHARACTERS,
    UNKNOWN,
)
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import ByteBPEModel
from transbeam.pipeline.tokenizers.files.added_tokens import (
    AddedToken,
    with_added_tokens,
)
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel

_LONGEST_SHOWN = 60
# The required values for identical ids.
_BERT_NORMALIZER = {"clean_text": True, "handle_chinese_chars": True}
_WORDPIECE = {
    "unk_token": UNKNOWN,
    "continuing_subword_prefix": CONTINUATION,
    "max_input_chars_per_word": MAXIMUM_WORD_CHARACTERS,
}
_BYTE_BPE = {
    "dropout": (None, 0.0),
    "continuing_subword_prefix": (None, ""),
    "end_of_word_suffix": (None, ""),
    "byte_fallback": (None, False),
    "ignore_merges": (None, False),
}


def parse_tokenizer_json(
    content: dict[str, Any], where: str, num_rows: int | None = None
) -> WordPieceModel | ByteBPEModel:
    """Reads the tokenizer of a file, without its post-processor.

    Args:
        content: The file's JSON object.
        where: The name of the file in error messages.
        num_rows: The number of rows of the model's embedding, if known.

    Raises:
        ArtifactError: The file is damaged, or has an unsupported feature.

    Example:
    >>> parse_tokenizer_json({"model": {"type": "Unigram", "vocab": []}}, "t.json")
    Traceback (most recent call last):
    ArtifactError: t.json: model.type is 'Unigram', expected
    'WordPiece' or 'BPE'. Give the SentencePiece .model...
    """
    described = content.get("model")
    if not isinstance(described, dict) or "vocab" not in described:
        raise ArtifactError(
            f"{where}: has no model with a vocab: it is no tokenizer.json, or damaged"
        )
    kind = described.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is not None:
        model = reader(content, where)
        model = with_added_tokens(model, added_tokens(content, where), num_rows)
        model.check(where)
        return model
    remedy = " Give the SentencePiece .model it was made from" * (kind == "Unigram")
    raise ArtifactError(
        f"{where}: model.type is {kind!r}, expected 'WordPiece' or 'BPE'.{remedy}"
    )


def _wordpiece(content: dict[str, Any], where: str) -> WordPieceModel:
    for key, value in _WORDPIECE.items():
        _expect(content, f"model.{key}", (value,), where)
    _expect(content, "normalizer.type", ("BertNormalizer",), where)
    for key, value in _BERT_NORMALIZER.items():
        _expect(content, f"normalizer.{key}", (value,), where)
    _expect(content, "normalizer.lowercase", (True, False), where)
    _expect(content, "normalizer.strip_accents", (None, True, False), where)
    _expect(content, "pre_tokenizer.type", ("BertPreTokenizer",), where)
    lowercase = content["normalizer"]["lowercase"]
    strip_accents = _find(content, "normalizer.strip_accents")
    return WordPieceModel(
        pieces=_pieces(content, where),
        lowercase=lowercase,
        strip_accents=lowercase if strip_accents is None else strip_accents,
    )


def _byte_bpe(content: dict[str, Any], where: str) -> ByteBPEModel:
    for key, values in _BYTE_BPE.items():
        _expect(content, f"model.{key}", values, where)
    _expect(content, "normalizer", (None,), where)
    _expect(content, "pre_tokenizer.type", ("ByteLevel",), where)
    _expect(content, "pre_tokenizer.use_regex", (None, True), where)
    _expect(content, "pre_tokenizer.add_prefix_space", (True, False), where)
    return ByteBPEModel(
        pieces=_pieces(content, where),
        merges=_merges(content["model"].get("merges"), where),
        add_prefix_space=content["pre_tokenizer"]["add_prefix_space"],
    )


_READERS: dict[str, Callable[[dict[str, Any], str], Any]] = {
    "WordPiece": _wordpiece,
    "BPE": _byte_bpe,
}


def _merges(merges: Any, where: str) -> tuple[tuple[str, str], ...]:
    """Parses merges: `[left, right]` or, in files of older versions, `left right`."""
    if not isinstance(merges, list):
        raise ArtifactError(f"{where}: model.merges is no list; the file is damaged")
    pairs = [m.split(" ") if isinstance(m, str) else m for m in merges]
    for number, pair in enumerate(pairs):
        if not isinstance(pair, list) or list(map(type, pair)) != [str, str]:
            raise ArtifactError(
                f"{where}: model.merges[{number}] is {merges[number]!r}, expected two "
                "pieces; the file is damaged"
            )
    return tuple((left, right) for left, right in pairs)


def _pieces(content: dict[str, Any], where: str) -> tuple[str, ...]:
    """Returns the vocabulary without added tokens."""
    ids = content["model"]["vocab"]
    if not isinstance(ids, dict):
        raise ArtifactError(f"{where}: model.vocab is no object; the file is damaged")
    return sort_pieces(ids, where)


def added_tokens(content: dict[str, Any], where: str) -> list[AddedToken]:
    """Reads all added tokens, including special tokens.

    Args:
        content: The file's JSON object.
        where: The name of the file in error messages.

    Raises:
        ArtifactError: The tokens are damaged.
    """
    tokens = content.get("added_tokens") or []
    if not isinstance(tokens, list):
        raise ArtifactError(f"{where}: added_tokens is no list; the file is damaged")
    return [AddedToken.from_json(token, f"{where}: added_tokens") for token in tokens]


def _find(content: dict[str, Any], key: str) -> Any:
    value: Any = content
    for name in key.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _expect(
    content: dict[str, Any], key: str, allowed: tuple[Any, ...], where: str
) -> None:
    found = _find(content, key)
    # Compares types, too: 1 is not True.
    if not any(type(found) is type(value) and found == value for value in allowed):
        wanted = " or ".join(dict.fromkeys(map(repr, allowed)))
        raise ArtifactError(
            f"{where}: {key} is {_shown(found)}, which our tokenizers do not do; "
            f"expected {wanted}. Use a tokenizer that is like BERT's, GPT-2's or "
            "RoBERTa's"
        )


def _shown(value: Any) -> str:
    """Formats a value for a message; objects as JSON."""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)[:_LONGEST_SHOWN]
    return repr(str(value)[:_LONGEST_SHOWN])
