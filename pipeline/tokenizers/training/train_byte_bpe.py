"""Trains a byte-level BPE vocabulary on word counts. Needs no TensorFlow."""

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

# In bytes. The trainer's time is quadratic in a word's length, and longer strings
# (base64, ruled lines) are not words of a language. SentencePiece has a similar limit.
_LONGEST_WORD = 4096


def learn_byte_bpe(
    word_counts: Mapping[str, int] | Mapping[bytes, int],
    vocabulary_size: int,
    special_pieces: Sequence[str] = (END_OF_TEXT,),
) -> tuple[list[str], list[tuple[str, str]]]:
    """Learns a vocabulary and the merges of byte-level BPE from word counts.

    Starting from single bytes, the most frequent adjacent pair becomes a new piece
    until the vocabulary is full. The result is a function of the counts alone: neither
    the order of the mapping nor the number of threads changes it.

    Above a total of 50 million words, counts are scaled down to that total, to at least
    one per word. Words of more than 4096 bytes are ignored.

    Args:
        word_counts: The counts of words from `ByteBPETokenizer.words`, at least 1;
            texts are encoded as UTF-8.
        vocabulary_size: The number of pieces including special ones.
        special_pieces: The pieces with the first ids.

    Returns:
        The pieces in the order of their ids (special pieces, single bytes, then merged
        ones in the order of merges) in GPT-2's alphabet, and the merges.

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
