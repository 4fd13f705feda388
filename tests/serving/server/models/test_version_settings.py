"""Settings of a version: its batching, and its warm-up requests."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from tests.serving.server.conftest import NAME, running, settings_for
from transbeam.configs.base.errors import ArtifactError
from transbeam.serving.server.models.batching.batch_queue import BatchingParameters
from transbeam.serving.server.models.warmup_requests import FILE


@pytest.mark.parametrize(
    ("in_version", "enabled", "rows"),
    [
        (None, False, 8),
        ("max_batch_size: 4 allowed_batch_sizes: 4", False, 8),
        ("max_batch_size: 4 allowed_batch_sizes: 4", True, 4),
        (None, True, 1),
    ],
)
def test_versions_may_say_how_they_are_batched(
    half_plus_two, tmp_path, in_version, enabled, rows
):
    # tensorflow/serving: saved_model_bundle_factory_test.cc:267 PerModelBatchingParams
    folder = shutil.copytree(half_plus_two, tmp_path / NAME)
    if in_version is not None:
        (folder / "123/batching_params.pbtxt").write_text(in_version)
    settings = settings_for(
        folder,
        batching=BatchingParameters(max_batch_size=8, allowed_batch_sizes=(8,)),
        enable_per_model_batching_parameters=enabled,
    )
    with running(settings) as client:
        body = {"signature_name": "rows", "instances": ["a"]}
        status, answer = client.post(f"{NAME}:predict", body)
    assert (status, answer) == (200, {"predictions": [{"length": 1, "rows": rows}]})


def test_a_version_that_says_nonsense_of_batching_is_told_of(half_plus_two, tmp_path):
    # tensorflow/serving: bundle_factory_util_test.cc:179 GetPerModelBatchingParams
    folder = shutil.copytree(half_plus_two, tmp_path / NAME)
    (folder / "123/batching_params.pbtxt").write_text("many")
    settings = settings_for(folder, enable_per_model_batching_parameters=True)
    message = r"version 123: .*batching_params\.pbtxt: cannot read 'many'"
    with pytest.raises(ArtifactError, match=message), running(settings):
        pass


def test_how_long_it_took_to_warm_up_is_told_by_the_name_that_dashboards_read(
    half_plus_two, tmp_path
):
    # tensorflow/serving: saved_model_warmup_util.cc:53 model_warmup_latency
    folder = shutil.copytree(half_plus_two, tmp_path / NAME) / "123"
    log = prediction_log_pb2.PredictionLog()
    x = tf.make_tensor_proto(np.ones(1, np.float32))
    log.predict_log.request.inputs["x"].CopyFrom(x)
    (folder / FILE).parent.mkdir()
    with tf.io.TFRecordWriter(str(folder / FILE)) as writer:
        writer.write(log.SerializeToString())
    with running(settings_for(folder.parent)) as client:
        page = client.send("GET", "/monitoring/prometheus/metrics")[2].decode()
    name = ":tensorflow:serving:model_warmup_latency"
    labels = f'model_path="{folder}",status="OK"'
    assert f"{name}_count{{{labels}}} 1.0\n" in page
    assert f'{name}_bucket{{le="10.0",{labels}}} 0.0\n' in page
    [took] = [
        float(line.rpartition(" ")[2])
        for line in page.splitlines()
        if line.startswith(f"{name}_sum{{")
    ]
    assert 10 < took < 60e6  # in microseconds
