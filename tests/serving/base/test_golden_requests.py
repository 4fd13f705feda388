"""Questions with answers: a version that answers otherwise is not let in."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from grpc import StatusCode

from tests.serving.untrained import write_signatures
from transbeam.serving.base.golden_requests import (
    FILE,
    GoldenRequest,
    read_golden,
    write_golden,
)
from transbeam.serving.export.stored_requests import SAMPLES, make_golden_requests
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.models.batching.batch_queue import BatchingParameters
from transbeam.serving.server.models.loaded_version import Loaded
from transbeam.serving.signatures.task_factory import make_signature_task


def load(folder):
    Loaded(folder, BatchingParameters(), 60.0, lambda timing: None).close()


@pytest.fixture(scope="module")
def questioned(trained, tmp_path_factory):
    """A version folder of the signatures that it brings questions for."""
    folder = tmp_path_factory.mktemp("golden") / "1"
    write_signatures(trained, folder, "tokenize", "serving_default")
    write_golden(folder, list(make_golden_requests(make_signature_task(trained))))
    return folder


@pytest.fixture
def version(questioned, tmp_path):
    return shutil.copytree(questioned, tmp_path / "1")


def test_an_export_brings_tokens_and_numbers(exported, ask):
    tokens, numbers = read_golden(exported.saved_model)
    assert tokens.signature == "tokenize"
    assert tokens.inputs["text"].tolist() == [text.encode() for text in SAMPLES]
    assert set(tokens.outputs) == {"token_ids", "length", "truncated"}
    assert numbers.signature == "serving_default"
    assert set(numbers.outputs) == {"scores"}  # which piece is first may be a tie
    found = ask("serving_default", list(SAMPLES))
    np.testing.assert_allclose(numbers.outputs["scores"], found["scores"], atol=1e-4)


def test_what_was_exported_is_loaded(version):
    load(version)


@pytest.mark.parametrize("name", ["tokenize", "serving_default"])
def test_another_answer_keeps_a_version_out(version, name):
    questions = list(read_golden(version))
    place = [question.signature for question in questions].index(name)
    outputs = dict(questions[place].outputs)
    output = "token_ids" if name == "tokenize" else "scores"
    values = outputs[output].copy()
    values[0, 0] += values.dtype.type(1)
    outputs[output] = values
    questions[place] = replace(questions[place], outputs=outputs)
    write_golden(version, questions)
    with pytest.raises(
        StatusError, match=f"question {place + 1}: {name} does"
    ) as caught:
        load(version)
    assert caught.value.code is StatusCode.DATA_LOSS


def test_weights_of_another_model(version):
    """Whole files, of the right shapes: TensorFlow cannot know."""
    prefix = str(version / "variables/variables")
    reader = tf.train.load_checkpoint(prefix)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = {}
        for name, dtype in reader.get_variable_to_dtype_map().items():
            value = reader.get_tensor(name)
            value = 1.2 * value if dtype == tf.float32 else value
            variable = tf.compat.v1.Variable(tf.constant(value, dtype), trainable=False)
            variables[name] = variable
        session.run(tf.compat.v1.global_variables_initializer())
        saver = tf.compat.v1.train.Saver(variables)
        saver.save(session, prefix, write_meta_graph=False, write_state=False)
    with pytest.raises(
        StatusError, match="question 2: serving_default does not answer"
    ):
        load(version)


@pytest.mark.parametrize(
    ("signature", "inputs", "outputs", "said"),
    [
        ("zz", {}, {"y": np.zeros(1)}, "there is no signature 'zz'"),
        ("tokenize", {"text": np.zeros(1)}, {"length": np.zeros(1)}, "question 1"),
        ("tokenize", {"text": np.array([b""])}, {"zz": np.zeros(1)}, "KeyError: 'zz'"),
    ],
)
def test_questions_that_are_none(version, signature, inputs, outputs, said):
    write_golden(version, [GoldenRequest(signature, inputs, outputs)])
    with pytest.raises(StatusError, match=said):
        load(version)


def test_a_file_that_is_cut_off(version):
    file = version / FILE
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(
        StatusError, match=r"golden_requests, question 2: DataLossError"
    ):
        load(version)


@pytest.mark.parametrize(
    ("expected", "found", "said"),
    [
        ([0.5, -200.0], [0.509, -201.9], None),
        ([0.5], [0.52], "y: off by 0.02"),
        ([0.5], [np.nan], "y: off by nan"),
        ([100.0], [102.0], "y: off by 0.02"),
        ([0.5], [0.5, 0.5], r"y: of shape \(2,\), not \(1,\)"),
        ([3], [4], r"y: \[4\], not \[3\]"),
        ([b"a"], [b"b"], r"y: \[b'b'\], not \[b'a'\]"),
        ([True], [True], None),
        ([], [], None),
    ],
)
def test_what_is_rounding_and_what_is_not(expected, found, said):
    golden = GoldenRequest("s", {}, {"y": np.array(expected)})
    wrong = golden.difference({"y": np.array(found), "more": np.zeros(3)})
    if said is None:
        assert wrong is None
    else:
        assert wrong is not None
        assert re.match(said, wrong)


@pytest.mark.parametrize(("off", "is_rounding"), [(0.09, True), (0.2, False)])
def test_half_precision_is_known_less_exactly(off, is_rounding):
    expected = np.array([0.0], tf.bfloat16.as_numpy_dtype)
    golden = GoldenRequest("s", {}, {"y": expected})
    assert (golden.difference({"y": np.array([off])}) is None) == is_rounding
