"""Documents as questions: what is none is counted by its reason."""

import json
from collections import Counter
from pathlib import Path

import pytest

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.cleaning import CleaningConfig
from transbeam.configs.schema.columns import ColumnsConfig
from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.configs.schema.table_sources import (
    JsonlSourceConfig,
    SquadSourceConfig,
)
from transbeam.configs.schema.task_file import (
    ChoiceConfig,
    ChoiceTaskConfig,
    GenerationTaskConfig,
)
from transbeam.trainer.tasks.questions import read_documents, read_questions


def jsonl(folder: Path, *rows: dict, **columns) -> JsonlSourceConfig:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return JsonlSourceConfig(path=str(path), columns=ColumnsConfig(**columns))


def read(task, limit=None):
    return read_questions(task, task.source, "source", RUN, limit)


RUN = RunConfig(
    name="r",
    data=DataConfig(
        source=TextSourceConfig(path="a"),
        cleaning=CleaningConfig(normalization="nfkc", minimum_characters=99),
    ),
)
MOODS = (ChoiceConfig(label="1", text="good"), ChoiceConfig(label="0", text="bad"))


def test_words_for_labels(tmp_path):
    rows = [{"t": "fine", "y": 1}, {"t": "dull", "y": 0}, {"t": "odd", "y": 2}]
    rows.append({"t": "no label"})
    source = jsonl(tmp_path, *rows, text="t", label="y")
    prompt = "{text} is"
    found = read(
        ChoiceTaskConfig(name="t", source=source, prompt=prompt, choices=MOODS)
    )
    assert [q.prompt for q in found.questions] == ["fine is", "dull is"]
    assert [q.solution for q in found.questions] == ["good", "bad"]
    assert found.left_out == {"label '2' is no choice": 1, "no field 'y'": 1}


@pytest.mark.parametrize(
    ("answer", "label", "right"),
    [
        ("number", 1, 1),
        ("number", "0", 0),
        ("number", 2, None),
        ("number", "-1", None),
        ("number", "B", None),
        ("number_from_1", 1, 0),
        ("number_from_1", 0, None),
        ("letter", "B", 1),
        ("letter", "a", 0),
        ("letter", "C", None),
        ("letter", "AB", None),
        ("text", "no", 1),
        ("text", "No", None),
    ],
)
def test_forms_of_the_right_choice(tmp_path, answer, label, right):
    rows = [{"t": "q", "c": ["yes", "no"], "y": label}]
    rows.append(
        {"t": "q", "c": ["x", "y"], "y": {"text": "x", "letter": "A"}.get(answer, 1)}
    )
    source = jsonl(tmp_path, *rows, text="t", label="y", choices=("c",))
    task = ChoiceTaskConfig(name="t", source=source, prompt="{text}", answer=answer)
    found = read(task)
    if right is None:
        assert len(found.questions) == 1
        assert found.left_out.total() == 1
    else:
        assert found.questions[0].right == right


def test_choices_that_are_no_choice(tmp_path):
    rows = [{"t": "q", "c": c, "y": 0} for c in (["a"], ["a", "a"], ["a", "b"])]
    source = jsonl(tmp_path, *rows, text="t", label="y", choices=("c",))
    found = read(ChoiceTaskConfig(name="t", source=source, prompt="{text}"))
    assert len(found.questions) == 1
    assert found.left_out == {"fewer than two choices": 1, "two equal choices": 1}


def test_a_limit_counts_questions_not_documents(tmp_path):
    rows = [{"t": "", "y": 1}] + [{"t": str(n), "y": 1} for n in range(5)]
    source = jsonl(tmp_path, *rows, text="t", label="y")
    task = ChoiceTaskConfig(name="t", source=source, prompt="{text}", choices=MOODS)
    found = read(task, limit=2)
    assert [q.prompt for q in found.questions] == ["0", "1"]
    assert found.left_out == {"empty": 1}


def test_answers_of_squad(tmp_path):
    def ask(question, *answers):
        given = [{"text": text, "answer_start": at} for text, at in answers]
        asked = {"id": question, "question": question, "answers": given}
        return asked | {"is_impossible": not given}

    context = "the Elbe and the Spree"
    asked = [ask("one?", ("Elbe", 4), ("the Elbe", 0), ("Elbe", 4)), ask("none?")]
    data = {"data": [{"paragraphs": [{"context": context, "qas": asked}]}]}
    path = tmp_path / "squad.json"
    path.write_text(json.dumps(data), "utf-8")
    task = GenerationTaskConfig(
        name="t",
        source=SquadSourceConfig(path=str(path)),
        prompt="{text}\n{second_text}",
        target="{answers}",
    )
    first, second = read(task).questions
    assert first.prompt == f"{context}\none?"
    assert first.answers == ("Elbe", "the Elbe")
    assert second.answers == ("unanswerable",)


def test_a_source_without_a_question_is_an_error(tmp_path):
    source = jsonl(tmp_path, {"t": "x", "y": 7}, text="t", label="y")
    task = ChoiceTaskConfig(name="t", source=source, prompt="{text}", choices=MOODS)
    with pytest.raises(DataError, match="no document is a question of the task 't': 1"):
        read(task)


def test_a_source_that_is_not_there_is_named_by_its_key(tmp_path):
    source = TextSourceConfig(path=str(tmp_path / "*.txt"))
    task = GenerationTaskConfig(name="t", source=source, prompt="{text}")
    with pytest.raises(DataError, match="shots_source: no file matches"):
        read_questions(task, source, "shots_source", RUN)


def test_texts_are_normalized_like_the_corpus_and_none_is_dropped(tmp_path):
    (tmp_path / "a.txt").write_text("ﬁne \n\n x\n", "utf-8")
    source = TextSourceConfig(path=str(tmp_path / "a.txt"), document="line")
    left_out = Counter()
    found = [d.text for d in read_documents(source, "source", RUN, left_out)]
    assert found == ["fine", "x"]


def test_references_are_right_answers_beside_the_target(tmp_path):
    rows = [{"t": "q", "y": "dog", "r": ["hound", "dog"]}]
    source = jsonl(tmp_path, *rows, text="t", target_text="y", references="r")
    (found,) = read(
        GenerationTaskConfig(name="t", source=source, prompt="{text}")
    ).questions
    assert found.answers == ("dog", "hound")
    assert found.solution == "dog"
