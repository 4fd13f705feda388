"""Classifiers and models that give numbers, from texts, pairs, examples and ids."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.serving.conftest import LENGTH, TINY, exported_run
from tests.serving.native.c_client import require_same
from tests.serving.session import session_on
from tests.serving.signatures.parity_scenario import (
    Scene,
    altered,
    failed,
    judged_by_another,
    remembered,
    rows_of,
)
from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    PairClassificationConfig,
    PairRegressionConfig,
    RegressionConfig,
)
from transbeam.configs.schema.objectives.traits import input_names
from transbeam.configs.schema.tokenizer import ByteBPEConfig, UnigramConfig
from transbeam.serving.export.saved_model_writer import write_saved_model
from transbeam.serving.parity.attention_maps import attention_rows
from transbeam.serving.parity.export_parity import require_passed
from transbeam.serving.runtimes.saved_model import load_saved_model_function
from transbeam.serving.signatures.sentence_pairs import as_classifier
from transbeam.serving.signatures.task_factory import make_signature_task

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


def config_of(name):
    objective, tokenizer = CASES[name]
    is_pair = len(input_names(objective)) == 2
    example = "a list\tthe list" if is_pair else "a list"
    return replace(
        TINY,
        objective=objective,
        tokenizer=tokenizer,
        model=replace(TINY.model, num_layers=1, num_segments=2 if is_pair else 1),
        export=replace(TINY.export, examples=(example,)),
    )


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=() if name in QUICK else pytest.mark.thorough)
        for name in CASES
    ],
)
def scene(request, tmp_path_factory):
    """A run of each kind."""
    folder = tmp_path_factory.mktemp("pooled") / "run"
    return Scene.of(folder, config_of(request.param))


@pytest.fixture(scope="module")
def trained(scene):
    """The model, as a classifier where it was trained for more."""
    if isinstance(scene.trained.config.objective, SentencePairsConfig):
        return as_classifier(scene.trained)
    return scene.trained


def asked(trained, texts=TEXTS, second=SECOND):
    is_pair = len(input_names(trained.config.objective)) == 2
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


@pytest.mark.thorough(
    instead="test_the_gate_passes_true_answers_and_no_others, test_what_is_exported"
)
@pytest.mark.parametrize("name", CASES)
def test_all_forms_passed_the_gate(name, native):
    config = config_of(name)
    made = exported_run(config)
    result = made.result
    with_labels = not name.endswith("regression")
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
    files = {path.name for path in made.tflite.iterdir()}
    kept = {path.name for path in (made.run_folder / "data/tokenizer").iterdir()}
    assert files - {"model_float32.tflite", "model_dynamic_int8.tflite"} == (
        kept - {"tokenizer.yaml"}
    )
    native(made.saved_model, load_saved_model_function(made.saved_model))


def labels_of(judge):
    return getattr(judge.answer, "labels", ())


def test_the_gate_passes_true_answers_and_no_others(scene):
    judge, ask = scene.judge, remembered(scene.ask)
    is_pair = len(input_names(judge.trained.config.objective)) == 2
    assert judge.size == (1 + 7 + 3 if is_pair else 1 + 6 + 3)
    rows = judge.saved_model_rows("functions", ask)
    numbers = "log-probability" if labels_of(judge) else "number"
    assert [row.check.partition(",")[0] for row in rows] == [
        "token ids",
        numbers,
        *(["labels"] if labels_of(judge) else []),
    ]
    require_passed(rows)

    def found(signature, output, change):
        wrong = altered(ask, signature, output, change)
        return failed(judge.saved_model_rows("altered", wrong))

    assert found("tokenize", "token_ids", lambda ids: ids + 1) == ["token ids"]
    assert found("tokenize", "length", lambda length: length - 1) == ["token ids"]
    if not labels_of(judge):
        found_off = found("serving_default", "score", lambda score: score + 2e-4)
        assert found_off == ["number"]
        return
    off = [1.0] * (len(labels_of(judge)) - 1)
    uneven = found("serving_default", "scores", lambda s: s * [0.999, *off])
    assert uneven == ["log-probability"]
    turned = found("serving_default", "classes", lambda c: c[:, ::-1])
    assert turned == ["labels"]
    best = found("serving_default", "label", lambda label: label + b"x")
    assert best == ["labels"]


def test_who_looks_at_whom_is_told(scene):
    (row,) = attention_rows("functions", scene.ask, scene.trained)
    require_passed([row])


def test_the_gate_passes_files_for_phones_and_no_others(scene):
    judge = scene.judge
    for variant, count in (
        ("float32", 1),
        ("dynamic_int8", 2 if labels_of(judge) else 1),
    ):
        phone = scene.phone(variant)
        rows = judge.phone_rows("file", variant, phone)
        require_passed(rows)
        assert len(rows) == count
        other = judged_by_another(scene, partial(rows_of, variant, phone))
        assert other[0] == ("log-probability" if labels_of(judge) else "number")


def test_answers_to_texts_are_keras_s(scene, trained):
    columns = asked(trained)
    expected = keras_answers(trained, columns)
    tokens = scene.ask("tokenize", columns)
    found = scene.ask("serving_default", columns)
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


def examples_of(columns):
    """Serialized as TF Serving's own APIs take them."""
    examples = []
    for texts in zip(*columns.values(), strict=True):
        example = tf.train.Example()
        for name, text in zip(columns, texts, strict=True):
            value = example.features.feature[name].bytes_list.value
            value.append(text.encode())
        examples.append(example.SerializeToString())
    return {"inputs": examples}


def test_serving_s_own_apis_take_examples(scene, trained):
    columns = asked(trained)
    expected = scene.ask("serving_default", columns)
    api = "classify" if "scores" in expected else "regress"
    assert make_signature_task(scene.trained).methods == {api: api}
    answers = scene.ask(api, examples_of(columns))
    if api == "classify":
        assert set(answers) == {"classes", "scores"}
        np.testing.assert_array_equal(answers["scores"], expected["scores"])
        assert answers["classes"].tolist() == expected["classes"].tolist()
    else:
        assert set(answers) == {"outputs"}
        np.testing.assert_array_equal(answers["outputs"], expected["score"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="text"):
        scene.ask(api, {"inputs": [b""]})  # an example without the text


def test_what_is_exported(scene, trained, tmp_path):
    """With the methods of TF Serving's APIs, and the answers of its functions."""
    if "score" not in scene.ask("serving_default", asked(trained)):
        columns = asked(trained)
        scene.require_exported_alike(columns, "serving_default", "tokenize")
        return
    write_saved_model(scene.trained, tmp_path / "1")
    file = tmp_path / "1/saved_model.pb"
    (graph,) = saved_model_pb2.SavedModel.FromString(file.read_bytes()).meta_graphs
    methods = {
        name: definition.method_name
        for name, definition in graph.signature_def.items()
        if not name.startswith("__")
    }
    api = "regress"
    assert methods.pop(api) == f"tensorflow/serving/{api}"
    assert set(methods.values()) == {"tensorflow/serving/predict"}
    definition = graph.signature_def[api]
    assert set(definition.inputs) == {"inputs"}
    assert set(definition.outputs) == {"outputs"}
    columns = asked(trained)
    with session_on(tmp_path / "1") as ask:
        for name, texts in {
            "serving_default": columns,
            "tokenize": columns,
            api: examples_of(columns),
        }.items():
            require_same(ask(name, texts), scene.ask(name, texts))


def test_answers_to_ids_are_keras_s_also_on_phones(scene, trained):
    expected = keras_answers(trained, asked(trained))
    phone = scene.phone()
    name = "regress_ids" if len(expected[0][2].shape) == 0 else "classify_ids"
    for ids, segments, answer in expected:
        rows = {
            "token_ids": ids,
            "padding_mask": [1] * len(ids),
            "segment_ids": segments,
        }
        inputs = {n: np.array(rows[n], np.int32) for n in trained.model.input}
        (found,) = phone.ask(name, **inputs).values()
        np.testing.assert_allclose(found, answer, atol=2e-5)
        batch = {name: row[np.newaxis] for name, row in inputs.items()}
        (found,) = scene.ask(name, batch).values()
        np.testing.assert_allclose(found[0], answer, atol=2e-5)


def test_hostile_texts_and_an_empty_batch(scene, trained):
    texts = list(HOSTILE_TEXTS)
    answers = scene.ask("serving_default", asked(trained, texts, texts[::-1]))
    numbers = answers["scores" if "scores" in answers else "score"]
    assert np.isfinite(numbers).all()
    assert len(numbers) == len(texts)
    empty = scene.ask("serving_default", asked(trained, [], []))
    assert {len(value) for value in empty.values()} == {0}
