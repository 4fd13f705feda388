"""Inputs of a request are held against a signature before anything is run.

Sentences after tensorflow: cc/saved_model/util.cc, and tensorflow/serving:
servables/tensorflow/predict_util.cc.
"""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2 as t
from tensorflow.core.protobuf import meta_graph_pb2

from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.inference.signature import ServableSignature


def tensor(*sizes, dtype=t.DT_FLOAT):
    info = meta_graph_pb2.TensorInfo(dtype=dtype)
    info.tensor_shape.SetInParent()
    for size in sizes:
        info.tensor_shape.dim.add(size=size)
    return info


def signature(inputs, **defaults):
    definition = meta_graph_pb2.SignatureDef()
    for name, info in inputs.items():
        definition.inputs[name].CopyFrom(info)
    for name, value in defaults.items():
        definition.defaults[name].CopyFrom(tf.make_tensor_proto(value, tf.float32))
    return ServableSignature("serving_default", definition)


def floats(*values):
    return np.array(values, np.float32)


SCALED = signature({"x": tensor(-1), "scale": tensor(-1), "by": tensor()}, scale=[2.0])


def test_what_is_left_out_is_the_default():
    # tensorflow/serving: servables/tensorflow/predict_util.cc:51 VerifyRequest
    found = SCALED.completed({"x": floats(1, 2), "by": floats(1)[0]})
    assert found["scale"].tolist() == [2.0, 2.0]
    given = {"x": floats(1), "scale": floats(3), "by": floats(1)[0]}
    assert SCALED.completed(given) == given


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (
            ["x"],
            "Signature input alias: by not found in request and no default value "
            "provided. Inputs expected to be in the request {x}, or default input "
            "alias set: scale",
        ),
        (
            ["by", "x", "z"],
            "Inputs contains invalid name. Used request inputs: by,x, request input: "
            "by,x,z",
        ),
        (
            ["a", "b", "x", "z"],
            "input size does not match signature: 4!=3 len({a,b,x,z}) != len({by,scale"
            ",x}). Sent extra: {a,b,z}. Missing but required: {by,scale}.",
        ),
    ],
)
def test_names_that_a_signature_with_defaults_refuses(sent, message):
    # tensorflow/serving: servables/tensorflow/predict_util.cc:129 GetInputValues
    with pytest.raises(StatusError) as caught:
        SCALED.check_inputs(SCALED.completed(dict.fromkeys(sent, floats(1))))
    assert (caught.value.http, caught.value.message) == (400, message)


def test_a_type_that_is_another():
    # tensorflow/serving: servables/tensorflow/predict_util_test.cc:271 Expects
    plain = signature({"x": tensor(), "y": tensor()})
    with pytest.raises(
        StatusError, match=r"Expects arg\[1\] to be float but bool is prov"
    ):
        plain.check_inputs({"y": np.ones((), bool), "x": floats(1)})


@pytest.mark.parametrize(
    ("sizes", "shapes", "together"),
    [
        ([-1], [(3,), (3,)], True),
        ([-1, 1], [(3, 1), (3, 1)], True),
        ([-1], [(3,), (2,)], False),
        ([-1], [(0,), (0,)], False),
        ([-1], [(), ()], False),
        ([-1, 1], [(3,), (3,)], False),
        ([-1, 1], [(3, 2), (3, 2)], False),
        ([-1], [(3,), (3, 1)], False),
        ([3], [(3,), (3,)], False),
    ],
)
def test_rows_are_known_of_the_shapes_of_the_signature(sizes, shapes, together):
    known = signature({"x": tensor(*sizes), "y": tensor(*sizes)})
    given = dict(zip("xy", map(np.zeros, shapes), strict=True))
    assert known.takes_in_rows(given) is together
    known.check_inputs({name: values.astype("f") for name, values in given.items()})
