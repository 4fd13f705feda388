import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from transbeam.pipeline.records.features import Feature
from transbeam.pipeline.records.tf_example import encode_records, parse_records

FEATURES = (
    Feature("token_ids", "int32", (5,), ""),
    Feature("label", "int32", (), ""),
    Feature("weights", "float32", (2, 3), ""),
    Feature("image", "uint8", (2, 2, 1), ""),
)


def by_protobuf(arrays: dict[str, np.ndarray]) -> list[bytes]:
    """The same records, one field at a time."""
    serialized = []
    for row in range(len(arrays["label"])):
        example = tf.train.Example()
        for feature in FEATURES:
            target = example.features.feature[feature.name]
            values = arrays[feature.name][row].reshape(-1)
            if feature.dtype == "int32":
                target.int64_list.value.extend(values.tolist())
            elif feature.dtype == "float32":
                target.float_list.value.extend(values.tolist())
            else:
                target.bytes_list.value.append(values.tobytes())
        serialized.append(example.SerializeToString(deterministic=True))
    return serialized


def arrays_of(records: int, low: int, high: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    arrays = {}
    for feature in FEATURES:
        shape = (records, *feature.shape)
        if feature.dtype == "int32":
            arrays[feature.name] = rng.integers(low, high, shape, np.int32, True)
        elif feature.dtype == "float32":
            arrays[feature.name] = rng.normal(size=shape).astype(np.float32)
        else:
            arrays[feature.name] = rng.integers(0, 256, shape).astype(np.uint8)
    return arrays


@given(
    st.integers(0, 7),
    st.sampled_from([0, 127, 128, 16383, 16384, 30521, 2**21, 2**31 - 1]),
    st.sampled_from([0, -1, -(2**31)]),
    st.integers(0, 99),
)
def test_the_bytes_are_those_of_protobuf(records, high, low, seed):
    arrays = arrays_of(records, low, high, seed)
    assert encode_records(arrays, FEATURES) == by_protobuf(arrays)


def test_what_is_parsed_is_what_was_encoded():
    arrays = arrays_of(6, -5, 40_000, 1)
    parsed = parse_records(tf.constant(encode_records(arrays, FEATURES)), FEATURES)
    for feature in FEATURES:
        value = parsed[feature.name].numpy()
        np.testing.assert_array_equal(value, arrays[feature.name])
        assert value.dtype == feature.dtype


def test_a_message_longer_than_one_length_byte():
    feature = Feature("ids", "int32", (300,), "")
    ids = np.arange(600, dtype=np.int32).reshape(2, 300)
    records = encode_records({"ids": ids}, (feature,))
    example = tf.train.Example.FromString(records[1])
    assert list(example.features.feature["ids"].int64_list.value) == ids[1].tolist()
    assert math.prod(feature.shape) == 300


def test_arrays_that_break_the_contract_are_refused():
    arrays = arrays_of(2, 0, 9, 0)
    arrays["label"] = arrays["label"].astype(np.int64)
    with pytest.raises(ValueError, match="label: int64"):
        encode_records(arrays, FEATURES)
