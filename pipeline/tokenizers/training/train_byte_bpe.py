"""Learns a byte-level BPE vocabulary from word counts. Needs no TensorFlow."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from tokenizers import models, trainers

from transbeam.configs.base.errors import DataError
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import (
    ALPHABET,
    END_OF_TEXT,
    to_alphabet,
)
from transbeam.pipeline.tokenizers.training.hf_trainer import (
    MINIMUM_PAIR_COUNT,
    train_pairs,
)

# In bytes. The trainer's time grows with the square of a word's length, and what is
# longer (base64, ruled lines) is no word of a language. SentencePiece has such a bound.
_LONGEST_WORD = 4096


def learn_byte_bpe(
    word_counts: Mapping[str, int] | Mapping[bytes, int],
    vocabulary_size: int,
    special_pieces: Sequence[str] = (END_OF_TEXT,),
) -> tuple[list[str], list[tuple[str, str]]]:
    """Finds the pieces that cut the words of a corpus into few parts.

    Starting from single bytes, the most frequent pair of neighbours becomes a new piece
    until the vocabulary is full. The result is a function of the counts alone: neither
    the order of the mapping nor the number of threads changes it.

    Above 50 million words in all, the counts are scaled down to that total in
    proportion, a word that would fall below one counting as one. A word of more than
    4096 bytes teaches nothing.

    Args:
        word_counts: How often each word occurs, as `ByteBPETokenizer.words` gives
            them; text stands for its UTF-8. Counts are 1 or more.
        vocabulary_size: Number of pieces, special ones included.
        special_pieces: Get the first ids.

    Returns:
        The pieces in the order of their ids (special pieces, single bytes, then merged
        ones as they were found) in GPT-2's alphabet, and the merges that make them.

    Raises:
        DataError: The corpus cannot fill the vocabulary, or the bytes alone do not fit
            into it.

    Example:
    >>> pieces, merges = learn_byte_bpe({" at": 9, "at": 5}, 259)
    >>> pieces[0], pieces[-2:], merges
    ('<|endoftext|>', ['at', 'Ġat'], [('a', 't'), ('Ġ', 'at')])
    """
    fixed = len(special_pieces) + len(ALPHABET)
    if fixed > vocabulary_size:
        raise DataError(
            f"tokenizer.vocabulary_size={vocabulary_size} pieces were asked for, but "
            f"special pieces and single bytes alone are {fixed}. Raise "
            f"tokenizer.vocabulary_size to more than {fixed}"
        )
    # Bytes as printable characters, so a word may hold white space for all the trainer
    # knows, whose words are what stands between spaces.
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
