"""Tags: at the first piece of their word, none lost, sentences cut between words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.objectives.record_checks import (
    assert_same_when_shuffled,
    records_of,
)
from tests.pipeline.objectives.word_tokenizer import (
    CLS,
    PAD,
    SEP,
    UNK,
    WordTokenizer,
    run_of,
)
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.objectives.supervised import TokenClassificationConfig
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.objectives import token_classification
from transbeam.pipeline.tokenizers.base.interface import SpecialIds

TAGS = ("O", "B", "I")
CONFIG = TokenClassificationConfig(labels=TAGS)
TOKENIZER = WordTokenizer("a b c d e f +x +y +z")
A, B, C, X, Y = (TOKENIZER.pieces.index(piece) for piece in ("a", "b", "c", "+x", "+y"))


def tagged(words: str, tags: str, offset: int = 0) -> Document:
    return Document(
        words, "x", offset, words=tuple(words.split()), tags=tuple(tags.split())
    )


def test_the_first_piece_carries_the_tag() -> None:
    documents = [tagged("a b+x+y c", "O B I")]
    records = records_of(token_classification, run_of(CONFIG, 9), documents, TOKENIZER)
    arrays = records.arrays
    assert arrays["token_ids"].tolist() == [[CLS, A, B, X, Y, C, SEP, PAD, PAD]]
    assert arrays["label_ids"].tolist() == [[0, 0, 1, 0, 0, 2, 0, 0, 0]]
    assert arrays["label_weights"].tolist() == [[0, 1, 1, 0, 0, 1, 0, 0, 0]]
    assert arrays["document_ids"].tolist() == [[1, 1, 1, 1, 1, 1, 1, 0, 0]]
    assert records.counts == {
        "tokens": 5,
        "unknown_tokens": 0,
        "predictions": 3,
        "cut_documents": 0,
        "truncated_tokens": 0,
        "padding": 2,
    }


def test_all_pieces() -> None:
    config = TokenClassificationConfig(labels=TAGS, all_pieces=True)
    documents = [tagged("a b+x+y c", "O B I")]
    records = records_of(token_classification, run_of(config, 8), documents, TOKENIZER)
    assert records.arrays["label_ids"].tolist() == [[0, 0, 1, 1, 1, 2, 0, 0]]
    assert records.arrays["label_weights"].tolist() == [[0, 1, 1, 1, 1, 1, 0, 0]]


def test_a_long_sentence_goes_on_in_the_next_record() -> None:
    documents = [tagged("a b+x c+y a", "O B I O")]
    records = records_of(token_classification, run_of(CONFIG, 6), documents, TOKENIZER)
    # Four tokens fit. `c+y` would be torn after `a b+x`, so it waits for the next.
    assert records.arrays["token_ids"].tolist() == [
        [CLS, A, B, X, SEP, PAD],
        [CLS, C, Y, A, SEP, PAD],
    ]
    assert records.placement.offset.tolist() == [0, 3]
    assert records.counts["cut_documents"] == 1
    assert records.counts["predictions"] == 4


def test_a_word_longer_than_a_record_is_alone_and_keeps_its_tag() -> None:
    documents = [tagged("a b+x+y+z+x+y c", "O B I")]
    records = records_of(token_classification, run_of(CONFIG, 5), documents, TOKENIZER)
    assert records.arrays["token_ids"].tolist() == [
        [CLS, A, SEP, PAD, PAD],
        [CLS, B, X, Y, SEP],
        [CLS, C, SEP, PAD, PAD],
    ]
    assert records.arrays["label_weights"].sum() == 3
    assert records.counts["truncated_tokens"] == 3


def test_a_word_without_a_piece_is_unknown() -> None:
    documents = [tagged("~ a ~ ~ b ~", "B O B I O I")]
    records = records_of(token_classification, run_of(CONFIG, 9), documents, TOKENIZER)
    assert records.arrays["token_ids"].tolist() == [
        [CLS, UNK, A, UNK, UNK, B, UNK, SEP, PAD]
    ]
    assert records.arrays["label_ids"].tolist() == [[0, 1, 0, 1, 2, 0, 2, 0, 0]]
    tokenizer = WordTokenizer("a b", SpecialIds(pad=0, begin=2, end=3))
    with pytest.raises(ConfigError, match="has no piece"):
        records_of(token_classification, run_of(CONFIG, 9), documents, tokenizer)


def test_words_inside_a_sentence_get_the_tokenizers_prefix() -> None:
    class WithSpaces(WordTokenizer):
        word_prefix = " "

        def ids(self, text: str) -> list[int]:
            return [self.pieces.index(text.replace(" ", "_"))]

    documents = [tagged("a b", "O B")]
    run = run_of(CONFIG, 4)
    records = records_of(token_classification, run, documents, WithSpaces("a b _a _b"))
    assert records.arrays["token_ids"].tolist() == [[CLS, 4, 7, SEP]]


def test_what_cannot_be_used_is_said() -> None:
    documents = [
        tagged("a b", "O X"),
        tagged("a b", "O"),
        Document("a b", "x", 2),
        tagged("a b", "O O", 3),
    ]
    records = records_of(token_classification, run_of(CONFIG, 8), documents, TOKENIZER)
    assert records.rejected == [
        (0, "tag 'X' is not one of the configured labels (O, B, I)"),
        (1, "not as many tags as words"),
        (2, "no words"),
    ]


words = st.text("abg+x+y~", min_size=1, max_size=9)
sentences = st.lists(
    st.lists(st.tuples(words, st.sampled_from(TAGS)), min_size=1, max_size=12),
    max_size=6,
    unique_by=tuple,
)


@given(sentences, st.integers(4, 9))
def test_every_word_keeps_its_tag(
    rows: list[list[tuple[str, str]]], length: int
) -> None:
    documents = [
        tagged(" ".join(word for word, _ in row), " ".join(tag for _, tag in row))
        for row in rows
    ]
    run = run_of(CONFIG, length)
    records = records_of(token_classification, run, documents, TOKENIZER)
    arrays = records.arrays
    for number, row in enumerate(rows):
        own = records.placement.document == number
        asked = arrays["label_weights"][own] > 0
        # Boolean indexing goes through the records of a sentence in order.
        assert arrays["label_ids"][own][asked].tolist() == [
            TAGS.index(tag) for _, tag in row
        ]
        firsts = [(TOKENIZER.ids(word) or [UNK])[0] for word, _ in row]
        assert arrays["token_ids"][own][asked].tolist() == firsts
    content = (arrays["document_ids"] > 0).sum() - 2 * len(records)
    assert records.counts["tokens"] == content
    pieces = sum(len(TOKENIZER.ids(word)) or 1 for row in rows for word, _ in row)
    assert content + records.counts["truncated_tokens"] == pieces
    assert (arrays["label_weights"][:, 1][records.lengths > 0] == 1).all()
    assert_same_when_shuffled(token_classification, run, documents, TOKENIZER)


def test_no_sentence() -> None:
    records = records_of(token_classification, run_of(CONFIG, 8), [], TOKENIZER)
    assert records.arrays["token_ids"].shape == (0, 8)
    assert records.arrays["label_weights"].dtype == np.float32
