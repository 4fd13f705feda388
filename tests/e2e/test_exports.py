"""Labelled tasks from a table to answers: the export says what the run says."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import transbeam
from tests.small_run import WORDS
from transbeam.serving.base.trained_run import load_trained
from transbeam.serving.signatures.task_factory import make_signature_task

CONFIG = """
name: labelled
data:
  source: {kind: jsonl, path: rows.jsonl, columns: COLUMNS}
  validation_fraction: 0.3
  sequence_length: 32
tokenizer: TOKENIZER
objective: OBJECTIVE
model:
  KIND
  num_layers: 1
  hidden_dim: 16
  max_sequence_length: 32
  attention: {num_heads: 2}
  feedforward: {intermediate_dim: 32}
training:
  {steps: 4, batch_size: 4, schedule: {warmup_steps: 1}, evaluate_every: 4, samples: 0}
export:
  tflite: [float32]
  examples: [EXAMPLE]
"""
ONE, TWO = "{text: a, label: y}", "{text: a, second_text: b, label: y}"
CHOICE = "kind: %s, labels: ['0', '1', '2']"
CASES = {
    "classification": (ONE, CHOICE % "classification"),
    "multi_label_classification": (ONE, CHOICE % "multi_label_classification"),
    "pair_classification": (TWO, CHOICE % "pair_classification"),
    "regression": (ONE, "kind: regression"),
    "pair_regression": (TWO, "kind: pair_regression"),
    "token_classification": (
        "{words: words, tags: tags}",
        "kind: token_classification, labels: [O, B-odd, I-odd]",
    ),
}


QUESTION_IS_GLOBAL = (
    "attention: {kind: global_window, num_heads: 2, window_size: 4, "
    "num_global_tokens: 10, global_tokens: first_segment}"
)


def rows() -> list[dict]:
    random = np.random.default_rng(0)
    return [
        {
            "a": " ".join(random.choice(WORDS, random.integers(2, 40))),
            "b": " ".join(random.choice(WORDS, random.integers(2, 30))),
            "y": number % 3,
            "words": (words := random.choice(WORDS, 9).tolist()),
            "tags": [("O", "B-odd", "I-odd")[len(word) % 3] for word in words],
        }
        for number in range(60)
    ]


WORDPIECE = "{kind: wordpiece, vocabulary_size: 100}"
ENCODER = (WORDPIECE, "num_segments: 2")
# With a begin token of its own, or with one token that ends and separates texts.
BYTES = "{kind: byte_bpe, vocabulary_size: 300}"
DECODER = (WORDPIECE, "kind: decoder")
WITH_END = (BYTES, "kind: decoder\n  pooler: {kind: end_token}")
WITHOUT = (BYTES, "kind: decoder")
MODELS = [
    *((kind, ENCODER) for kind in CASES),
    ("classification", WITH_END),
    ("multi_label_classification", WITH_END),
    ("pair_classification", DECODER),
    ("regression", WITHOUT),
    ("pair_regression", WITH_END),
    ("token_classification", WITHOUT),
    ("token_classification", DECODER),
]


# The signatures of all have quick tests in tests/serving, and the commands of the
# documentation go the whole way.
@pytest.mark.thorough(
    instead="test_the_whole_way_and_json_alone_on_stdout, "
    "test_an_export_scores_as_the_model_it_is_of"
)
@pytest.mark.parametrize(("kind", "model"), MODELS)
def test_run_predict_and_evaluate(
    kind: str, model: tuple[str, str], tmp_path: Path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    columns, objective = CASES[kind]
    is_pair, chooses = columns == TWO, "classification" in objective
    tags = kind == "token_classification"
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows()))
    text = CONFIG.replace("COLUMNS", columns)
    for place, content in zip(("TOKENIZER", "KIND"), model, strict=True):
        text = text.replace(place, content)
    text = text.replace("OBJECTIVE", f"{{{objective}}}")
    Path("a.yaml").write_text(
        text.replace("EXAMPLE", r'"the loss\tthe model"' if is_pair else "the loss")
    )
    assert transbeam.main(["run", "a.yaml", "--json", "--quiet"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert all(row["passed"] for row in result["export"]["parity"])
    (example,) = result["predict"]["predictions"]
    assert example["text"] == "the loss"
    assert ("second_text" in example) == is_pair
    is_set = kind.startswith("multi")
    assert ("labels" in example) == is_set
    assert ("label" in example) == (chooses and not tags and not is_set)
    assert ("score" in example) == (not chooses)
    assert ("entities" in example) == ("words" in example) == tags

    texts = ["--text", "a batch of tokens"]
    if is_pair:
        assert transbeam.main(["predict", "a.yaml", *texts]) == 2
        assert "give --second-text with each --text" in capsys.readouterr().err
        texts += ["--second-text", "every weight"]
    assert transbeam.main(["predict", "a.yaml", *texts]) == 0
    shown = capsys.readouterr().out.strip().splitlines()
    assert shown[0] == "a batch of tokens"
    if not tags:
        # The labels that hold stand below the scores.
        assert len(shown) == 1 + is_pair + (3 + is_set if chooses else 1)

    own = evaluated(capsys)
    for form in ("saved_model", "tflite/model_float32.tflite"):
        found = evaluated(capsys, "--model", f"runs/labelled/export/{form}")
        assert found["predictions"] == own["predictions"] > 10
        assert found["differences"] == pytest.approx(
            dict.fromkeys(own["scores"], 0), abs=1e-4
        )


@pytest.mark.thorough(
    instead="test_the_whole_way_and_json_alone_on_stdout, "
    "test_an_export_scores_as_the_model_it_is_of"
)
@pytest.mark.parametrize("segments", ["num_segments: 2", "num_segments: 0"])
def test_questions(segments: str, tmp_path: Path, monkeypatch, capsys):
    """With a vector for each segment; and with global attention on the question."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    paragraphs = []
    for number in range(40):
        words = random.choice(WORDS, random.integers(4, 60)).tolist()
        place = int(random.integers(len(words)))
        answer = {
            "text": words[place],
            "answer_start": len(" ".join([*words[:place], ""])),
        }
        question = {"id": str(number), "question": words[0], "answers": [answer]}
        paragraphs.append({"context": " ".join(words), "qas": [question]})
    squad = {"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}
    Path("questions.json").write_text(json.dumps(squad))
    text = CONFIG.replace(
        "{kind: jsonl, path: rows.jsonl, columns: COLUMNS}",
        "{kind: squad, path: questions.json}",
    )
    text = text.replace(
        "OBJECTIVE", "{kind: span_qa, stride: 8, max_question_length: 8}"
    )
    text = text.replace("TOKENIZER", WORDPIECE).replace("KIND", segments)
    if segments.endswith("0"):
        text = text.replace("attention: {num_heads: 2}", QUESTION_IS_GLOBAL)
    Path("a.yaml").write_text(text.replace("EXAMPLE", r'"the loss\tthe model"'))
    assert transbeam.main(["run", "a.yaml", "--json", "--quiet"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert all(row["passed"] for row in result["export"]["parity"])
    (example,) = result["predict"]["predictions"]
    assert example["text"][example["start"] : example["end"]] == example["answer"]
    own = evaluated(capsys)
    assert {"f1", "exact_match"} <= own["scores"].keys()
    for form in ("saved_model", "tflite/model_float32.tflite"):
        found = evaluated(capsys, "--model", f"runs/labelled/export/{form}")
        assert found["differences"] == pytest.approx(
            dict.fromkeys(own["scores"], 0), abs=1e-3
        )


@pytest.mark.thorough(
    instead="test_embeddings_are_those_of_a_language_model_with_the_same_body"
)
@pytest.mark.parametrize("model", [ENCODER, DECODER, WITH_END, WITHOUT])
def test_pairs(model: tuple[str, str], tmp_path: Path, monkeypatch, capsys):
    """Of which some have a hard negative."""
    monkeypatch.chdir(tmp_path)
    some = rows()
    for row in some[::2]:
        row["c"] = row["b"][::-1]
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in some))
    text = CONFIG.replace("COLUMNS", "{text: a, second_text: b, negative_text: c}")
    for place, content in zip(("TOKENIZER", "KIND"), model, strict=True):
        text = text.replace(place, content)
    text = text.replace("OBJECTIVE", "{kind: contrastive_pairs, hard_negatives: true}")
    Path("a.yaml").write_text(text.replace("EXAMPLE", "the loss"))
    assert transbeam.main(["run", "a.yaml", "--json", "--quiet"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert all(row["passed"] for row in result["export"]["parity"])
    (example,) = result["predict"]["predictions"]
    assert len(example["embedding"]) == 16
    own = evaluated(capsys)
    assert {"accuracy", "mean_reciprocal_rank"} == own["scores"].keys()
    export = ["--model", "runs/labelled/export/saved_model"]
    assert transbeam.main(["evaluate", "a.yaml", *export]) == 2
    assert "Leave --model out" in capsys.readouterr().err


@pytest.mark.thorough(
    instead="test_probabilities_and_logits_of_each_kind, "
    "test_a_test_set_is_scored_with_it, "
    "test_thresholds_of_labels"
)
@pytest.mark.parametrize("kind", ["classification", "multi_label_classification"])
def test_fitted_numbers_from_the_evaluation_to_the_answers(
    kind: str, tmp_path: Path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows()))
    text = CONFIG.replace("COLUMNS", ONE).replace("OBJECTIVE", f"{{{CHOICE % kind}}}")
    for place, content in zip(("TOKENIZER", "KIND"), ENCODER, strict=True):
        text = text.replace(place, content)
    fitted = "  fitted_temperature: true\n"
    if kind.startswith("multi"):
        fitted += "  fitted_thresholds: true\n"
    Path("a.yaml").write_text(text.replace("EXAMPLE", "the loss") + fitted)
    assert transbeam.main(["run", "a.yaml", "--json", "--quiet"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert all(row["passed"] for row in result["export"]["parity"])
    applied = result["export"]["calibration"]
    measured = result["evaluate"]["calibration"]
    assert applied["temperature"] == measured["temperature"]

    # The answers are those of the weights, divided by the temperature.
    trained = load_trained(Path("runs/labelled"))
    task = make_signature_task(trained)
    inputs, _ = task.inputs.read(tf.constant(["the loss"]))
    named = dict(zip(task.inputs.id_inputs, inputs, strict=True))
    logits = trained.model(named, training=False)["logits"].numpy()[0]
    odds = np.exp(logits.astype(np.float64) / applied["temperature"])
    is_set = kind.startswith("multi")
    expected = odds / (1 + odds) if is_set else odds / odds.sum()
    (example,) = result["predict"]["predictions"]
    found = {one["label"]: one["score"] for one in example["classes"]}
    assert [found[label] for label in "012"] == pytest.approx(expected.tolist(), 1e-4)
    if is_set:
        thresholds = applied["thresholds"]
        assert set(example["labels"]) == {
            label for label in found if found[label] >= thresholds[label]
        }

    # And the export is as well calibrated as the evaluation says.
    after = measured["nats"].get("after", measured["nats"]["before"])
    for form in ("saved_model", "tflite/model_float32.tflite"):
        own = evaluated(capsys, "--model", f"runs/labelled/export/{form}")
        assert own["calibration"]["nats"]["before"] == pytest.approx(after, abs=1e-5)
        if is_set:
            assert own["thresholds"]["fitted"] == pytest.approx(thresholds)
            assert (
                own["thresholds"]["after"] == result["evaluate"]["thresholds"]["after"]
            )


def evaluated(capsys, *words: str) -> dict:
    assert transbeam.main(["evaluate", "a.yaml", "--json", "--quiet", *words]) == 0
    return json.loads(capsys.readouterr().out)
