"""SQuAD: every question once, its answers where they say they are."""

import json
from copy import deepcopy

import pytest

from tests.pipeline.sources.readers.read_one_file import read_file, reasons
from transbeam.configs.schema.table_sources import SquadSourceConfig
from transbeam.pipeline.documents.document import BrokenFile, Document, Filtered
from transbeam.pipeline.sources.readers import squad

CONTEXT = "Zürich \U0001f600 lies in Zürich."
QUESTION = {
    "id": "q1",
    "question": "Where?",
    "answers": [
        {"text": "Zürich", "answer_start": 17},
        {"text": "Zürich", "answer_start": 0},
        {"text": "Zürich", "answer_start": 17},
    ],
}


def corpus(*questions, context=CONTEXT):
    paragraph = {"context": context, "qas": list(questions)}
    return {"version": "1.1", "data": [{"title": "t", "paragraphs": [paragraph]}]}


def read(tmp_path, content):
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    (tmp_path / "a.json").write_bytes(raw)
    return read_file(squad, SquadSourceConfig(path=str(tmp_path / "a.json")))


def test_answers_count_characters_and_come_once_each(tmp_path):
    assert read(tmp_path, corpus(QUESTION)) == [
        Document(
            CONTEXT,
            "a.json",
            0,
            second_text="Where?",
            answers=((17, "Zürich"), (0, "Zürich")),
        )
    ]


def test_a_range_of_hashes_keeps_articles_whole(tmp_path):
    paragraph = {"context": CONTEXT, "qas": [QUESTION, QUESTION]}
    articles = [{"title": f"t{n}", "paragraphs": [paragraph] * 2} for n in range(20)]
    del articles[3]["title"]
    (tmp_path / "a.json").write_text(json.dumps({"data": articles}))
    found = []
    for hash_range in ((0.0, 0.6), (0.6, 1.0)):
        source = SquadSourceConfig(path=str(tmp_path / "a.json"), hash_range=hash_range)
        items = read_file(squad, source)
        assert len(items) == 80
        kept = [i.offset // 4 for i in items if isinstance(i, Document)]
        assert sorted(kept) == sorted(4 * [*set(kept)])
        found.append(set(kept))
    assert not found[0] & found[1]
    assert found[0] | found[1] == set(range(20))
    assert all(found)


def test_answers_as_texts(tmp_path):
    both = {
        "question": "Which?",
        "answers": [
            {"text": "Zürich", "answer_start": 17},
            {"text": "lies", "answer_start": 9},
        ],
    }
    impossible = {"question": "Why?", "is_impossible": True, "answers": []}
    (tmp_path / "a.json").write_text(json.dumps(corpus(QUESTION, both, impossible)))
    source = SquadSourceConfig(path=str(tmp_path / "a.json"), answers="texts")
    first, second, third = read_file(squad, source)
    expected = Document(
        CONTEXT, "a.json", 0, second_text="Where?", target_text="Zürich"
    )
    assert first == expected
    assert second == Document(
        CONTEXT,
        "a.json",
        1,
        second_text="Which?",
        target_text="Zürich",
        references=("Zürich", "lies"),
    )
    assert isinstance(third, Filtered)
    assert (third.reason, third.offset) == ("a question without an answer", 2)


def test_impossible_questions_have_no_answers(tmp_path):
    impossible = {
        "question": "Why?",
        "is_impossible": True,
        "answers": [],
        "plausible_answers": [{"text": "in", "answer_start": 14}],
    }
    found = read(tmp_path, corpus({**QUESTION, "is_impossible": False}, impossible))
    assert [len(d.answers) for d in found if isinstance(d, Document)] == [2, 0]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"answers": [{"text": "Zürich", "answer_start": 16}]}, "does not match"),
        ({"answers": [{"text": "Zürich.", "answer_start": -7}]}, "does not match"),
        ({"answers": [{"text": "Zürich. ", "answer_start": 17}]}, "does not match"),
        ({"answers": [{"text": "Zürich", "answer_start": "17"}]}, "'answer_start'"),
        ({"answers": [{"text": "", "answer_start": 17}]}, "no field 'text'"),
        ({"answers": ["Zürich"]}, "an answer that is no JSON object"),
        ({"answers": []}, "no answer"),
        ({"answers": None}, "no field 'answers'"),
        ({"is_impossible": True}, "marked impossible, yet answered"),
        ({"question": " "}, "no field 'question'"),
        ({"question": "\ud800?"}, "field 'question' contains a lone surrogate"),
    ],
)
def test_bad_questions_are_rejected_one_by_one(tmp_path, changes, why):
    found = read(tmp_path, corpus({**QUESTION, **changes}, QUESTION))
    ((number, reason),) = reasons(found)
    assert number == 0
    assert why in reason
    assert len(found) == 2


def test_bad_paragraphs_and_articles(tmp_path):
    content = corpus(QUESTION)
    paragraphs = content["data"][0]["paragraphs"]
    without_context = deepcopy(paragraphs[0])
    del without_context["context"]
    paragraphs += [without_context, {"context": "no questions"}, "no paragraph"]
    content["data"].append({"title": "no paragraphs"})
    found = read(tmp_path, content)
    assert isinstance(found[0], Document)
    assert reasons(found) == [
        (1, "no field 'context'"),
        (2, "no field 'question'"),
        (3, "no field 'context'"),
        (4, "no field 'context'"),
    ]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"data": [', "not JSON"),
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "not SQuAD JSON"),
        (b'{"data": 1}', "not SQuAD JSON"),
    ],
)
def test_files_that_are_something_else(tmp_path, content, why):
    with pytest.raises(BrokenFile, match=why):
        read(tmp_path, content)
