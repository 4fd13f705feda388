"""A row becomes one document or one rejection, whatever its values are."""

import math

import pytest

from transbeam.configs.schema.columns import ColumnsConfig
from transbeam.pipeline.documents.document import Document, Filtered, Rejected
from transbeam.pipeline.sources.readers.table_rows import row_document, tagged_document


def document(row, **columns) -> Document:
    found = row_document(row, ColumnsConfig(**columns), "a.jsonl", 7)
    assert isinstance(found, Document), found
    return found


def reason(row, **columns) -> str:
    found = row_document(row, ColumnsConfig(**columns), "a.jsonl", 7)
    assert isinstance(found, Rejected), found
    assert (found.source, found.offset) == ("a.jsonl", 7)
    return found.reason


def test_all_columns():
    row = {"a": "one", "b": "two", "c": "three", "d": "four", "unused": math.nan}
    assert document(
        row, text="a", second_text="b", target_text="c", label="d"
    ) == Document("one", "a.jsonl", 7, "two", "three", "four")


@pytest.mark.parametrize(
    ("row", "negative"),
    [
        ({"c": "three"}, "three"),
        ({"c": ["a", "list"]}, "a list"),
        ({"c": None}, ""),
        ({"c": " "}, ""),
        ({}, ""),
    ],
    ids=str,
)
def test_a_hard_negative_may_be_missing(row, negative):
    row = {"a": "one", "b": "two", **row}
    found = document(row, text="a", second_text="b", negative_text="c")
    assert found.negative_text == negative
    found = document(row, text="a", second_text="b", negative_text="not {c}")
    assert found.negative_text == (f"not {negative or ' '}" if row.get("c") else "")


def test_a_hard_negative_that_is_no_text_is_wrong():
    row = {"a": "one", "b": "two", "c": 3}
    why = reason(row, text="a", second_text="b", negative_text="c")
    assert why == "field 'c' is not text"


def test_dots_reach_into_nested_values_but_a_whole_name_goes_first():
    row = {
        "translation": {"en": "yes", "de": "ja"},
        "target": ["first", "second"],
        "a.b": "flat",
        "a": {"b": "nested"},
    }
    assert document(row, text="translation.de").text == "ja"
    assert document(row, text="target.1").text == "second"
    assert document(row, text="a.b").text == "flat"
    assert reason(row, text="translation.fr") == "no field 'translation.fr'"
    assert reason(row, text="target.2") == "no field 'target.2'"
    assert reason(row, text="target.first") == "no field 'target.first'"
    assert reason(row, text="a.b.c") == "no field 'a.b.c'"


def test_texts_put_together_from_columns():
    row = {"title": "Rain", "body": ["It", "pours."], "n": 3, "t": {"de": "Regen"}}
    found = document(
        row,
        text="{{{title}}}: {body}",
        second_text="{body}/{title}",
        target_text="{t.de} ({n})",
    )
    assert found.text == "{Rain}: It pours."
    assert found.second_text == "It pours./Rain"
    assert found.target_text == "Regen (3)"
    listed = {"text": "x", "tags": ["a", "b"]}
    assert document(listed, label="{tags}!").label == "a b!"
    assert reason(row, text="{title} {subtitle}") == "no field 'subtitle'"
    assert reason(row, text="{title} {n}") == "field 'n' is not text"
    assert document({"a": "", "b": "x"}, text="{a} {b}").text == " x"
    why = reason({"text": "x", "a": " "}, second_text="{a} ")
    assert why == "field '{a} ' is empty"


@pytest.mark.parametrize(
    ("value", "references"),
    [
        (["one", "two", "one", " "], ("one", "two")),
        ("one", ("one",)),
        ([1, True], ("1", "true")),
    ],
)
def test_references(value, references):
    found = document({"text": "x", "r": value}, references="r")
    assert found.references == references


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([], "field 'r' is empty"),
        ([" "], "field 'r' is empty"),
        (None, "no field 'r'"),
        ([{}], "field 'r' is not text"),
    ],
)
def test_wrong_references(value, why):
    assert reason({"text": "x", "r": value}, references="r") == why


@pytest.mark.parametrize(
    ("row", "is_used"),
    [
        ({"lang": "en", "n": 1}, True),
        ({"lang": "en", "n": "1"}, True),
        ({"lang": "de", "n": 1}, False),
        ({"lang": "en", "n": 1.0}, False),
        ({"lang": "en"}, False),
        ({"lang": None, "n": 1}, False),
        ({"lang": ["en"], "n": 1}, False),
    ],
)
def test_rows_of_certain_values_alone(row, is_used):
    columns = ColumnsConfig(text="t", where={"lang": "en", "n": "1"})
    assert columns.names() == ["t", "lang", "n"]
    found = row_document({"t": "x", **row}, columns, "a.jsonl", 7)
    assert isinstance(found, Document if is_used else Filtered)
    # Whatever else is wrong with another row is not looked at.
    found = row_document(row, columns, "a.jsonl", 7)
    assert isinstance(found, Rejected if is_used else Filtered)


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("good", "good"),
        (1, "1"),
        (True, "true"),
        (False, "false"),
        (2.5, "2.5"),
        (b"caf\xc3\xa9", "café"),
        (["good"], "good"),
        (["good", 1], '["good", "1"]'),
        ([5], "5"),
        (["café", "x"], r'["caf\u00e9", "x"]'),
        ([], "[]"),
    ],
)
def test_labels(value, label):
    assert document({"text": "x", "label": value}, label="label").label == label


@pytest.mark.parametrize(
    ("value", "label"),
    [("0", "bad"), (0, "bad"), (["1"], "good"), ([0, 1], '["bad", "good"]')],
)
def test_labels_by_their_names(value, label):
    columns = {"label": "y", "label_names": {"0": "bad", "1": "good"}}
    assert document({"text": "x", "y": value}, **columns).label == label


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("2", "a label without a name in label_names"),
        ("bad", "a label without a name in label_names"),
        ([0, 2], "a label without a name in label_names"),
        (" ", "field 'y' is empty"),
        (None, "no field 'y'"),
    ],
)
def test_labels_without_a_name(value, why):
    columns = {"label": "y", "label_names": {"0": "bad", "1": "good"}}
    assert reason({"text": "x", "y": value}, **columns) == why


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "no field 'label'"),
        (math.nan, "field 'label' is not a finite number"),
        ("", "field 'label' is empty"),
        (" \n", "field 'label' is empty"),
        ({"a": 1}, "field 'label' is not text"),
        ("\ud800", "field 'label' contains a lone surrogate"),
        (b"\xff", "field 'label' is not UTF-8"),
    ],
)
def test_wrong_labels(value, why):
    assert reason({"text": "x", "label": value}, label="label") == why


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({}, "no field 'text'"),
        ({"text": None}, "no field 'text'"),
        ({"text": 5}, "field 'text' is not text"),
        ({"text": ["a", 5]}, "field 'text' is not text"),
        ({"text": {"en": "a"}}, "field 'text' is not text"),
        ({"text": "a\udfff"}, "field 'text' contains a lone surrogate"),
    ],
)
def test_wrong_texts(row, why):
    assert reason(row) == why


def test_an_empty_text_is_the_business_of_the_cleaning():
    assert document({"text": ""}).text == ""
    assert document({"text": []}).text == ""
    assert document({"text": ["two", "sentences."]}).text == "two sentences."


def test_words_and_tags():
    row = {"tokens": ["Hi", "Ann"], "ner": [0, 1], "line": " Hi  Ann\n", "few": ["O"]}
    tagged = document(row, words="tokens", tags="ner")
    assert (tagged.text, tagged.words, tagged.tags) == (
        "Hi Ann",
        ("Hi", "Ann"),
        ("0", "1"),
    )
    assert document(row, words="line").words == ("Hi", "Ann")
    why = "not one tag for each word"
    assert reason(row, words="tokens", tags="few") == why
    assert reason({"w": ["Hi", " "]}, words="w") == "an empty word"


def test_tagged_sentences():
    assert tagged_document(["a"], ["O"], "a.conll", 3) == Document(
        "a", "a.conll", 3, words=("a",), tags=("O",)
    )
    why = "an empty tag"
    assert tagged_document(["a"], [""], "a", 3) == Rejected(why, "a", 3, "a")


def test_the_excerpt_shows_the_row():
    found = row_document({"txt": "größe"}, ColumnsConfig(), "a", 0)
    assert isinstance(found, Rejected)
    there = "the fields here: txt. Did you mean 'txt'?"
    assert found.excerpt == f'{there} {{"txt": "größe"}}'


@pytest.mark.parametrize(
    "row",
    [
        {
            "m": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": [{"type": "text", "text": "Yo"}]},
            ]
        },
        {"m": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}]},
    ],
)
def test_conversations(row):
    found = document(row, messages="m")
    assert found.messages == (("user", "Hi"), ("assistant", "Yo"))
    assert found.text == "Hi\nYo"


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ("Hi", "field 'm' is not a list of messages"),
        ([], "field 'm' is not a list of messages"),
        (["Hi"], "a message of 'm' has no role"),
        ([{"role": 1, "content": "Hi"}], "a message of 'm' has no role"),
        ([{"role": "user"}], "a message of 'm' has no content"),
        ([{"role": "user", "content": 7}], "field 'm' is not text"),
        (
            [{"role": "user", "content": [{"type": "image_url"}]}],
            "a message of 'm' has a part that is not text",
        ),
    ],
)
def test_wrong_conversations(messages, why):
    assert reason({"m": messages}, messages="m") == why


def test_choices_of_a_list_and_of_several_columns():
    row = {"q": "1+1", "options": ["two", 2, True], "a": "one", "b": "two"}
    assert document(row, text="q", choices=("options",)).choices == ("two", "2", "true")
    found = document(row, text="q", choices=("a", "b", "not {a}"))
    assert found.choices == ("one", "two", "not one")
    assert document(row, text="q").choices == ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("two", "field 'options' is not a list of choices"),
        (None, "no field 'options'"),
        (["a", " "], "a choice is empty"),
        (["a", {"b": 1}], "field 'options' is not text"),
        (["a", float("nan")], "field 'options' is not a finite number"),
    ],
)
def test_choices_that_are_none(value, expected):
    row = {"q": "1+1", "options": value}
    assert reason(row, text="q", choices=("options",)) == expected
