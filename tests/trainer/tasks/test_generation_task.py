"""Written answers: where they end, and how they are compared."""

import json

import numpy as np
import pytest

from tests.trainer.tasks.task_samples import TOKENIZER, question, task
from transbeam.configs.base.errors import DataError
from transbeam.configs.cli.console import Console
from transbeam.configs.schema.columns import ColumnsConfig
from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.model import DecoderConfig
from transbeam.configs.schema.objectives.language_modeling import CausalConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.configs.schema.table_sources import JsonlSourceConfig
from transbeam.trainer.tasks import generation_task
from transbeam.trainer.tasks.generation_task import (
    cut_at_stop,
    evaluate_generation,
    score_answers,
    stopping_tokens,
)
from transbeam.trainer.tasks.task_results import TaskContext

RUN = RunConfig(
    name="r",
    data=DataConfig(source=TextSourceConfig(path="a"), sequence_length=96),
    objective=CausalConfig(),
    model=DecoderConfig(max_sequence_length=96),
)


def context(limit=None) -> TaskContext:
    return TaskContext(RUN, None, TOKENIZER, Console(quiet=True), 0, limit)


def test_tokens_with_a_stop_string_in_them():
    found = [
        TOKENIZER.pieces[token] for token in stopping_tokens(TOKENIZER, ["a", "\n"])
    ]
    assert sorted(found) == ["a", "Ċ", "Ġa"]
    assert stopping_tokens(TOKENIZER, []) == []


@pytest.mark.parametrize(
    ("stops", "expected"),
    [(["\n"], "one"), (["x", "\nQ:"], "one\ntwo"), ([], "one\ntwo\nQ: x")],
)
def test_an_answer_ends_before_the_first_stop_string(stops, expected):
    assert cut_at_stop("one\ntwo\nQ: x", stops) == expected


def test_no_answer_of_squad_is_the_empty_answer():
    asked = [question("q", "Elbe", "the Spree"), question("q", "unanswerable")]
    keys = task(target="{answers}")
    right = score_answers(keys, asked, ["the elbe", "unanswerable"], seed=0)
    assert right["exact_match"].score == right["f1"].score == 1.0
    wrong = score_answers(keys, asked, ["unanswerable", "Elbe"], seed=0)
    assert wrong["exact_match"].score == wrong["f1"].score == 0.0


def test_scores_are_those_that_the_task_names():
    asked = [question("q", "a dog"), question("q", "a cat")]
    found = score_answers(
        task(scores=("exact_match",)), asked, ["a dog", "cat"], seed=0
    )
    assert {name: of.score for name, of in found.items()} == {"exact_match": 0.5}


def test_each_reference_is_right():
    asked = [question("q", "a dog", "a hound"), question("q", "a cat")]
    found = score_answers(task(), asked, ["a hound", "a hound"], seed=0)
    assert found["exact_match"].score == 0.5


def test_answers_are_written_after_shots_and_cut(monkeypatch, tmp_path):
    """By a model that writes the last word that it has read, a line end, and more."""
    rows = [{"q": f"say {word}", "a": word} for word in ("xx", "yy", "zz")]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    source = JsonlSourceConfig(
        path=str(path), columns=ColumnsConfig(text="q", target_text="a")
    )
    settings = []

    def writer(model, config):
        settings.append(config)

        def write(ids, mask, seeds):
            end = TOKENIZER.tokenize(["\nsay"]).values.numpy()
            last = ids[:, -2:]
            return np.hstack([last, np.tile(end, (len(ids), 1))]), np.full(len(ids), 6)

        return write

    monkeypatch.setattr(generation_task, "decoder_writer", writer)
    given = task(source=source, max_new_tokens=8)
    results = list(evaluate_generation(context(), given, [0, 2]))
    assert [result.shots for result in results] == [0, 2]
    assert [row["answer"] for row in results[0].answers] == ["xx", "yy", "zz"]
    assert results[0].scores["exact_match"].score == 1.0
    assert sorted(results[1].answers[0]["shots"]) == [
        "rows.jsonl:27",
        "rows.jsonl:54",
    ]
    (config,) = settings
    assert config.max_new_tokens == 8
    assert TOKENIZER.special.end in config.stop_token_ids


def test_answers_that_leave_no_room_for_a_prompt(tmp_path):
    with pytest.raises(DataError, match="max_new_tokens=96 leaves no room"):
        next(evaluate_generation(context(), task(max_new_tokens=96), [0]))
