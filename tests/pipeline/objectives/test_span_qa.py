"""Answers in windows: where they stand, what is not lost, what is no whole token."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.objectives.record_checks import (
    assert_same_when_shuffled,
    records_of,
)
from tests.pipeline.objectives.word_tokenizer import (
    LETTERS,
    WordTokenizer,
    letters,
    run_of,
)
from transbeam.configs.schema.objectives.supervised import SpanQAConfig
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.objectives import span_qa
from transbeam.pipeline.records.features import Records


def asked(text: str, *answers: tuple[int, str], question: str = "q") -> Document:
    return Document(text, "x", 0, second_text=question, answers=answers)


def span_of(records: Records, row: int) -> list[int]:
    first = records.arrays["start_position"][row]
    last = records.arrays["end_position"][row]
    return records.arrays["token_ids"][row, first : last + 1].tolist()


def asking(**options: int) -> SpanQAConfig:
    return SpanQAConfig(max_question_length=4, **options)


def test_the_answer_in_one_window() -> None:
    documents = [asked("a b c d", (4, "c d"))]
    records = records_of(span_qa, run_of(asking(), 10), documents)
    arrays = records.arrays
    assert letters(arrays["token_ids"][0]) == "<q>abcd>.."
    assert arrays["segment_ids"].tolist() == [[0, 0, 0, 1, 1, 1, 1, 1, 0, 0]]
    assert arrays["document_ids"].tolist() == [[1, 1, 1, 1, 1, 1, 1, 1, 0, 0]]
    assert arrays["start_position"].tolist() == [5]
    assert arrays["end_position"].tolist() == [6]
    assert arrays["context_start"].tolist() == [0]
    assert records.counts == {
        "tokens": 5,
        "unknown_tokens": 0,
        "answers": 1,
        "unaligned_answers": 0,
        "unseen_answers": 0,
        "windows_without_answer": 0,
        "truncated_tokens": 0,
        "padding": 2,
        "empty_documents": 0,
    }


def test_an_answer_in_other_words_is_the_closest_run() -> None:
    documents = [
        Document("a b c d", "x", 0, second_text="q", target_text="D, c!"),
        # Quoted answers go first.
        asked("a b c d", (0, "a"))._replace(target_text="d"),
    ]
    records = records_of(span_qa, run_of(asking(), 10), documents)
    spans = {
        records.placement.document[row]: letters(span_of(records, row))
        for row in (0, 1)
    }
    assert spans == {0: "cd", 1: "a"}
    assert records.counts["answers"] == 2

    apart = Document("a b", "x", 0, second_text="q", target_text="c d")
    rejected = records_of(span_qa, run_of(asking(), 10), [apart]).rejected
    assert rejected == [(0, "target_text shares no word with text")]


def test_windows_slide() -> None:
    documents = [asked("a b c d e f g h", (8, "e f"))]
    records = records_of(span_qa, run_of(asking(stride=2), 8), documents)
    shown = [letters(row) for row in records.arrays["token_ids"]]
    assert shown == ["<q>abcd>", "<q>cdef>", "<q>efgh>"]
    assert records.arrays["context_start"].tolist() == [0, 2, 4]
    assert records.arrays["start_position"].tolist() == [0, 5, 3]
    assert records.arrays["end_position"].tolist() == [0, 6, 4]
    assert records.placement.offset.tolist() == [0, 2, 4]
    assert records.counts["windows_without_answer"] == 1


def test_a_stride_is_at_most_a_window() -> None:
    documents = [asked("a b c d e f g h i", (6, "d e"))]
    records = records_of(span_qa, run_of(asking(stride=99), 8), documents)
    shown = [letters(row) for row in records.arrays["token_ids"]]
    assert shown == ["<q>abcd>", "<q>efgh>", "<q>i>..."]
    # The answer is torn by the windows, and that is counted.
    assert records.arrays["start_position"].tolist() == [0, 0, 0]
    assert records.counts["unseen_answers"] == 1


def test_no_answer_is_the_first_token() -> None:
    records = records_of(span_qa, run_of(asking(), 10), [asked("a b")])
    assert records.arrays["start_position"].tolist() == [0]
    assert records.arrays["end_position"].tolist() == [0]
    assert records.counts["answers"] == 0


def test_a_long_question_is_cut() -> None:
    config = SpanQAConfig(max_question_length=2)
    documents = [asked("a b c", (4, "c"), question="q r s t")]
    records = records_of(span_qa, run_of(config, 8), documents)
    assert letters(records.arrays["token_ids"][0]) == "<qr>abc>"
    assert span_of(records, 0) == LETTERS.ids("c")
    assert records.counts["truncated_tokens"] == 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((3, "b"), "answer is not where its offset says"),
        ((-1, "c"), "answer is not where its offset says"),
        ((99, "c"), "answer is not where its offset says"),
        ((1, " "), "answer is blank"),
    ],
)
def test_an_answer_that_is_not_there(answer: tuple[int, str], reason: str) -> None:
    run = run_of(asking(), 8)
    records = records_of(span_qa, run, [asked("a b c", answer)])
    assert records.rejected == [(0, reason)]


def test_the_first_answer_is_taught_and_blanks_are_left_out() -> None:
    documents = [asked("a b c d", (1, " b c "), (0, "a"))]
    records = records_of(span_qa, run_of(asking(), 10), documents)
    assert span_of(records, 0) == LETTERS.ids("b c")
    assert records.counts["unaligned_answers"] == 0


PIECES = WordTokenizer("q a b bc +x +y +xz")


@pytest.mark.parametrize(
    ("text", "answer", "span", "unaligned"),
    [
        # Between two pieces of a word.
        ("a b+x+y a", (3, "+x"), "+x", 0),
        ("a b+x+y a", (2, "b+x"), "b+x", 0),
        # From inside a piece: the whole piece; into one: the rest of the word.
        ("a bc+y a", (3, "c+y"), "bc+y", 1),
        ("a bc+y a", (2, "b"), "bc+y", 1),
        ("a b+xz+y a", (2, "b+x"), "b+xz+y", 1),
        # A word without pieces of its own looks alike however much of it is there.
        ("a foo a", (2, "fo"), "foo", 1),
        ("a foo a", (3, "oo"), "foo", 1),
        ("a foo a", (2, "foo"), "foo", 0),
        ("foo a", (1, "oo a"), "foo a", 1),
        # Nothing but what the tokenizer leaves out: the token after it, or the last.
        ("a ~ b", (2, "~"), "b", 1),
        ("a b ~", (4, "~"), "b", 1),
    ],
)
def test_whole_tokens(
    text: str, answer: tuple[int, str], span: str, unaligned: int
) -> None:
    documents = [asked(text, answer)]
    records = records_of(span_qa, run_of(asking(), 12), documents, PIECES)
    pieces = [i for word in span.split() for i in _pieces(word)]
    assert span_of(records, 0) == pieces
    assert records.counts["unaligned_answers"] == unaligned


def _pieces(word: str) -> list[int]:
    if word in PIECES.pieces:
        return [PIECES.pieces.index(word)]
    return PIECES.ids(word)


def test_a_text_without_tokens() -> None:
    documents = [asked("~", (0, "~")), asked("a", (0, "a"), question="~")]
    records = records_of(span_qa, run_of(asking(), 8), documents)
    assert len(records) == 0
    assert records.counts["empty_documents"] == 2
    assert records.counts["answers"] == 0


@st.composite
def questions(draw: st.DrawFn) -> Document:
    words = draw(st.lists(st.sampled_from("abcdefg~"), min_size=1, max_size=25))
    spaces = draw(st.lists(st.sampled_from([" ", "  "]), min_size=25, max_size=25))
    text = "".join(a + b for a, b in zip(words, spaces, strict=False)).rstrip()
    question = " ".join(draw(st.lists(st.sampled_from("qrst"), min_size=1, max_size=6)))
    if not draw(st.booleans()):
        return asked(text, question=question)
    start = draw(st.integers(0, len(text) - 1))
    end = draw(st.integers(start + 1, len(text)))
    return asked(text, (start, text[start:end]), question=question)


def test_a_text_is_tokenized_once_for_all_its_questions() -> None:
    class Counting(WordTokenizer):
        seen: list[str]

        def tokenize(self, texts):
            self.seen += [text.decode() for text in texts]
            return super().tokenize(texts)

    tokenizer = Counting(" ".join("abcdefgq"))
    tokenizer.seen = []
    documents = [
        asked("a b c", question="q"),
        asked("d e", question="q"),
        asked("a b c", question="q q"),
        asked("a b c", question="q q q"),
    ]
    records = records_of(span_qa, run_of(asking(), 10), documents, tokenizer)
    assert tokenizer.seen.count("a b c") == 1
    found = {letters(ids).strip(".") for ids in records.arrays["token_ids"]}
    # The pieces are numbered otherwise than letters are: `q` is the eighth.
    assert found == {"<h>abc>", "<h>de>", "<hh>abc>", "<hhh>abc>"}


@given(
    st.lists(
        questions(), max_size=5, unique_by=lambda d: (d.text, d.second_text, d.answers)
    ),
    st.integers(1, 9),
)
def test_windows_cover_all_and_hold_the_answers(
    documents: list[Document], stride: int
) -> None:
    run = run_of(asking(stride=stride), 11)
    records = records_of(span_qa, run, documents)
    arrays = records.arrays
    for number, document in enumerate(documents):
        tokens = LETTERS.ids(document.text)
        column = 2 + min(len(LETTERS.ids(document.second_text)), 4)
        seen = np.full(len(tokens), -1)
        for row in np.flatnonzero(records.placement.document == number):
            window = arrays["token_ids"][row][arrays["segment_ids"][row] > 0][:-1]
            start = arrays["context_start"][row]
            assert records.placement.offset[row] == start
            seen[start : start + len(window)] = window
            for offset, wording in document.answers:
                if not (wanted := LETTERS.ids(wording)):
                    continue
                first = len(LETTERS.ids(document.text[:offset])) - start
                held = first >= 0 and first + len(wanted) <= len(window)
                place = arrays["start_position"][row], arrays["end_position"][row]
                end = first + len(wanted) - 1
                assert place == ((first + column, end + column) if held else (0, 0))
        if number in records.placement.document:
            assert seen.tolist() == tokens
    assert_same_when_shuffled(span_qa, run, documents, LETTERS)
