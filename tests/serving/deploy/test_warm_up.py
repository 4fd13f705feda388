"""Warm-up requests also work in TF Serving with batching.

It takes every output apart by its rows, and a model whose warm-up fails is not loaded:
tensorflow/serving, batching/batching_session.cc, `SplitOutputTensors`.
"""

import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from tests.serving.conftest import make_run
from tests.serving.signatures.generation.test_generate_signatures import config_of
from transbeam.serving.base.trained_run import load_trained
from transbeam.serving.export.stored_requests import write_warm_up
from transbeam.serving.server.models.warmup_requests import FILE
from transbeam.serving.signatures.task_factory import make_signature_task


def requests_of(folder):
    """The first request for each signature: its inputs, and the outputs it asks for."""
    first = {}
    for record in tf.data.TFRecordDataset(str(folder / FILE)):
        request = prediction_log_pb2.PredictionLog.FromString(
            record.numpy()
        ).predict_log.request
        first.setdefault(request.model_spec.signature_name, request)
    return first


@pytest.fixture
def eagerly():
    """To trace the loops that write takes ten times as long as to run them."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.mark.parametrize("kind", ["causal", "text_to_text"])
@pytest.mark.filterwarnings("ignore:Even though the `tf.config")  # of tf.data
@pytest.mark.usefixtures("eagerly")
def test_every_output_has_a_row_for_each_text(tmp_path, kind):
    trained = load_trained(make_run(tmp_path / "run", config_of(kind)))
    task = make_signature_task(trained)
    write_warm_up(tmp_path, task)
    requests = requests_of(tmp_path)
    assert {"serving_default", "generate", "stream_begin"} <= set(requests)
    for name, request in requests.items():
        endpoint = task.endpoints()[name]
        given = [tf.make_ndarray(request.inputs[s.name]) for s in endpoint.inputs]
        (rows,) = {value.shape[0] for value in given}
        answer = endpoint.function(*map(tf.constant, given))
        for output in request.output_filter or answer:
            assert answer[output].shape[:1] == [rows], (name, output)
