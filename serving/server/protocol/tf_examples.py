"""Converts Classify and Regress requests to serialized `tf.Example`s.

https://www.tensorflow.org/tfx/serving/api_rest#classify_and_regress_api
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from tensorflow.core.example import example_pb2, feature_pb2
from tensorflow_serving.apis import input_pb2

from transbeam.serving.server.base.status import invalid
from transbeam.serving.server.protocol.json_requests import signature_name
from transbeam.serving.server.protocol.json_tensors import decode_base64, is_base64
from transbeam.serving.server.protocol.json_text import (
    kind,
    parse_object,
    shown,
    text_bytes,
)

# Maximum bytes of all copies of the context, which is copied into each example: a small
# request could otherwise take a lot of memory.
_LARGEST_CONTEXTS = 2**28
_KINDS = {
    "bytes_list": "bytes",
    "float_list": "float",
    "int64_list": "int64",
}


def read_examples(body: bytes) -> tuple[str, input_pb2.Input]:
    """Parses the JSON body of a Classify or Regress request.

    Args:
        body: JSON with `examples`, and optionally `context` and `signature_name`.

    Returns:
        The name of the signature, empty if none is given, and the examples.

    Raises:
        StatusError: The body is not a Classify or Regress request.
    """
    document = parse_object(body)
    signature = signature_name(document)
    found = input_pb2.Input()
    examples: Any = found.example_list.examples
    if "context" in document:
        found.example_list_with_context.context.CopyFrom(_example(document["context"]))
        examples = found.example_list_with_context.examples
    if "examples" not in document:
        raise invalid(
            f"JSON Value: {shown(document)} When method is classify, key 'examples' is "
            "expected and was not found"
        )
    given = document["examples"]
    if not isinstance(given, list):
        raise invalid(
            f"JSON Value: {shown(document)} Expecting 'examples' value to be an "
            "list/array"
        )
    if not given:
        raise invalid(
            f"JSON Value: {shown(document)} 'examples' value is an empty array"
        )
    examples.extend(map(_example, given))
    return signature, found


def serialized_examples(found: input_pb2.Input) -> np.ndarray:
    """Serializes the examples, with the context's features in each of them.

    Args:
        found: Input of the request.

    Returns:
        Serialized `tf.Example`s.

    Raises:
        StatusError: There are no examples, or the context copied into each example
            would be too large in total.
    """
    with_context = found.example_list_with_context
    examples = found.example_list.examples or with_context.examples
    context = with_context.context.SerializeToString()
    if not examples:
        raise invalid("Input is empty.")
    if len(context) * len(examples) > _LARGEST_CONTEXTS:
        raise invalid(
            f"a context of {len(context):,} bytes for {len(examples):,} examples: each "
            "gets it, which would be too much; send fewer examples at once"
        )
    # Concatenated protocol buffers are merged, and later fields take precedence.
    return np.array(
        [context + example.SerializeToString() for example in examples], object
    )


def _example(value: object) -> example_pb2.Example:
    if not isinstance(value, Mapping):
        raise invalid(f"Example must be JSON object but got JSON {kind(value)}")
    example = example_pb2.Example()
    for name, content in value.items():
        text_bytes(name)
        feature = example.features.feature[name]
        for part in content if isinstance(content, list) else [content]:
            _add(part, name, feature)
    return example


def _add(value: Any, name: str, feature: feature_pb2.Feature) -> None:
    if isinstance(value, bool):
        _of_kind(feature, "int64_list", name).value.append(int(value))
    elif isinstance(value, int) and -(2**63) <= value < 2**64:
        integers = _of_kind(feature, "int64_list", name).value
        if value >= 2**63:
            raise invalid(
                f"Feature: {name} has uint64_t element. Only int64_t is supported."
            )
        integers.append(value)
    elif isinstance(value, int | float):
        # As in RapidJSON, integers beyond 64 bits are read as doubles.
        decimals = _of_kind(feature, "float_list", name).value
        with np.errstate(over="ignore"):
            decimals.append(float(np.float32(value)))
    elif isinstance(value, str):
        _of_kind(feature, "bytes_list", name).value.append(text_bytes(value))
    elif is_base64(value):
        _of_kind(feature, "bytes_list", name).value.append(decode_base64(value))
    else:
        raise invalid(
            f"Feature: {name} has element with unexpected JSON type: {kind(value)}"
        )


def _of_kind(feature: feature_pb2.Feature, wanted: str, name: str) -> Any:
    present = feature.WhichOneof("kind")
    if present not in (None, wanted):
        raise invalid(
            f"Unexpected element type in feature: {name} expecting type: "
            f"{_KINDS[str(present)]}"
        )
    return getattr(feature, wanted)
