"""Trains WordPiece and byte-level BPE with the Rust library's pair merging."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

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
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import (
    ALPHABET,
    END_OF_TEXT,
    to_alphabet,
)

# A pair that occurs only once is not representative of the language.
MINIMUM_PAIR_COUNT = 2

# The trainer reads text, so a word with the count 1,000 is written 1,000 times. A
# resolution of 1 in 50 million is sufficient for corpora of any size.
_MAXIMUM_WORDS_WRITTEN = 50_000_000
_WORDS_PER_LINE = 10_000


# In bytes. The trainer's time is quadratic in a word's length, and longer strings
# (base64, ruled lines) are not words of a language. SentencePiece has a similar limit.
_LONGEST_WORD = 4096
# Characters of a piece including `##`: in UTF-8 at most 256 bytes, the limit of
# FastWordpieceTokenizer.
_MAXIMUM_PIECE_CHARACTERS = 64


def train_pairs(
    model: models.BPE, trainer: trainers.BpeTrainer, word_counts: Mapping[str, int]
) -> Tokenizer:
    """Fills a vocabulary by merging the most frequent pairs of pieces.

    The result is a function of the counts, independent of their order. If the counts
    add up to more than 50 million, they are scaled down to this sum, but to at least 1
    for each word.

    Args:
        model: A model without pieces, which is trained in place.
        trainer: Trainer with the vocabulary size and the pieces that get the first ids.
        word_counts: The counts of words without white space.

    Raises:
        DataError: There are not enough pairs to fill the vocabulary.
    """
    learner = Tokenizer(model)
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    lines = lines_of_words(word_counts, _MAXIMUM_WORDS_WRITTEN)
    learner.train_from_iterator(lines, trainer)
    supported = learner.get_vocab_size()
    if supported < trainer.vocab_size:
        raise DataError(
            f"tokenizer.vocabulary_size={trainer.vocab_size} pieces are configured, "
            f"but the corpus, with {len(word_counts)} different words, supports only "
            f"{supported}. Lower tokenizer.vocabulary_size to {supported} or less, or "
            "add text"
        )
    return learner


def lines_of_words(word_counts: Mapping[str, int], maximum_total: int) -> Iterator[str]:
    """Yields lines that repeat each word by its count, scaled down if needed.

    Example:
    >>> list(lines_of_words({"the": 2, "cat": 1}, 100))
    ['cat the the']
    """
    total = sum(word_counts.values())
    line: list[str] = []
    for word, count in sorted(word_counts.items()):
        if total > maximum_total:
            count = max(1, count * maximum_total // total)
        while count > 0:
            written = min(count, _WORDS_PER_LINE - len(line))
            line.extend([word] * written)
            count -= written
            if len(line) == _WORDS_PER_LINE:
                yield " ".join(line)
                line = []
    yield " ".join(line)


def learn_byte_bpe(
    word_counts: Mapping[str, int] | Mapping[bytes, int],
    vocabulary_size: int,
    special_pieces: Sequence[str] = (END_OF_TEXT,),
) -> tuple[list[str], list[tuple[str, str]]]:
    """Learns a vocabulary and the merges of byte-level BPE from word counts.

    Starting from single bytes, the most frequent adjacent pair becomes a new piece
    until the vocabulary is full. The result is a function of the counts alone: neither
    the order of the mapping nor the number of threads changes it.

    If the counts add up to more than 50 million, they are scaled down to this sum, but
    to at least 1 for each word. Words of more than 4096 bytes are ignored.

    Args:
        word_counts: The counts, at least 1, of words from `ByteBPETokenizer.words`;
            words of type `str` are encoded as UTF-8.
        vocabulary_size: The number of pieces including special ones.
        special_pieces: The pieces with the first ids.

    Returns:
        The pieces in GPT-2's alphabet, in the order of their ids (special pieces,
        single bytes, then merged pieces in the order of merges), and the merges.

    Raises:
        DataError: The corpus cannot fill the vocabulary, or the vocabulary is too small
            for the special pieces and the 256 bytes.

    Example:
    >>> pieces, merges = learn_byte_bpe({" at": 9, "at": 5}, 259)
    >>> pieces[0], pieces[-2:], merges
    ('<|endoftext|>', ['at', 'Ġat'], [('a', 't'), ('Ġ', 'at')])
    """
    fixed = len(special_pieces) + len(ALPHABET)
    if fixed > vocabulary_size:
        raise DataError(
            f"tokenizer.vocabulary_size={vocabulary_size} pieces are configured, but "
            f"special pieces and single bytes alone are {fixed}. Raise "
            f"tokenizer.vocabulary_size to more than {fixed}"
        )
    # Bytes become printable characters, so that white space inside a word does not
    # split it in the trainer.
    written: Counter[str] = Counter()
    for word, count in word_counts.items():
        raw = word if isinstance(word, bytes) else word.encode()
        if len(raw) <= _LONGEST_WORD:
            written[to_alphabet(raw)] += count
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        min_frequency=MINIMUM_PAIR_COUNT,
        special_tokens=list(special_pieces),
        initial_alphabet=list(ALPHABET),
        show_progress=False,
    )
    learner = train_pairs(models.BPE(), trainer, written)
    ids = learner.get_vocab()
    merges = json.loads(learner.to_str())["model"]["merges"]
    return sorted(ids, key=ids.__getitem__), [(left, right) for left, right in merges]


def learn_wordpiece(
    word_counts: Mapping[str, int], config: WordPieceConfig
) -> list[str]:
    """Learns pieces that split the words of a corpus into few tokens.

    Starting from single characters, the most frequent adjacent pair becomes a new piece
    until the vocabulary is full. The result is a function of the counts alone: neither
    the order of the mapping nor the number of threads changes it.

    Words that are too long, or contain a character outside the learned alphabet, are
    ignored, as they would always be tokenized to `[UNK]`. If the counts add up to more
    than 50 million, they are scaled down to this sum, but to at least 1 for each word.

    Args:
        word_counts: The counts of words, at least 1, from `WordPieceTokenizer.words`:
            normalized, without white space.
        config: The configuration; `lowercase` and `strip_accents` are not used, as
            words are already normalized.

    Returns:
        The pieces in the order of their ids: special pieces, reserved pieces,
        sentinels, single characters, then merged pieces in the order of merges.

    Raises:
        DataError: The corpus cannot fill the vocabulary, or the vocabulary is too small
            for the corpus's characters.

    Example:
    >>> config = WordPieceConfig(vocabulary_size=32)
    >>> learn_wordpiece({"banana": 9}, config)
    Traceback (most recent call last):
    DataError: tokenizer.vocabulary_size=32 pieces are configured, but...
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
            f"tokenizer.vocabulary_size={config.vocabulary_size} pieces are "
            "configured, but special pieces and single characters alone are "
            f"{len(fixed)}. Raise tokenizer.vocabulary_size or lower "
            f"tokenizer.maximum_alphabet (now {config.maximum_alphabet})"
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
    characters = set(alphabet)
    usable = {
        word: count
        for word, count in word_counts.items()
        if len(word) <= MAXIMUM_WORD_CHARACTERS and characters.issuperset(word)
    }
    ids = train_pairs(model, trainer, usable).get_vocab()
    return sorted(ids, key=ids.__getitem__)


def _alphabet(
    word_counts: Mapping[str, int], maximum: int
) -> tuple[list[str], list[str]]:
    """Returns the most frequent characters, and those of them that continue words."""
    counts: Counter[str] = Counter()
    continuing: set[str] = set()
    for word, count in word_counts.items():
        continuing.update(word[1:])
        for character in word:
            counts[character] += count
    kept = sorted(counts, key=lambda character: (-counts[character], character))
    alphabet = sorted(kept[:maximum])
    return alphabet, [character for character in alphabet if character in continuing]
