"""A tokenizer that a test can follow by hand, and runs that ask for one objective."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.model import EncoderConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.configs.schema.training import TrainingConfig
from transbeam.pipeline.tokenizers.base.interface import SpecialIds

PAD, UNK, CLS, SEP = range(4)
SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


class WordTokenizer:
    """Cuts at spaces, and before each `+` within a word; `~` vanishes.

    The ids of the given pieces follow those of the special ones: 4, 5, … A word one
    piece of which is unknown is unknown as a whole.
    """

    word_prefix = ""

    def __init__(self, pieces: str, special: SpecialIds | None = None) -> None:
        self.pieces = (*SPECIAL_PIECES, *pieces.split())
        self.special = special or SpecialIds(pad=PAD, unknown=UNK, begin=CLS, end=SEP)
        self.ordinary_ids = np.arange(4, len(self.pieces), dtype=np.int32)
        self.starts_word = np.array([piece[0] != "+" for piece in self.pieces])

    @property
    def vocabulary_size(self) -> int:
        return len(self.pieces)

    def ids(self, text: str) -> list[int]:
        """The ids of one text."""
        return [i for word in text.replace("~", "").split() for i in self._word(word)]

    def _word(self, word: str) -> list[int]:
        pieces = re.findall(r"\+?[^+]+|\+", word)
        if not all(piece in self.pieces for piece in pieces):
            return [UNK]
        return [self.pieces.index(piece) for piece in pieces]

    def tokenize(self, texts: Any) -> tf.RaggedTensor:
        rows = [self.ids(tf.compat.as_text(text)) for text in texts]
        return tf.RaggedTensor.from_row_lengths(
            np.array([i for row in rows for i in row], np.int32),
            np.array([len(row) for row in rows], np.int64),
            validate=False,
        )

    def words(self, texts: Any) -> tf.RaggedTensor:
        return tf.strings.split(texts)

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        rows = [" ".join(self.pieces[i] for i in row) for row in ids.to_list()]
        return tf.constant(rows)


LETTERS = WordTokenizer("a b c d e f g h i j k l m n o p q r s t u v w x y z")


def letters(ids: Sequence[int]) -> str:
    """Converts ids of `LETTERS` back, with `<` and `>` for framing and `.` for padding.

    Example:
    >>> letters([2, 4, 5, 3, 0])
    '<ab>.'
    """
    return "".join(".?<>abcdefghijklmnopqrstuvwxyz"[i] for i in ids)


def run_of(objective: Any, sequence_length: int) -> RunConfig:
    """A run with an objective."""
    return RunConfig(
        name="test",
        data=DataConfig(
            source=TextSourceConfig(path="x"), sequence_length=sequence_length
        ),
        objective=objective,
        model=EncoderConfig(),
        training=TrainingConfig(steps=100),
    )
