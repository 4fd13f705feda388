"""Requests that a model server runs first: one for each signature and width."""

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from tests.serving.conftest import LENGTH
from tests.serving.session import asking
from transbeam.serving.export.stored_requests import warm_up_inputs, write_warm_up
from transbeam.serving.parity.export_parity import check_parity
from transbeam.serving.parity.masked import MaskedParityChecker
from transbeam.serving.server.models.warmup_requests import FILE, read_warm_up
from transbeam.serving.signatures.task_factory import make_signature_task
from transbeam.serving.text_ops.length_buckets import widths


def test_every_signature_meets_every_width(trained, exported, client):
    requests = list(read_warm_up(exported.saved_model))
    signatures = client.signatures()
    known = widths(LENGTH)
    counts = Counter(name for name, _ in requests)
    assert counts == {name: len(known) for name in signatures}
    for name in signatures:
        given = [inputs for signature, inputs in requests if signature == name]
        if "token_ids" in given[0]:
            found = [inputs["token_ids"].shape[1] for inputs in given]
        else:
            found = [widths_of(trained, inputs["text"]) for inputs in given]
        assert found == list(known)
        if name == "serving_default":
            assert all(b"[MASK]" in inputs["text"][0] for inputs in given)


def widths_of(trained, text):
    (row,) = trained.tokenizer.tokenize_with_masks(text).to_list()
    length = min(len(row) + 2, LENGTH)
    return min(width for width in widths(LENGTH) if width >= length)


def test_they_are_what_was_asked_for(trained, exported):
    written = list(warm_up_inputs(make_signature_task(trained)))
    read = list(read_warm_up(exported.saved_model))
    assert [name for name, _ in read] == [name for name, _ in written]
    for (_, inputs), (_, expected) in zip(read, written, strict=True):
        assert inputs.keys() == expected.keys()
        for name, value in expected.items():
            found = inputs[name]
            if value.dtype == object:
                found, value = found.astype(str), value.astype(str)
            np.testing.assert_array_equal(found, value)


def test_each_record_is_tf_serving_s(exported):
    for record in tf.data.TFRecordDataset(str(exported.saved_model / FILE)):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        assert log.WhichOneof("log_type") == "predict_log"
        assert log.predict_log.request.model_spec.signature_name


@pytest.mark.parametrize(("token", "failed"), [(1, 0), (10**6, 1)])
def test_a_request_that_fails_is_found(trained, exported, tmp_path, token, failed):
    # A server runs these requests, and nobody else.
    folder = tmp_path / "1"
    tf.io.gfile.makedirs(str(folder / "assets.extra"))
    for part in ("saved_model.pb", "variables", "assets"):
        if (exported.saved_model / part).exists():
            (folder / part).symlink_to(exported.saved_model / part)
    write_warm_up(folder, make_signature_task(trained))
    log = prediction_log_pb2.PredictionLog()
    log.predict_log.request.model_spec.signature_name = "fill_mask"
    rows = {
        "token_ids": [[1, token]],
        "padding_mask": [[1, 1]],
        "masked_positions": [[1]],
    }
    for name, row in rows.items():
        value = tf.make_tensor_proto(np.array(row, np.int32))
        log.predict_log.request.inputs[name].CopyFrom(value)
    with tf.io.TFRecordWriter(str(folder / FILE)) as writer:
        writer.write(log.SerializeToString())
    judge = MaskedParityChecker(trained, ["a [MASK]"])
    rows = check_parity(trained, judge, folder, asking(trained), {})
    not_passed = [row for row in rows if not row.passed]
    assert len(not_passed) == failed
    for row in not_passed:
        assert row.form == "our server"
        assert "tf_serving_warmup_requests, request 1: token_ids" in row.check
