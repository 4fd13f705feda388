"""Classifiers and models that give numbers, from texts, pairs, examples and ids."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from configs.export import asked_texts
from configs.objective import (
    ClassificationConfig,
    PairClassificationConfig,
    PairRegressionConfig,
    RegressionConfig,
    SentencePairsConfig,
)
from configs.tokenizer import ByteBPEConfig, UnigramConfig
from serving.export import export
from serving.forms import PhoneModel, ask_saved_model
from serving.tasks.sentence_pairs import as_classifier
from serving.trained import load_trained
from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.serving.conftest import LENGTH, TINY, invocation_of, make_run
from tests.serving.session import session_on

LABELS = ("bad", "so so", "good")
TEXTS = ["a tensor of the same shape", "", "true , raise " * 9, "ünknown 漢字!"]
SECOND = ["the name of the list", "a dog", "the quick brown fox " * 9, ""]

CASES = {
    "classification": (ClassificationConfig(labels=LABELS), TINY.tokenizer),
    "pair_classification": (PairClassificationConfig(labels=LABELS), TINY.tokenizer),
    "byte_bpe": (
        PairClassificationConfig(labels=LABELS),
        ByteBPEConfig(vocabulary_size=300, specials="roberta"),
    ),
    "sentence_pairs": (SentencePairsConfig(task="sentence_order"), TINY.tokenizer),
    "regression": (
        RegressionConfig(),
        UnigramConfig(vocabulary_size=60, specials="albert"),
    ),
    "pair_regression": (PairRegressionConfig(), TINY.tokenizer),
}
# Models of sentence pairs are classifiers of pairs, and more.
QUICK = ("sentence_pairs", "regression")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=() if name in QUICK else pytest.mark.thorough)
        for name in CASES
    ],
)
def run(request, tmp_path_factory):
    """A run of each kind, exported."""
    objective, tokenizer = CASES[request.param]
    is_pair = len(asked_texts(objective)) == 2
    example = "a list\tthe list" if is_pair else "a list"
    config = replace(
        TINY,
        objective=objective,
        tokenizer=tokenizer,
        model=replace(TINY.model, num_segments=2 if is_pair else 1),
        export=replace(TINY.export, examples=(example,)),
    )
    folder = make_run(tmp_path_factory.mktemp("pooled") / "run", config)
    result = export(invocation_of(folder, config))
    trained = load_trained(folder)
    if request.param == "sentence_pairs":
        trained = as_classifier(trained)
    return folder, trained, result


def asked(trained, texts=TEXTS, second=SECOND):
    is_pair = len(asked_texts(trained.config.objective)) == 2
    return {"text": texts, "second_text": second} if is_pair else {"text": texts}


def keras_answers(trained, columns):
    """Each text alone, framed by hand."""
    special, found = trained.tokenizer.special, []
    for texts in zip(*columns.values(), strict=True):
        parts = trained.tokenizer.tokenize(list(texts)).to_list()
        room = LENGTH - 1 - len(parts)
        if len(parts) == 2:  # the longer one gives, of equally long ones the second
            while len(parts[0]) + len(parts[1]) > room:
                parts[len(parts[1]) >= len(parts[0])].pop()
        ids, segments = [special.begin], [0]
        for segment, part in enumerate(parts):
            ids += [*part[:room], special.end]
            segments += [segment] * (len(part[:room]) + 1)
        rows = {
            "token_ids": ids,
            "padding_mask": [1] * len(ids),
            "segment_ids": segments,
        }
        inputs = {n: np.array([rows[n]], np.int32) for n in trained.model.input}
        (answer,) = trained.model(inputs, training=False).values()
        found.append((ids, segments, np.asarray(answer)[0]))
    return found


def test_all_forms_passed_the_gate(run):
    folder, trained, result = run
    with_labels = hasattr(trained.config.objective, "labels")
    forms = {row["form"] for row in result["parity"]}
    assert len(forms) == 9
    assert len(result["parity"]) == (
        3 * 4 + 3 * 1 + 3 * 2 if with_labels else 3 * 3 + 3 * 2
    )
    assert all(row["passed"] for row in result["parity"])
    assert all(
        form["latency_ms"] > 0
        for form in (result["saved_model"], *result["tflite"].values())
    )
    files = {path.name for path in (folder / "export/tflite").iterdir()}
    kept = {path.name for path in (folder / "data/tokenizer").iterdir()}
    assert files - {"model_float32.tflite", "model_dynamic_int8.tflite"} == (
        kept - {"tokenizer.yaml"}
    )


def test_answers_to_texts_are_keras_s(run):
    folder, trained, _ = run
    columns = asked(trained)
    expected = keras_answers(trained, columns)
    with session_on(folder / "export/saved_model/1") as ask:
        tokens = ask("tokenize", columns)
        found = ask("serving_default", columns)
    for row, (ids, segments, answer) in enumerate(expected):
        length = tokens["length"][row]
        assert tokens["token_ids"][row, :length].tolist() == ids
        if "segment_ids" in tokens:
            assert tokens["segment_ids"][row, :length].tolist() == segments
            assert not tokens["segment_ids"][row, length:].any()
        if "score" in found:
            np.testing.assert_allclose(found["score"][row], answer, atol=2e-5)
            continue
        labels = trained.config.objective.labels
        probabilities = np.exp(answer) / np.exp(answer).sum()
        np.testing.assert_allclose(found["scores"][row], probabilities, atol=2e-6)
        assert found["classes"][row].tolist() == [label.encode() for label in labels]
        assert found["label"][row].decode() == labels[answer.argmax()]
    assert found["truncated"].tolist() == [False, False, True, False]


def test_serving_s_own_apis_take_examples(run):
    folder, trained, _ = run
    path = folder / "export/saved_model/1"
    columns = asked(trained)
    examples = []
    for texts in zip(*columns.values(), strict=True):
        example = tf.train.Example()
        for name, text in zip(columns, texts, strict=True):
            value = example.features.feature[name].bytes_list.value
            value.append(text.encode())
        examples.append(example.SerializeToString())
    saved = saved_model_pb2.SavedModel.FromString(
        (path / "saved_model.pb").read_bytes()
    )
    (graph,) = saved.meta_graphs
    ask = ask_saved_model(path)
    expected = ask("serving_default", columns)
    api = "classify" if "scores" in expected else "regress"
    definition = graph.signature_def[api]
    assert definition.method_name == f"tensorflow/serving/{api}"
    assert set(definition.inputs) == {"inputs"}
    answers = ask(api, {"inputs": examples})
    if api == "classify":
        assert set(answers) == set(definition.outputs) == {"classes", "scores"}
        np.testing.assert_array_equal(answers["scores"], expected["scores"])
        assert answers["classes"].tolist() == expected["classes"].tolist()
    else:
        assert set(answers) == set(definition.outputs) == {"outputs"}
        np.testing.assert_array_equal(answers["outputs"], expected["score"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="text"):
        ask(api, {"inputs": [b""]})  # an example without the text


def test_answers_to_ids_are_keras_s_also_on_phones(run):
    folder, trained, _ = run
    expected = keras_answers(trained, asked(trained))
    phone = PhoneModel(folder / "export/tflite/model_float32.tflite")
    signatures = tf.saved_model.load(str(folder / "export/saved_model/1")).signatures
    name = "classify_ids" if "classify_ids" in signatures else "regress_ids"
    for ids, segments, answer in expected:
        rows = {
            "token_ids": ids,
            "padding_mask": [1] * len(ids),
            "segment_ids": segments,
        }
        inputs = {n: np.array(rows[n], np.int32) for n in trained.model.input}
        (found,) = phone.ask(name, **inputs).values()
        np.testing.assert_allclose(found, answer, atol=2e-5)
        batch = {n: tf.constant(row[None]) for n, row in inputs.items()}
        (found,) = signatures[name](**batch).values()
        np.testing.assert_allclose(found[0], answer, atol=2e-5)


@pytest.mark.thorough
def test_it_needs_no_python(run, native):
    path = run[0] / "export/saved_model/1"
    native(path, ask_saved_model(path))


def test_hostile_texts_and_an_empty_batch(run):
    folder, trained, _ = run
    ask = ask_saved_model(folder / "export/saved_model/1")
    texts = list(HOSTILE_TEXTS)
    answers = ask("serving_default", asked(trained, texts, texts[::-1]))
    numbers = answers["scores" if "scores" in answers else "score"]
    assert np.isfinite(numbers).all()
    assert len(numbers) == len(texts)
    empty = ask("serving_default", asked(trained, [], []))
    assert {len(value) for value in empty.values()} == {0}
