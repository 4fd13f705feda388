"""The SavedModel runs without Transbeam, and only with ops that a server has."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text as tf_text

from tests.serving.session import session_on
from transbeam.configs.base.errors import ArtifactError
from transbeam.serving.export.saved_model_writer import (
    TEXT_OPS,
    check_ops,
    list_ops,
    write_endpoints,
)
from transbeam.serving.runtimes.saved_model import load_saved_model_function

TEXTS = ["the [MASK] of the [MASK]", "", "Café, 漢字 [MASK]!"]

STRANGER = """
import json, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {rooms}:
            raise ImportError(f"{{name}} is no business of a client")

sys.meta_path.insert(0, Refuse())
import tensorflow as tf
import tensorflow_text

signatures = tf.saved_model.load(sys.argv[1]).signatures
text = tf.constant(json.loads(sys.argv[2]))
answers = signatures["serving_default"](text=text)
print(json.dumps({{
    "fills": [[[p.decode() for p in m] for m in t] for t in answers["fills"].numpy()],
    "scores": answers["scores"].numpy().tolist(),
    "embedding": signatures["embed"](text=text)["embedding"].numpy().tolist(),
    "token_ids": signatures["tokenize"](text=text)["token_ids"].numpy().tolist(),
}}))
"""


# To import TensorFlow takes such a process longer than all else.
@pytest.mark.thorough(
    instead="test_every_signature_answers_the_same_without_python, "
    "test_a_session_gets_the_same_answers"
)
def test_a_process_without_transbeam_gets_the_same_answers(exported, ask, tmp_path):
    rooms = {"configs", "pipeline", "model", "trainer", "serving", "transbeam"}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            STRANGER.format(rooms=rooms),
            str(exported.saved_model),
            json.dumps(TEXTS),
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    fills = ask("serving_default", TEXTS)
    assert found["fills"] == np.vectorize(bytes.decode)(fills["fills"]).tolist()
    np.testing.assert_allclose(found["scores"], fills["scores"], rtol=1e-5)
    assert found["token_ids"] == ask("tokenize", TEXTS)["token_ids"].tolist()
    np.testing.assert_allclose(
        found["embedding"], ask("embed", TEXTS)["embedding"], atol=1e-6
    )


def test_a_session_gets_the_same_answers(exported, ask):
    with session_on(exported.saved_model, optimized=True) as ask_session:
        for signature in ("serving_default", "embed", "tokenize"):
            expected = ask(signature, TEXTS)
            found = ask_session(signature, {"text": TEXTS})
            assert found.keys() == expected.keys()
            for name, value in found.items():
                if value.dtype == np.float32:
                    np.testing.assert_allclose(value, expected[name], atol=1e-6)
                else:
                    assert value.tolist() == expected[name].tolist()


def test_a_keras_model_saved_the_usual_way_fails_in_a_session(trained, tmp_path):
    """The check through a session is needed: in Python all is well."""
    module = tf.Module()
    module.model = trained.model
    names = ("token_ids", "padding_mask", "masked_positions")
    inputs = {name: tf.constant([[1, 2, 1]]) for name in names}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def ask_anything(text):
        logits = trained.model(inputs)["logits"]
        return {"sum": tf.fill([tf.size(text)], tf.reduce_sum(logits))}

    tf.saved_model.save(module, str(tmp_path), signatures={"sum": ask_anything})
    texts = {"text": ["a"]}
    assert load_saved_model_function(tmp_path)("sum", texts)["sum"].shape == (1,)
    with session_on(tmp_path) as ask, pytest.raises(tf.errors.OpError):
        ask("sum", texts)


def test_each_weight_is_saved_once(exported, trained):
    variables = tf.train.list_variables(
        str(exported.saved_model / "variables/variables")
    )
    saved = [shape for _, shape in variables if shape]  # `[]` is bookkeeping
    expected = [list(weight.shape) for weight in trained.model.weights]
    assert sorted(saved) == sorted(expected)


def test_ops_are_those_of_the_model_server(exported):
    ops = list_ops(exported.saved_model)
    assert {op for op in ops if not hasattr(tf.raw_ops, op)} < TEXT_OPS
    assert {"BatchMatMulV2", "StaticRegexReplace"} <= ops


def save(function, folder):
    endpoint = (function, [tf.TensorSpec([None], tf.string)])
    write_endpoints(folder, {"serving_default": endpoint})


def test_what_the_disk_refuses_is_told(tmp_path):
    (tmp_path / "variables").touch()  # a file where a folder is to be made
    with pytest.raises(ArtifactError, match=r"cannot be written: .*variables"):
        save(tf.identity, tmp_path)


def test_a_call_of_python_is_refused(tmp_path):
    save(lambda text: tf.py_function(lambda x: x, [text], tf.string), tmp_path)
    with pytest.raises(ArtifactError, match="EagerPyFunc, which TF Serving cannot run"):
        check_ops(tmp_path)


def test_an_op_of_another_library_is_refused(tmp_path):
    tokenizer = tf_text.WhitespaceTokenizer()
    save(lambda text: tokenizer.tokenize(text).flat_values, tmp_path)
    with pytest.raises(ArtifactError, match="WhitespaceTokenizeWithOffsetsV2"):
        check_ops(tmp_path)
