"""Trains WordPiece and byte-level BPE with the Rust library's pair merging."""

from collections.abc import Iterator, Mapping

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from transbeam.configs.base.errors import DataError

# A pair that occurs only once is not representative of the language.
MINIMUM_PAIR_COUNT = 2

# The trainer reads text, so a word with the count 1,000 is written 1,000 times. A
# resolution of 1 in 50 million is sufficient for corpora of any size.
_MAXIMUM_WORDS_WRITTEN = 50_000_000
_WORDS_PER_LINE = 10_000


def train_pairs(
    model: models.BPE, trainer: trainers.BpeTrainer, word_counts: Mapping[str, int]
) -> Tokenizer:
    """Fills a vocabulary by merging the most frequent pairs of pieces.

    The result is a function of the counts, independent of their order. Above a total of
    50 million words, counts are scaled down to that total, to at least one per word.

    Args:
        model: A model without pieces; it is modified.
        trainer: Has the size of the vocabulary, and its first pieces.
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
            f"tokenizer.vocabulary_size={trainer.vocab_size} pieces were asked for, "
            f"but the corpus, with {len(word_counts)} different words, supports only "
            f"{supported}. Lower tokenizer.vocabulary_size to {supported} or less, or "
            "add text"
        )
    return learner


def lines_of_words(word_counts: Mapping[str, int], maximum_total: int) -> Iterator[str]:
    """Yields lines of text in which words occur by their counts, scaled if needed.

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
