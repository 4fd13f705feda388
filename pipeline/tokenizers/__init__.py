"""Text to ids and back: one engine for the job, the trainer and serving.

Names are imported when they are first used: learning a vocabulary and reading the
artifact need no TensorFlow, and tokenizing needs no Rust library.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transbeam.pipeline.tokenizers.artifact import (
        TokenizerArtifact,
        load_tokenizer,
        read_tokenizer,
        save_tokenizer,
        tokenizer_fingerprint,
    )
    from transbeam.pipeline.tokenizers.byte_bpe import ByteBPETokenizer
    from transbeam.pipeline.tokenizers.imports import import_tokenizer
    from transbeam.pipeline.tokenizers.learning import learn_wordpiece
    from transbeam.pipeline.tokenizers.making import learn_model
    from transbeam.pipeline.tokenizers.sentence_piece import SentencePieceTokenizer
    from transbeam.pipeline.tokenizers.wordpiece import WordPieceTokenizer

__all__ = [
    "ByteBPETokenizer",
    "SentencePieceTokenizer",
    "TokenizerArtifact",
    "WordPieceTokenizer",
    "import_tokenizer",
    "learn_model",
    "learn_wordpiece",
    "load_tokenizer",
    "read_tokenizer",
    "save_tokenizer",
    "tokenizer_fingerprint",
]

_HOMES = {
    "ByteBPETokenizer": "byte_bpe",
    "SentencePieceTokenizer": "sentence_piece",
    "WordPieceTokenizer": "wordpiece",
    "import_tokenizer": "imports",
    "learn_model": "making",
    "learn_wordpiece": "learning",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_HOMES.get(name, 'artifact')}")
    return getattr(module, name)
