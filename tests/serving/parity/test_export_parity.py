"""The gate lets nothing through that is not what Keras is."""

import math
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from tests.serving.session import asking, session_on
from tests.serving.signatures.parity_scenario import remembered
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.schema.export import ToleranceConfig
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.parity.base import parity_texts
from transbeam.serving.parity.base.parity_checks import ParityCheck, agreement
from transbeam.serving.parity.base.parity_texts import masked_texts
from transbeam.serving.parity.export_parity import check_parity, require_passed
from transbeam.serving.parity.masked import MaskedParityChecker

FLOAT32 = "model_float32.tflite"


@pytest.fixture(scope="module")
def judge(trained, run_folder):
    return MaskedParityChecker.from_run(trained, run_folder)


def failed(rows):
    return [row.check for row in rows if not row.passed]


def test_texts_cover_examples_edges_and_validation_documents(
    trained, run_folder, monkeypatch
):
    texts = masked_texts(trained, run_folder)
    assert texts[:2] == list(trained.config.export.examples)
    assert "" in texts
    assert any(len(text) > 10_000 for text in texts)
    assert texts[-2:] == ["the [MASK] of a list", "[MASK] true , raise"]
    monkeypatch.setattr(parity_texts, "FROM_RECORDS", 1)
    assert masked_texts(trained, run_folder)[-1] == texts[-2]


def test_texts_do_without_records(trained, tmp_path):
    assert len(masked_texts(trained, tmp_path)) > len(trained.config.export.examples)


@pytest.fixture(scope="module")
def answers_of(exported):
    """Outputs of the SavedModel for the parity checker's requests, cached."""
    with session_on(exported.saved_model) as ask:
        yield remembered(ask)


def altered_checks(ask, judge, alter):
    """The checks that fail when the answers are altered."""

    def altered(signature, texts):
        answers = {name: value.copy() for name, value in ask(signature, texts).items()}
        alter(signature, answers)
        return answers

    return failed(judge.saved_model_rows("form", altered))


def test_true_answers_pass(answers_of, judge):
    assert altered_checks(answers_of, judge, lambda *_: None) == []


@pytest.mark.parametrize(
    ("signature", "output", "alter", "check"),
    [
        ("tokenize", "token_ids", lambda x: np.where(x == 3, 1, x), "token ids"),
        ("tokenize", "length", lambda x: x - 1, "token ids"),
        ("embed", "embedding", lambda x: x + 2e-4, "vector entry"),
        ("embed", "embedding", lambda x: x * math.nan, "vector entry"),
        ("serving_default", "scores", lambda x: x * 1.001, "log-probability"),
        ("serving_default", "scores", lambda x: x * math.nan, "log-probability"),
        ("serving_default", "scores", lambda x: x * 0, "log-probability"),
        ("serving_default", "fills", lambda x: x[:, :, ::-1], "log-probability"),
        ("serving_default", "fills", lambda x: x[::-1], "log-probability"),
        ("serving_default", "fills", lambda x: x * 0, "log-probability"),
    ],
)
def test_altered_answers_fail(answers_of, judge, signature, output, alter, check):
    def alter_one(asked, answers):
        if asked == signature:
            answers[output] = alter(answers[output])

    found = altered_checks(answers_of, judge, alter_one)
    assert [name.partition(",")[0] for name in found] == [check]


def test_a_phone_model_with_other_weights_fails(exported, trained, judge, tmp_path):
    """One entry of the embedding table, and one in the file only."""
    table = trained.model.get_layer("token_embedding").embeddings.numpy()
    content = (exported.tflite / FLOAT32).read_bytes()
    assert content.count(table.tobytes()) == 1
    for change in (0.5, math.nan):
        other = table.copy()
        other[2, 0] += change  # [CLS] is in every text
        file = tmp_path / f"{change}.tflite"
        file.write_bytes(content.replace(table.tobytes(), other.tobytes()))
        for delegate in (True, False):
            model = TFLiteRunner(file, delegate=delegate)
            assert len(failed(judge.phone_rows("form", "float32", model))) == 2


def test_int8_is_held_to_its_tolerance(exported, judge, monkeypatch):
    model = TFLiteRunner(exported.tflite / "model_dynamic_int8.tflite")

    def check(**keys):
        monkeypatch.setattr(judge, "tolerance", ToleranceConfig(**keys))
        return failed(judge.phone_rows("form", "dynamic_int8", model))

    assert check() == []
    # Without a tolerance near first guesses are no tie: a third row may fail too.
    assert {
        "log-probability, RMS difference",
        "vector entry, RMS difference",
    } <= set(check(dynamic_int8=0.0))


def test_a_form_that_does_not_run_is_a_failed_row(exported, trained, monkeypatch):
    @contextmanager
    def our_server(folder):
        raise tf.errors.FailedPreconditionError(None, None, "Could not find variable")
        yield

    def no_variable(file, **ways):
        raise RuntimeError("variable != nullptr was not true")

    monkeypatch.setattr("transbeam.serving.parity.export_parity.our_server", our_server)
    monkeypatch.setattr(
        "transbeam.serving.parity.export_parity.TFLiteRunner", no_variable
    )
    files = {"float32": exported.tflite / FLOAT32}
    judge = MaskedParityChecker(trained, ["a [MASK]"])
    rows = check_parity(trained, judge, exported.saved_model, asking(trained), files)
    assert [(row.form, row.check) for row in rows if not row.passed] == [
        ("our server", "does not run (Could not find variable)"),
        *(
            (
                f"TFLite float32, {how}",
                "does not run (variable != nullptr was not true)",
            )
            for how in ("XNNPACK", "XNNPACK, filled up", "builtin kernels")
        ),
    ]
    with pytest.raises(ArtifactError, match="4 of 9 comparisons"):
        require_passed(rows)


def test_agreement_counts_ties():
    reference = np.log([[0.6, 0.4], [0.51, 0.49], [0.1, 0.9], [0.2, 0.8]])
    answer = np.log([[0.4, 0.6], [0.4, 0.6], [0.3, 0.7], [0.1, 0.9]])
    # Rows 0 and 1 guess otherwise; in row 1 the guess is as good: ln(.51/.49) = 0.04.
    assert agreement(answer, reference, tie=0.05) == 0.75
    assert agreement(answer, reference, tie=0.0) == 0.5
    assert agreement(answer * math.nan, reference, tie=0.05) < 0.75


@pytest.mark.parametrize(
    ("form", "tables", "is_advised"),
    [
        ("TFLite weight_int4", "int4", True),
        ("TFLite dynamic_int4, XNNPACK", "int4", True),
        ("TFLite weight_int4", "int8", False),
        ("TFLite dynamic_int8", "int4", False),
    ],
)
def test_what_helps_files_of_4_bits_is_said(trained, form, tables, is_advised):
    export = replace(trained.config.export, tflite_tables=tables)
    config = replace(trained.config, export=export)
    with pytest.raises(ArtifactError) as caught:
        require_passed([ParityCheck(form, "perplexity", 0.1, 0.02, False)], config)
    assert ("export.tflite_tables: int8" in str(caught.value)) == is_advised


def test_failed_rows_are_listed():
    rows = [
        ParityCheck("SavedModel", "vector entry", 0.5, 1e-4, False),
        ParityCheck("TFLite float32", "vector entry", 1e-5, 1e-3, True),
        ParityCheck("TFLite dynamic_int8", "first guess", 0.4, 0.9, False),
    ]
    with pytest.raises(ArtifactError) as caught:
        require_passed(rows)
    message = str(caught.value)
    assert "2 of 3 comparisons" in message
    assert "SavedModel: vector entry: 0.5, allowed 0.0001" in message
    assert "TFLite dynamic_int8: first guess: 0.4, allowed 0.9" in message
    assert "float32" not in message
    require_passed(rows[1:2])
