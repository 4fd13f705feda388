"""Trains a WordPiece vocabulary on word counts. Needs no TensorFlow."""

from collections import Counter
from collections.abc import Mapping

from tokenizers import models, trainers

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.tokenizer import WordPieceConfig
from transbeam.pipeline.tokenizers.base.vocabulary import (
    CONTINUATION,
    MAXIMUM_WORD_CHARACTERS,
    SPECIAL_PIECES,
    UNKNOWN,
    reserved_pieces,
    sentinel_pieces,
)
from transbeam.pipeline.tokenizers.training.hf_trainer import (
    MINIMUM_PAIR_COUNT,
    train_pairs,
)

# Characters of a piece including `##`: in UTF-8 at most 256 bytes, the limit of
# FastWordpieceTokenizer.
_MAXIMUM_PIECE_CHARACTERS = 64


def learn_wordpiece(
    word_counts: Mapping[str, int], config: WordPieceConfig
) -> list[str]:
    """Finds pieces that split the words of a corpus into few parts.

    Starting from single characters, the most frequent adjacent pair becomes a new piece
    until the vocabulary is full. The result is a function of the counts alone: neither
    the order of the mapping nor the number of threads changes it.

    Words that are `[UNK]` with any pieces, because they are too long or have a
    character outside the alphabet, are left out. Above a total of 50 million words,
    counts are scaled down to that total, to at least one per word.

    Args:
        word_counts: The counts of words, at least 1, from `WordPieceTokenizer.words`:
            normalized, without white space.
        config: The configuration; `lowercase` and `strip_accents` are not used, as
            words are already normalized.

    Returns:
        The pieces in the order of their ids: special pieces, reserved ones, sentinels,
        single characters, then merged pieces in the order of merges.

    Raises:
        DataError: The corpus cannot fill the vocabulary, or its characters alone do
            not fit into it.

    Example:
    >>> config = WordPieceConfig(vocabulary_size=32)
    >>> learn_wordpiece({"banana": 9}, config)
    Traceback (most recent call last):
    DataError: tokenizer.vocabulary_size=32 pieces were asked for, but...
    """
    alphabet, continuing = _alphabet(word_counts, config.maximum_alphabet)
    # The Rust trainer numbers the characters in the order of a hash map, different in
    # every run, and breaks ties by these numbers (huggingface/tokenizers#1794). Special
    # pieces are numbered before it reads any word.
    fixed = [
        *SPECIAL_PIECES,
        *reserved_pieces(config.num_reserved),
        *sentinel_pieces(config.num_sentinels),
        *alphabet,
        *(CONTINUATION + character for character in continuing),
    ]
    if len(fixed) > config.vocabulary_size:
        raise DataError(
            f"tokenizer.vocabulary_size={config.vocabulary_size} pieces were asked "
            f"for, but special pieces and single characters alone are {len(fixed)}. "
            "Raise tokenizer.vocabulary_size or lower tokenizer.maximum_alphabet "
            f"(now {config.maximum_alphabet})"
        )
    # WordPieceTrainer is the same trainer without the limit on the length of a piece.
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary_size,
        min_frequency=MINIMUM_PAIR_COUNT,
        special_tokens=fixed,
        continuing_subword_prefix=CONTINUATION,
        max_token_length=_MAXIMUM_PIECE_CHARACTERS,
        show_progress=False,
    )
    model = models.BPE(unk_token=UNKNOWN, continuing_subword_prefix=CONTINUATION)
    usable = _usable(word_counts, set(alphabet))
    ids = train_pairs(model, trainer, usable).get_vocab()
    return sorted(ids, key=ids.__getitem__)


def _alphabet(
    word_counts: Mapping[str, int], maximum: int
) -> tuple[list[str], list[str]]:
    """Returns the most frequent characters, and those that can continue a word."""
    counts: Counter[str] = Counter()
    continuing: set[str] = set()
    for word, count in word_counts.items():
        continuing.update(word[1:])
        for character in word:
            counts[character] += count
    kept = sorted(counts, key=lambda character: (-counts[character], character))
    alphabet = sorted(kept[:maximum])
    return alphabet, [character for character in alphabet if character in continuing]


def _usable(word_counts: Mapping[str, int], alphabet: set[str]) -> dict[str, int]:
    return {
        word: count
        for word, count in word_counts.items()
        if len(word) <= MAXIMUM_WORD_CHARACTERS and alphabet.issuperset(word)
    }
