"""The part `probes`: tasks from files, control tasks, and their tables."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.trainer.analysis.random_texts import make_encoder_context, make_inputs
from transbeam.configs.base.errors import DataError
from transbeam.model.inspect.hidden_states import with_hidden_states
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.probes.probe_results import (
    divide_texts,
    measure_accuracies,
)
from transbeam.trainer.analysis.probes.probes import analyze_probes
from transbeam.trainer.analysis.probes.probing_tasks import (
    draw_control_labels,
    make_length_task,
    read_entity_task,
    read_treebank_tasks,
)
from transbeam.trainer.analysis.vectors.layer_states import collect_states

TAGS = {"loss": "NOUN", "model": "NOUN", "the": "DET", "trains": "VERB"}


@pytest.fixture(scope="module")
def context() -> AnalysisContext:
    lengths = np.random.default_rng(0).integers(2, 14, 40).tolist()
    return make_encoder_context(*lengths)


@pytest.fixture(scope="module")
def sentences() -> list[list[str]]:
    generator = np.random.default_rng(2)
    words = list(TAGS)
    return [list(generator.choice(words, generator.integers(2, 5))) for _ in range(60)]


@pytest.fixture(scope="module")
def treebank(sentences, tmp_path_factory):
    path = tmp_path_factory.mktemp("bank") / "bank.conllu"
    blocks = []
    for words in sentences:
        lines = [
            f"{n}\t{word}\t_\t{TAGS[word]}\t_\t_\t{n - 1}\t"
            f"{'root' if n == 1 else 'nmod:poss'}\t_\t_\n"
            for n, word in enumerate(words, 1)
        ]
        blocks.append("".join(lines))
    path.write_text("\n".join(blocks), "utf-8")
    return path


@pytest.fixture(scope="module")
def entities(sentences, tmp_path_factory):
    path = tmp_path_factory.mktemp("tags") / "tags.conll"
    lines = [
        "".join(f"{w}\t{'B-x' if w == 'loss' else 'O'}\n" for w in words)
        for words in sentences
    ]
    path.write_text("\n".join(lines), "utf-8")
    return path


def test_part(context, treebank, monkeypatch):
    module = "transbeam.trainer.analysis.probes.probe_training"
    monkeypatch.setattr(f"{module}._ROUNDS", 6)
    part = analyze_probes(context, treebank=treebank)
    json.dumps(dict(part.numbers), allow_nan=False)
    rows = part.tables["accuracy"].to_pylist()
    tasks = ["part of speech", "dependency relation", "text length"]
    assert list(dict.fromkeys(row["task"] for row in rows)) == tasks

    def scores(measure: str, task: str = tasks[0]) -> dict[str | None, float]:
        return {
            row["layer"]: row["score"]
            for row in rows
            if (row["task"], row["measure"]) == (task, measure)
        }

    accuracy = scores("accuracy")
    assert list(accuracy) == ["embeddings", "encoder_layer_0", "encoder_layer_1"]
    # The words themselves have the tags: four vectors, and four random labels.
    assert accuracy["embeddings"] > 0.95
    control, selectivity = scores("control"), scores("selectivity")
    for layer, score in accuracy.items():
        assert selectivity[layer] == pytest.approx(score - control[layer])
    assert not scores("control", "text length")
    mix = part.tables["mix"].to_pylist()
    for task in tasks:
        weights = [row["weight"] for row in mix if row["task"] == task]
        assert sum(weights) == pytest.approx(1, abs=1e-5)
    assert part.numbers["part_of_speech"]["classes"] == 3
    assert 0 <= part.numbers["text_length"]["center_of_gravity"] <= 2
    assert set(part.figures) == {"depth", "mix"}
    assert "selectivity" in part.summary
    assert any("no control task" in note for note in part.notes)


def test_what_is_left_out_is_said(context):
    few = replace(context, texts=replace(context.texts, rows=context.texts.rows[:3]))
    part = analyze_probes(few)
    assert part.summary == "Does not apply."
    assert len(part.notes) == 3
    assert not part.tables


def test_states_are_those_of_each_layer(context, treebank):
    """The mean over a word's own pieces, from the layer's own output."""
    task = read_treebank_tasks(context, treebank)[0]
    found = collect_states(context, task.words, "states")
    model = with_hidden_states(context.model)
    outputs = model(make_inputs(replace(context, texts=task.words.texts), 3))
    here = found.texts == 3
    assert found.words[here].tolist() == list(range(len(task.labels[3])))
    for layer, states in zip(found.layers, found.states, strict=True):
        tokens = outputs[layer].numpy()[0]
        member = task.words.memberships[3]
        expected = [tokens[member[:, word]].mean(axis=0) for word in found.words[here]]
        np.testing.assert_allclose(states[here], expected, atol=2e-5)
    assert not np.allclose(found.states[0], found.states[1], atol=0.1)
    assert not np.allclose(found.states[1], found.states[2], atol=0.1)


def test_relations_have_no_subtypes(context, treebank, sentences):
    tags, relations = read_treebank_tasks(context, treebank)
    assert relations.classes == ["nmod", "root"]
    assert tags.classes == ["DET", "NOUN", "VERB"]
    assert tags.types is not None
    assert list(tags.types[0]) == sentences[0]


def test_words_of_entities_are_where_their_tokens_are(context, entities, sentences):
    task = read_entity_task(context, entities)
    assert task.labels[0] == tuple("B-x" if w == "loss" else "O" for w in sentences[0])
    for words, member in zip(sentences, task.words.memberships, strict=True):
        assert member.shape[1] == len(words)
        assert (member.sum(axis=0) >= 1).all()
        assert (member.sum(axis=1) <= 1).all()


def test_control_labels_have_the_distribution_of_the_labels():
    types = [f"w{number}" for number in range(4000)]
    labels = np.repeat([0, 1, 2], [2000, 1600, 400])
    found = draw_control_labels(types, labels, seed=3)
    shares = np.bincount(found) / len(found)
    np.testing.assert_allclose(shares, [0.5, 0.4, 0.1], atol=0.03)


def test_control_labels_are_one_per_word_type():
    types = ["a", "b", "c"] * 50
    found = draw_control_labels(types, np.arange(150) % 7, seed=0)
    for word in "abc":
        assert len({y for x, y in zip(types, found, strict=True) if x == word}) == 1
    assert not np.array_equal(
        draw_control_labels([str(n) for n in range(50)], np.arange(50) % 7, seed=0),
        draw_control_labels([str(n) for n in range(50)], np.arange(50) % 7, seed=1),
    )


def test_texts_are_divided_whole():
    texts = np.random.default_rng(0).integers(0, 50, 400)
    parts = divide_texts(texts, 50)
    held = [set(texts[part]) for part in parts]
    assert sorted(np.concatenate(parts)) == list(range(400))
    assert sum(map(len, held)) == 50
    assert [len(x) for x in held] == [35, 5, 10]


def test_intervals_are_over_texts():
    """Words of one text are drawn together: with one text there is no spread."""
    correct = np.random.default_rng(0).random((1, 500)) < 0.5
    one = measure_accuracies({"accuracy": correct}, np.zeros(500, int), 0)["accuracy"]
    many = measure_accuracies({"accuracy": correct}, np.arange(500), 0)["accuracy"]
    assert one[0].low == one[0].high == one[0].score == many[0].score
    assert many[0].high - many[0].low > 0.05


def test_lengths_are_divided_evenly(context):
    task = make_length_task(context)
    assert task is not None
    names, counts = np.unique([label for (label,) in task.labels], return_counts=True)
    assert 2 <= len(names) <= 6
    assert counts.min() >= 2
    same = tuple({"token_ids": np.ones(4, np.int32)} for _ in range(40))
    texts = replace(context.texts, rows=same)
    assert make_length_task(replace(context, texts=texts)) is None


@pytest.mark.parametrize("read", [read_treebank_tasks, read_entity_task])
def test_too_few_sentences(context, tmp_path, read):
    path = tmp_path / "few"
    row = "1\tloss\t_\tNOUN\t_\t_\t0\troot\t_\t_\n"
    path.write_text(f"{row}\n" * 3, "utf-8")
    with pytest.raises(DataError, match="found 3 sentences"):
        read(context, path)


def test_damaged_entities(context, tmp_path):
    path = tmp_path / "tags.conll"
    path.write_text("loss\tO\n\nmodel\n", "utf-8")
    with pytest.raises(DataError, match="byte 8: not as many columns"):
        read_entity_task(context, path)
    for name in ("none", "\0"):
        with pytest.raises(DataError, match="cannot be read"):
            read_entity_task(context, tmp_path / name)
