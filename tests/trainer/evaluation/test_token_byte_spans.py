"""From tokens to the bytes of a text, and what a byte costs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.objectives.word_tokenizer import run_of
from tests.small_run import SENTENCE
from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    MaskedConfig,
)
from transbeam.configs.schema.tokenizer import UnigramConfig
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives import causal
from transbeam.pipeline.objectives.base.answer_spans import answer_tokens
from transbeam.pipeline.records.token_rows import tokenize_texts
from transbeam.pipeline.tokenizers.analysis.bytes_per_piece import piece_bytes
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_tokenizer import ByteBPETokenizer
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET
from transbeam.pipeline.tokenizers.training.train_tokenizer import learn_model
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)
from transbeam.trainer.evaluation import span_qa as questions
from transbeam.trainer.evaluation.bits_per_byte import added_bytes, bits_per_byte
from transbeam.trainer.evaluation.span_qa import answer_texts, token_spans

BYTES = ByteBPETokenizer(
    [*ALPHABET, "Ġa", "Ġan", "<|endoftext|>"], [("Ġ", "a"), ("Ġa", "n")]
)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = WordPieceTokenizer(
    [*SPECIAL, "the", "cat", "##s", "cafe", "(", ")", ",", "play", "##ing", "5", "$"],
    lowercase=True,
)


@pytest.fixture(scope="module")
def unigram():
    counts = {word: 5 for word in SENTENCE.split()}
    return learn_model(counts, UnigramConfig(vocabulary_size=40)).build()


def spans(text: str, tokenizer) -> list[str]:
    raw = text.encode()
    edges = zip(*token_spans(raw, tokenizer), strict=True)
    return [raw[begin:end].decode("utf-8", "replace") for begin, end in edges]


@given(st.text())
def test_spans_of_bytes_are_the_text(text: str) -> None:
    begins, ends = token_spans(text.encode(), BYTES)
    np.testing.assert_array_equal(begins[1:], ends[:-1])
    assert not text or (begins[0], ends[-1]) == (0, len(text.encode()))


def test_spans_of_pieces_of_words() -> None:
    assert spans("The Cats  (playing, café) $5", WORDS) == [
        *("The", "Cat", "s", "(", "play", "ing", ",", "café", ")", "$", "5")
    ]


def test_an_unknown_word_is_one_token_all_over() -> None:
    assert spans("the dogs, the", WORDS) == ["the", "dogs", ",", "the"]


def test_spans_of_a_unigram_model(unigram) -> None:
    assert "".join(spans(SENTENCE, unigram)) == SENTENCE


@pytest.mark.parametrize(
    ("tokenizer", "text", "answer"),
    [
        (WORDS, "the cats (playing, café) the", "café"),
        (WORDS, "the cats (playing, café) the", "cats (playing"),
        (WORDS, "the $5 the", "5"),
        (BYTES, "an ant à la an", "ant à"),
    ],
)
def test_the_tokens_of_an_answer_give_the_answer(tokenizer, text, answer) -> None:
    at = text.index(answer)
    document = Document(text, "a.txt", 0, answers=((at, answer),))
    batch = DocumentBatch.from_documents([document])
    tokens = tokenize_texts(batch.texts(), tokenizer)
    characters = np.array([[at, at + len(answer)]])
    found = answer_tokens(batch.texts(), characters, tokens, tokenizer)
    assert found.exact.all()
    texts = [text.encode()]
    assert answer_texts(texts, found.first, found.last, tokenizer) == [answer]


def test_a_text_is_looked_through_once_for_all_its_questions(monkeypatch) -> None:
    seen = []

    def counted(text, tokenizer):
        seen.append(text)
        return token_spans(text, tokenizer)

    monkeypatch.setattr(questions, "token_spans", counted)
    texts = [b"the cats", b"the cats", b"the cafe", b"the cats"]
    place = np.array([0, 1, 1, -1])
    answers = answer_texts(texts, place, place, WORDS)
    assert answers == ["the", "cat", "cafe", ""]
    assert seen == [b"the cats", b"the cafe"]


def test_no_answer_is_an_empty_text() -> None:
    none = np.array([-1])
    assert answer_texts([b"the cat"], none, none, WORDS) == [""]


def test_bytes_of_pieces_add_up_to_the_text(unigram) -> None:
    texts = ["an ant à la an".encode(), b" a\n\nb "]
    table = piece_bytes(BYTES)
    assert table is not None
    np.testing.assert_array_equal(added_bytes(texts, BYTES, table), [0, 0])
    table = piece_bytes(unigram)
    assert table is not None  # a space is put before the text
    odd = [SENTENCE.encode(), "the mödel".encode(), b"the  model"]
    np.testing.assert_array_equal(added_bytes(odd, unigram, table), [1, -1, -1])
    assert piece_bytes(WORDS) is None


def test_bits_per_byte_by_hand() -> None:
    scorer = bits_per_byte(CausalConfig(), BYTES, [b"x an an"])
    assert scorer is not None
    end = BYTES.special.end
    # `x` is given; ` an` and ` an` are asked for, then the end: 6 bytes.
    batch = {
        "target_ids": np.array([[257, 257, end, 0]]),
        "target_weights": np.array([[1.0, 1.0, 1.0, 0.0]]),
    }
    answers = {"logits": {"cost": np.array([9 * math.log(2)])}}
    rows = scorer.statistics(answers, batch)
    np.testing.assert_allclose(rows, [[9 * math.log(2), 6]])
    found = scorer.metric.scores(rows.sum(axis=0))["bits_per_byte"]
    assert found == pytest.approx(1.5)


@pytest.mark.parametrize("specials", ["albert", "t5"])
def test_bytes_asked_for_are_those_of_the_texts(specials) -> None:
    counts = {word: 5 for word in SENTENCE.split()}
    config = UnigramConfig(vocabulary_size=40, specials=specials)
    tokenizer = learn_model(counts, config).build()
    texts = [SENTENCE, "the model", "a batch of tokens"]  # the first is cut in two
    raw = [text.encode() for text in texts]
    scorer = bits_per_byte(CausalConfig(), tokenizer, raw)
    assert scorer is not None
    batch = DocumentBatch.from_documents(
        [Document(text, "a.txt", i) for i, text in enumerate(texts)]
    )
    run = run_of(CausalConfig(), 24)
    records = causal.make_records(batch, tokenizer, run, "validation")
    answers = {"logits": {"cost": np.zeros(len(records))}}
    rows = scorer.statistics(answers, records.arrays)
    table = piece_bytes(tokenizer)
    assert table is not None
    given = [tokenize_texts([text], tokenizer).ids[0] for text in raw]
    # Without a piece before the text its first token is given, with the space before.
    free = 0 if specials == "albert" else sum(table[given] - 1)
    assert rows[:, 1].sum() == sum(map(len, raw)) - free


def test_no_bits_per_byte_where_some_texts_begin_with_a_space() -> None:
    counts = {word: 5 for word in SENTENCE.split()}
    config = UnigramConfig(vocabulary_size=40, specials="albert")
    tokenizer = learn_model(counts, config).build()
    texts = [b"the model", b" the model"]
    assert bits_per_byte(CausalConfig(), tokenizer, texts[1:]) is not None
    assert bits_per_byte(CausalConfig(), tokenizer, texts) is None


def test_no_bits_per_byte_where_the_text_is_not_told(unigram) -> None:
    assert bits_per_byte(CausalConfig(), WORDS, [b"the cat"]) is None
    assert bits_per_byte(MaskedConfig(), BYTES, [b"a"]) is None
    assert bits_per_byte(CausalConfig(), unigram, ["the mödel".encode()]) is None
    assert bits_per_byte(CausalConfig(), unigram, [b"the model"]) is not None
