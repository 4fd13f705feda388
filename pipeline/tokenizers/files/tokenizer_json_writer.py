"""Writes the `tokenizer.json` of the Rust library `tokenizers`. Needs no TensorFlow."""

from typing import Any

from transbeam.pipeline.tokenizers.base.vocabulary import (
    CONTINUATION,
    MAXIMUM_WORD_CHARACTERS,
    UNKNOWN,
)
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import ByteBPEModel
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel


def tokenizer_json(model: WordPieceModel | ByteBPEModel) -> dict[str, Any]:
    """Returns the JSON object with which the Rust library computes the model's ids.

    The JSON object has no post-processor, and its `added_tokens` do not contain special
    tokens, so their names in a text are tokenized as ordinary text.

    Args:
        model: The vocabulary and the rules of the tokenizer.

    Example:
    >>> pieces = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b")
    >>> model = WordPieceModel(pieces=pieces, lowercase=True, strip_accents=True)
    >>> tokenizer_json(model)["model"]["vocab"]["##b"]
    6
    """
    is_wordpiece = isinstance(model, WordPieceModel)
    parts = _wordpiece(model) if is_wordpiece else _byte_bpe(model)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _found_whole(model),
        "post_processor": None,
        **parts,
    }


def _wordpiece(model: WordPieceModel) -> dict[str, Any]:
    return {
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": model.strip_accents,
            "lowercase": model.lowercase,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": CONTINUATION, "cleanup": False},
        "model": {
            "type": "WordPiece",
            "unk_token": UNKNOWN,
            "continuing_subword_prefix": CONTINUATION,
            "max_input_chars_per_word": MAXIMUM_WORD_CHARACTERS,
            "vocab": _vocabulary(model),
        },
    }


def _byte_bpe(model: ByteBPEModel) -> dict[str, Any]:
    by_bytes = {
        "type": "ByteLevel",
        "add_prefix_space": model.add_prefix_space,
        "trim_offsets": True,
        "use_regex": True,
    }
    return {
        "normalizer": None,
        "pre_tokenizer": by_bytes,
        "decoder": by_bytes,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": _vocabulary(model),
            "merges": [list(pair) for pair in model.merges],
        },
    }


def _found_whole(model: WordPieceModel | ByteBPEModel) -> list[dict[str, Any]]:
    folded = {*model.framing.folded_pieces}
    pieces = {*model.framing.found_whole}
    return [
        {
            "id": number,
            "content": piece,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": piece in folded,
            "special": False,
        }
        for number, piece in enumerate(model.pieces)
        if piece in pieces
    ]


def _vocabulary(model: WordPieceModel | ByteBPEModel) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(model.pieces)}
