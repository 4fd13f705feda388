"""Learns a SentencePiece unigram model from word counts. Needs no TensorFlow."""

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

# The pieces are a function of the number of threads, whatever the machine has.
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
    """Finds the pieces under which the words of a corpus are likeliest.

    Each word is a sentence to SentencePiece, as often as it counts: it puts the space
    `▁` before the word and learns no piece across white space in any case. The bytes
    of the model are a function of the counts alone: neither the order of the mapping
    nor the machine's number of cores changes them.

    A word of more than 4192 bytes, or with one of the two characters SentencePiece
    keeps for itself (U+2581, U+2585), teaches nothing.

    Args:
        word_counts: How often each word occurs, as `WhiteSpaceSplitter.words` gives
            them: without white space, not normalised. Counts are 1 or more.
        config: All of it is used.

    Raises:
        DataError: The corpus cannot fill the vocabulary, or its characters alone do
            not fit into it.

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
    # Written into the model if it is given, and there are models without.
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
    """What the trainer's failed check means to the user."""
    asked = f"tokenizer.vocabulary_size={config.vocabulary_size} pieces were asked for"
    if found := re.search(r"set it to a value <= (\d+)", message):
        supported = int(found[1]) + config.num_sentinels
        return DataError(
            f"{asked}, but the corpus, with {words} different words, supports only "
            f"{supported}. Lower tokenizer.vocabulary_size to {supported} or less, or "
            "add text"
        )
    if found := re.search(r"\d+ vs (\d+)\. Increase vocab_size", message):
        needed = int(found[1]) + config.num_sentinels
        return DataError(
            f"{asked}, but special pieces and single characters alone are {needed}. "
            "Raise tokenizer.vocabulary_size or lower tokenizer.character_coverage "
            f"(now {config.character_coverage})"
        )
    return DataError(f"tokenizer: SentencePiece could not learn: {message}")
