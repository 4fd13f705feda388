"""Completion: answers are predicted, and prompts are cut around their template."""

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
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.objectives.supervised import CompletionConfig
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.objectives import completion
from transbeam.pipeline.objectives.base.prompt_truncation import truncate_prompts
from transbeam.pipeline.records.features import Records
from transbeam.pipeline.records.token_rows import tokenize_texts
from transbeam.pipeline.tokenizers.base.interface import SpecialIds

GPT = WordTokenizer(" ".join("abcdefghijklmnopqrstuvwxyz"), SpecialIds(pad=0, end=3))


def pair(text: str, target: str, offset: int = 0, **fields: str) -> Document:
    return Document(text, "x", offset, target_text=target, **fields)


def make(
    documents: list[Document], length: int, tokenizer: WordTokenizer = LETTERS, **keys
) -> Records:
    config = CompletionConfig(**{"prompt": "{text}", **keys})
    return records_of(completion, run_of(config, length), documents, tokenizer)


def test_one_pair() -> None:
    records = make([pair("p q", "a b")], 8)
    (token_ids,) = records.arrays["token_ids"]
    assert letters(token_ids) == "<pqab>.."
    assert records.arrays["document_ids"].tolist() == [[1, 1, 1, 1, 1, 1, 0, 0]]
    assert records.arrays["position_ids"].tolist() == [[0, 1, 2, 3, 4, 5, 0, 0]]
    assert letters(records.arrays["target_ids"][0][:5]) == "pqab>"
    assert records.arrays["target_weights"].tolist() == [[0, 0, 1, 1, 1, 0, 0, 0]]
    assert records.counts == {
        "tokens": 4,
        "unknown_tokens": 0,
        "padding": 2,
        "predictions": 3,
        "truncated_documents": 0,
        "truncated_tokens": 0,
        "empty_documents": 0,
    }


def test_the_loss_of_all_tokens_includes_the_prompt() -> None:
    records = make([pair("p q", "a b")], 8, loss="all")
    assert records.arrays["target_weights"].tolist() == [[1, 1, 1, 1, 1, 0, 0, 0]]


def test_without_a_begin_token_the_first_token_is_given() -> None:
    records = make([pair("p", "a b")], 8, GPT)
    assert letters(records.arrays["token_ids"][0]) == "pab>...."
    assert records.arrays["target_weights"].tolist() == [[1, 1, 1, 0, 0, 0, 0, 0]]


def test_templates_name_the_columns() -> None:
    document = pair("p", "unused", second_text="q", label="a")
    records = make([document], 8, prompt="x {second_text} {text} y", answer="{label} z")
    assert letters(records.arrays["token_ids"][0]) == "<xqpyaz>"


def test_packed_pairs_have_their_own_numbers_and_positions() -> None:
    records = make([pair("p", "a"), pair("q r", "b", 1)], 9)
    (token_ids,) = records.arrays["token_ids"]
    (ids,), (positions,) = (
        records.arrays[name] for name in ("document_ids", "position_ids")
    )
    (weights,) = records.arrays["target_weights"]
    found = {
        letters(token_ids[ids == number]): (
            positions[ids == number].tolist(),
            weights[ids == number].tolist(),
        )
        for number in (1, 2)
    }
    assert found == {
        "<pa>": ([0, 1, 2, 3], [0, 1, 1, 0]),
        "<qrb>": ([0, 1, 2, 3, 4], [0, 0, 1, 1, 0]),
    }


@pytest.mark.parametrize(
    ("too_long", "expected"),
    [("truncate_end", "<xpqyab>"), ("truncate_start", "<xrsyab>")],
)
def test_the_texts_of_a_prompt_are_cut_and_not_its_template(too_long, expected) -> None:
    records = make([pair("p q r s", "a b")], 8, prompt="x {text} y ", too_long=too_long)
    assert letters(records.arrays["token_ids"][0]) == expected
    assert records.arrays["target_weights"].tolist() == [[0, 0, 0, 0, 1, 1, 1, 0]]
    assert records.counts["truncated_documents"] == 1
    assert records.counts["truncated_tokens"] == 2


def test_pairs_that_do_not_fit_are_rejected_and_their_answers_not_cut() -> None:
    long = "a b c d e f g"
    documents = [pair("p q", long), pair("p", "a", 1), pair("p", long[:-2], 2)]
    records = make(documents, 8, prompt="x {text} y")
    assert records.rejected == [
        (0, "answer of 7 tokens: too long for data.sequence_length=8"),
        (2, "answer of 6 tokens: too long for data.sequence_length=8"),
    ]
    assert letters(records.arrays["token_ids"][0]) == "<xpya>.."
    (rejected,) = make([pair("p", "a b c d")], 8, prompt="x {text} y").rejected
    assert rejected == (0, "prompt and answer longer than data.sequence_length")


def test_long_prompts_may_be_dropped() -> None:
    records = make([pair("p q r s t", "a b")], 8, too_long="drop")
    reason = "prompt and answer longer than data.sequence_length"
    assert records.rejected == [(0, reason)]


def test_documents_without_an_answer_or_a_prompt() -> None:
    documents = [pair("p", ""), pair("p", "~", 1), pair("~", "a", 2)]
    records = make(documents, 8)
    assert records.rejected == [(0, "no target_text")]
    assert records.counts["empty_documents"] == 2
    assert len(records) == 0


def test_spaces_before_the_answer_are_tokenized_with_it() -> None:
    """As in GPT-2, whose tokens of words begin with the space."""
    seen = []

    class Recorder(WordTokenizer):
        def tokenize(self, texts):
            seen.extend(texts)
            return super().tokenize(texts)

    recorder = Recorder(" ".join("abcdefghijklmnopqrstuvwxyz"))
    make([pair("p", "a")], 8, recorder, prompt="x {text} y ")
    assert seen == [b"x p y", b" a", b"x ", b" y"]


def test_templates_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"there is no field \{question\}"):
        CompletionConfig(prompt="{question}")
    with pytest.raises(ConfigError, match="the same for every document"):
        CompletionConfig(prompt="Answer:")
    with pytest.raises(ConfigError, match=r"there is no field \{text\}"):
        CompletionConfig(prompt="{text}", answer="{text}")


def _texts(of: str) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(of), min_size=1, max_size=12).map(" ".join)


@given(
    st.lists(st.tuples(_texts("abcxy"), _texts("de")), min_size=1, max_size=8),
    st.sampled_from(["truncate_start", "truncate_end", "drop"]),
    st.sampled_from(["answer", "all"]),
)
def test_each_used_answer_is_whole_and_predicted_once(pairs, too_long, loss) -> None:
    documents = [pair(*texts, row) for row, texts in enumerate(pairs)]
    records = make(documents, 16, prompt="x {text} y", too_long=too_long, loss=loss)
    arrays, found = records.arrays, []
    for row, document_ids in enumerate(arrays["document_ids"]):
        for number in range(1, document_ids.max() + 1):
            where = document_ids == number
            whole = letters(arrays["token_ids"][row][where])
            weights = arrays["target_weights"][row][where] > 0
            predicted = letters(arrays["target_ids"][row][where][weights])
            start, _, answer = whole.rpartition("y")
            assert start.startswith("<x")
            assert predicted == (answer if loss == "answer" else whole[1:])
            found.append(answer)
    rejected = {row for row, _ in records.rejected}
    used = [answer for row, (_, answer) in enumerate(pairs) if row not in rejected]
    assert sorted(found) == sorted(f"{answer.replace(' ', '')}>" for answer in used)


def test_the_order_of_documents_does_not_show() -> None:
    words = "abcdefghijklmnopqrst"
    documents = [
        pair(f"{a} {b}", "d e f"[: i % 7], i)
        for i, (a, b) in enumerate(zip(words, words[::-1], strict=True))
    ]
    config = CompletionConfig(prompt="x {text} y")
    assert_same_when_shuffled(completion, run_of(config, 8), documents, LETTERS)


def test_requests_are_cut_to_a_length_in_any_case() -> None:
    config = CompletionConfig(prompt="x {text} y")
    rows = tokenize_texts([b"x p q r y", b"x p y"], LETTERS)
    for most, expected in {4: ["xpqy", "xpy"], 2: ["xy", "xy"], 1: ["y", "y"]}.items():
        cut = truncate_prompts(rows, most, config, LETTERS)
        texts = [letters(r) for r in np.split(cut.ids, cut.row_splits[1:-1])]
        assert texts == expected
