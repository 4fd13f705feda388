"""Trains a SentencePiece unigram model on word counts. Needs no TensorFlow."""

import io
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sentencepiece import SentencePieceTrainer

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.tokenizer import UnigramConfig
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)

# Fixed, because the pieces depend on the number of threads.
_THREADS = 4

# Special pieces and their ids in T5 and in ALBERT.
_SPECIALS = {
    "t5": {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
    "albert": {
        "pad_id": 0,
        "unk_id": 1,
        "bos_id": -1,
        "eos_id": -1,
        "control_symbols": ["[CLS]", "[SEP]", "[MASK]"],
    },
}


def learn_unigram(
    word_counts: Mapping[str, int], config: UnigramConfig
) -> SentencePieceModel:
    """Finds the pieces that maximize the likelihood of a corpus's words.

    SentencePiece gets each word as a sentence with its count: it prepends the space `▁`
    to the word, and pieces never cross white space. The bytes of the model are a
    function of the counts alone: they depend neither on the order of the mapping nor on
    the number of cores.

    Words of more than 4192 bytes, or with one of the two characters that SentencePiece
    reserves (U+2581, U+2585), are ignored.

    Args:
        word_counts: The counts of words, at least 1, from `WhiteSpaceSplitter.words`:
            without white space, not normalized.
        config: The tokenizer configuration; all its keys are used.

    Raises:
        DataError: The corpus cannot fill the vocabulary, or the vocabulary is too small
            for the corpus's characters.

    Example:
    >>> counts = {"banana": 50, "bandana": 30, "the": 500, "then": 200, "other": 150}
    >>> model = learn_unigram(counts, UnigramConfig(vocabulary_size=18))
    >>> model.pieces[:4], len(model.pieces)
    (('<pad>', '</s>', '<unk>', '▁the'), 18)

    References:
        - [Kudo, 2018](https://arxiv.org/abs/1804.10959), section 3.2
    """
    if not word_counts:
        raise DataError(
            "the corpus has no words to learn a tokenizer from. Add text, or look at "
            "what data.cleaning has filtered"
        )
    size = config.vocabulary_size - config.num_sentinels
    # Set only if needed, as a given value is stored in the model.
    keeps = config.remove_extra_whitespaces is False
    spaces: dict[str, Any] = {"remove_extra_whitespaces": False} if keeps else {}
    written = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=_lines(word_counts),
            input_format="tsv",
            model_writer=written,
            model_type="unigram",
            vocab_size=size,
            normalization_rule_name=config.normalization,
            character_coverage=config.character_coverage,
            byte_fallback=config.byte_fallback,
            num_threads=_THREADS,
            minloglevel=3,
            **_SPECIALS[config.specials],
            **spaces,
        )
    except RuntimeError as error:
        raise _explained(str(error), config, len(word_counts)) from error
    return SentencePieceModel(
        proto=written.getvalue(), num_sentinels=config.num_sentinels
    )


def _lines(word_counts: Mapping[str, int]) -> Iterator[str]:
    for word, count in sorted(word_counts.items()):
        yield f"{word}\t{count}"


def _explained(message: str, config: UnigramConfig, words: int) -> Exception:
    """Converts an error of SentencePiece's trainer to an error for users."""
    size = f"tokenizer.vocabulary_size={config.vocabulary_size} pieces are configured"
    if found := re.search(r"set it to a value <= (\d+)", message):
        supported = int(found[1]) + config.num_sentinels
        return DataError(
            f"{size}, but the corpus, with {words} different words, supports only "
            f"{supported}. Lower tokenizer.vocabulary_size to {supported} or less, or "
            "add text"
        )
    if found := re.search(r"\d+ vs (\d+)\. Increase vocab_size", message):
        needed = int(found[1]) + config.num_sentinels
        return DataError(
            f"{size}, but special pieces and single characters alone are {needed}. "
            "Raise tokenizer.vocabulary_size or lower tokenizer.character_coverage "
            f"(now {config.character_coverage})"
        )
    return DataError(f"tokenizer: SentencePiece could not learn: {message}")
