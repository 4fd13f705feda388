"""Trains or imports a tokenizer of any kind and saves its folder."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.objectives.supervised import DialogueConfig
from transbeam.configs.schema.tokenizer import (
    ByteBPEConfig,
    PretrainedConfig,
    TokenizerConfig,
    UnigramConfig,
    WordPieceConfig,
)
from transbeam.pipeline.tokenizers.base.builtin_chat_templates import (
    find_chat_template,
)
from transbeam.pipeline.tokenizers.base.file_reading import read_bytes
from transbeam.pipeline.tokenizers.base.vocabulary import (
    SPECIAL_PIECES,
    reserved_pieces,
    sentinel_pieces,
)
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import BYTE_BPE_SPECIALS
from transbeam.pipeline.tokenizers.files.chat_format import (
    NO_CHAT_TEMPLATE,
    with_chat_template,
)
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    METADATA_FILE,
    save_tokenizer,
)
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel

if TYPE_CHECKING:
    import tensorflow as tf

    from transbeam.pipeline.tokenizers.base.interface import SpecialIds

LearnedConfig = WordPieceConfig | ByteBPEConfig | UnigramConfig


class WordSplitter(Protocol):
    """Splits texts into the words on which a vocabulary is trained."""

    def words(self, texts: "tf.Tensor") -> "tf.RaggedTensor":
        """Maps string (N,) to string (N, None)."""
        ...


def fingerprint_pretrained(config: TokenizerConfig) -> tuple[str, "SpecialIds"] | None:
    """Returns the sha256 of a pretrained tokenizer's files, and its special ids.

    Raises:
        ArtifactError: The tokenizer is missing or cannot be used, which should be
            detected before a corpus is read.
    """
    if not isinstance(config, PretrainedConfig):
        return None
    special = _import(config).special
    path = Path(config.path).expanduser()
    digest = hashlib.sha256()
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(file.name.encode() + b"\0" + read_bytes(file, _REMEDY))
    return digest.hexdigest(), special


_REMEDY = "Fix tokenizer.path"


def word_splitter(config: LearnedConfig) -> WordSplitter:
    """Returns the pre-tokenizer for word counts.

    The tokenizer to be trained will use the same pre-tokenizer, so training and use are
    consistent.
    """
    match config:
        case WordPieceConfig():
            from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
                WordPieceTokenizer,
            )

            return WordPieceTokenizer(
                SPECIAL_PIECES,
                lowercase=config.lowercase,
                strip_accents=config.strip_accents,
            )
        case ByteBPEConfig():
            from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_tokenizer import (
                ByteBPETokenizer,
            )
            from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import (
                ALPHABET,
            )

            return ByteBPETokenizer(ALPHABET, [], special_pieces=[])
        case UnigramConfig():
            from transbeam.pipeline.tokenizers.sentencepiece import (
                sentencepiece_tokenizer,
            )

            return sentencepiece_tokenizer.WhiteSpaceSplitter()


def make_tokenizer(
    folder: Path,
    counts: Mapping[str, int],
    config: TokenizerConfig,
    dialogue: DialogueConfig | None = None,
) -> None:
    """Trains or imports the tokenizer and saves it, unless its folder is complete.

    Args:
        folder: The tokenizer folder.
        counts: The counts of words, for a tokenizer to be trained.
        config: The configuration of the tokenizer.
        dialogue: The objective of a dialogue, for a tokenizer that reads the special
            tokens of the chat template in texts; None for other objectives.

    Raises:
        DataError: The corpus cannot fill the vocabulary.
        ArtifactError: The tokenizer to import cannot be used.
    """
    if (folder / METADATA_FILE).is_file():  # the last file to be written
        return
    if isinstance(config, PretrainedConfig):
        model = _import(config)
    else:
        model = learn_model(counts, config)
    if dialogue is not None:
        model = with_chat_template(model, _chat_template(dialogue, model))
    save_tokenizer(folder, model)


def _chat_template(dialogue: DialogueConfig, model: TokenizerModel) -> str:
    """Returns the chat template that a configuration names, or the tokenizer's own."""
    if dialogue.chat_template is not None:
        return find_chat_template(dialogue.chat_template)
    if model.framing.chat_template is None:
        raise ConfigError(NO_CHAT_TEMPLATE)
    return model.framing.chat_template


def _import(config: PretrainedConfig) -> TokenizerModel:
    from transbeam.pipeline.tokenizers.files.import_tokenizer import import_tokenizer

    return import_tokenizer(
        Path(config.path).expanduser(),
        lowercase=config.lowercase,
        strip_accents=config.strip_accents,
        num_sentinels=config.num_sentinels,
    )


def learn_model(counts: Mapping[str, int], config: LearnedConfig) -> TokenizerModel:
    """Trains a tokenizer of the configured kind.

    Args:
        counts: The counts of words, as split by `word_splitter`.
        config: The configuration of the tokenizer.

    Raises:
        DataError: The corpus cannot fill the vocabulary.

    Example:
    >>> config = WordPieceConfig(vocabulary_size=32, num_sentinels=23)
    >>> learn_model({"ab": 9}, config).pieces[-2:]
    ('##b', 'ab')
    """
    match config:
        case WordPieceConfig():
            from transbeam.pipeline.tokenizers.training.hf_trainer import (
                learn_wordpiece,
            )
            from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import (
                WordPieceModel,
            )

            strip = config.strip_accents
            return WordPieceModel(
                pieces=tuple(learn_wordpiece(counts, config)),
                lowercase=config.lowercase,
                strip_accents=config.lowercase if strip is None else strip,
            )
        case ByteBPEConfig():
            from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import (
                ByteBPEModel,
            )
            from transbeam.pipeline.tokenizers.training.hf_trainer import (
                learn_byte_bpe,
            )

            vocabulary, merges = learn_byte_bpe(
                counts,
                config.vocabulary_size,
                special_pieces=(
                    *BYTE_BPE_SPECIALS[config.specials],
                    *reserved_pieces(config.num_reserved),
                    *sentinel_pieces(config.num_sentinels),
                ),
            )
            return ByteBPEModel(pieces=tuple(vocabulary), merges=tuple(merges))
        case UnigramConfig():
            from transbeam.pipeline.tokenizers.training.train_unigram import (
                learn_unigram,
            )

            return learn_unigram(counts, config)
