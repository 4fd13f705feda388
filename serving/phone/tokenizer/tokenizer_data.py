"""The data of a tokenizer for phones: the content of one JSON file."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from transbeam.pipeline.tokenizers.base.vocabulary import (
    CONTINUATION,
    MASK,
    MAXIMUM_WORD_CHARACTERS,
)
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import ByteBPEModel
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    MODEL_FILE,
    SentencePieceModel,
)
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_proto import read_pieces
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel
from transbeam.serving.phone.tokenizer.sources.tokenizer import FORMAT, VERSION
from transbeam.serving.phone.tokenizer.unicode_tables import (
    bert_characters,
    gpt2_characters,
)

FILE = "phone_tokenizer.json"


def make_tokenizer_data(model: TokenizerModel) -> dict[str, Any]:
    """Returns the data that the tokenizers for phones read.

    Args:
        model: The tokenizer's model, as `read_tokenizer` returns it.

    Returns:
        `format`, `version`, `kind`, `pieces` in the order of their ids, `special` ids,
        `mask_text` (the literal of the mask token), `whole` (ids of added tokens, which
        are matched before tokenization, the longest first), `folded` (those of them
        that are matched case-insensitively), and data that depends on the kind.

    Raises:
        ArtifactError: The kind of tokenizer is not supported on phones.

    Example:
    >>> pieces = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b")
    >>> model = WordPieceModel(pieces=pieces, lowercase=True, strip_accents=False)
    >>> data = make_tokenizer_data(model)
    >>> data["kind"], data["special"]["mask"], data["longest_word"]
    ('wordpiece', 4, 100)
    """
    match model:
        case WordPieceModel():
            kind, parts = "wordpiece", _wordpiece(model)
        case ByteBPEModel():
            kind, parts = "byte_bpe", _byte_bpe(model)
        case SentencePieceModel():
            kind, parts = _sentence_piece(model)
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "pieces": list(model.pieces),
        "special": asdict(model.special),
        "mask_text": MASK,
        "whole": _ids(model, model.framing.found_whole),
        "folded": _ids(model, model.framing.folded_pieces),
        **parts,
    }


def _ids(model: TokenizerModel, pieces: Sequence[str]) -> list[int]:
    """Returns the ids of pieces, the longest piece first."""
    ids = {piece: i for i, piece in enumerate(model.pieces)}
    return [ids[piece] for piece in sorted(pieces, key=len, reverse=True)]


def _wordpiece(model: WordPieceModel) -> dict[str, Any]:
    return {
        "continuation": CONTINUATION,
        "longest_word": MAXIMUM_WORD_CHARACTERS,
        "characters": bert_characters(
            lowercase=model.lowercase, strip_accents=model.strip_accents
        ),
    }


def _byte_bpe(model: ByteBPEModel) -> dict[str, Any]:
    special = set(model.special_pieces)
    # If a pair is listed twice the last one counts.
    ranks = {f"{left} {right}": i for i, (left, right) in enumerate(model.merges)}
    return {
        "alphabet": "".join(ALPHABET),
        "names": [i for i, piece in enumerate(model.pieces) if piece in special],
        "merges": sorted(ranks, key=ranks.__getitem__),
        "add_prefix_space": model.add_prefix_space,
        "characters": gpt2_characters(),
    }


def _sentence_piece(model: SentencePieceModel) -> tuple[str, dict[str, Any]]:
    file = read_pieces(model, MODEL_FILE)
    alone = ~model.is_ordinary
    alone[model.special.unknown] = False
    rules = asdict(file.rules)
    for name in ("trie", "texts"):
        rules[name] = b64encode(rules[name]).decode()
    return file.kind, {
        # As strings: some JSON parsers round numbers with many digits.
        "scores": list(map(repr, file.scores.tolist())),
        "unknown_score": repr(file.unknown_score),
        "unknown_text": file.unknown_text,
        "byte_ids": file.byte_pieces,
        "of_text": file.of_text,
        "named": file.named,
        "user_defined": file.user_defined,
        "unused": file.unused,
        "alone": np.flatnonzero(alone).tolist(),
        "normalizer": rules,
    }
