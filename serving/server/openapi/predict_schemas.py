"""JSON schemas of Predict requests and responses for each signature.

Requests and responses have a row format (`instances` and `predictions`) and a columnar
format (`inputs` and `outputs`); see `transbeam.serving.server.protocol.json_requests`.
"""

from collections.abc import Mapping

from tensorflow.core.protobuf import meta_graph_pb2

from transbeam.serving.server.inference.signature import (
    DEFAULT,
    ServableSignature,
    tensor_shape,
)
from transbeam.serving.server.openapi.tensor_schemas import (
    TEXT,
    Schema,
    Shape,
    nested,
    object_schema,
    request_value,
    response_value,
)
from transbeam.serving.server.protocol.generation_inputs import STOP
from transbeam.serving.server.protocol.json_requests import InputSpec
from transbeam.serving.server.protocol.json_responses import is_writable
from transbeam.serving.server.protocol.json_tensors import is_readable

Tensors = Mapping[str, meta_graph_pb2.TensorInfo]
_SEVERAL: Mapping[str, Schema] = {
    STOP: {"type": "array", "items": TEXT},
    "logit_bias": {
        "description": "Token ids, and numbers that are added to their scores",
        "type": "object",
        "propertyNames": {"pattern": "^[0-9]+$"},
        "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
    },
}


def can_predict(signature: ServableSignature) -> bool:
    """Returns True if JSON can represent all inputs and outputs of the signature."""
    inputs, outputs = signature.definition.inputs, signature.definition.outputs
    return (
        bool(inputs and outputs)
        and all(is_readable(tensor.dtype) for tensor in inputs.values())
        and all(is_writable(tensor.dtype) for tensor in outputs.values())
    )


def in_rows(signature: ServableSignature) -> bool:
    """Returns True if no input or output is a scalar, so the row format is possible."""
    definition = signature.definition
    tensors = (*definition.inputs.values(), *definition.outputs.values())
    return all(tensor_shape(tensor) != [] for tensor in tensors)


def request_schemas(signature: ServableSignature) -> list[Schema]:
    """Returns the request schemas: row format, if possible, and columnar format."""
    inputs = dict(sorted(signature.definition.inputs.items()))
    columns = _request_schema(signature, "inputs", _columns(inputs, signature.taken))
    if not in_rows(signature):
        return [columns]
    rows = _rows(inputs, signature.taken)
    return [_request_schema(signature, "instances", rows), columns]


def response_schemas(signature: ServableSignature) -> list[Schema]:
    """Returns the response schemas, in the order of `request_schemas`."""
    outputs = dict(sorted(signature.definition.outputs.items()))
    wholes = {
        name: nested(response_value(name, tensor.dtype), tensor_shape(tensor))
        for name, tensor in outputs.items()
    }
    columns = _response_schema(signature, "outputs", _bare(wholes))
    if not in_rows(signature):
        return [columns]
    parts = {
        name: nested(response_value(name, tensor.dtype), _of_one(tensor))
        for name, tensor in outputs.items()
    }
    rows = {"type": "array", "items": _bare(parts)}
    return [_response_schema(signature, "predictions", rows), columns]


def _request_schema(signature: ServableSignature, key: str, values: Schema) -> Schema:
    # The name may be left out for the default signature.
    names, required = [signature.name], ["signature_name", key]
    if signature.name == DEFAULT:
        names, required = [signature.name, ""], [key]
    return {
        "title": f"{signature.name}: {key}",
        "type": "object",
        "properties": {"signature_name": {"enum": names}, key: values},
        "required": required,
    }


def _response_schema(signature: ServableSignature, key: str, values: Schema) -> Schema:
    return {"title": f"{signature.name}: {key}", **object_schema({key: values})}


def _rows(inputs: Tensors, taken: InputSpec) -> Schema:
    parts = {
        name: nested(sent(name, tensor.dtype, taken), _of_one(tensor))
        for name, tensor in inputs.items()
    }
    sizes = {(tensor_shape(tensor) or [None])[0] for tensor in inputs.values()}
    fixed = {size for size in sizes if size is not None}
    row = _bare_or_named(parts, taken, strict=True)
    rows = nested(row, [min(fixed, default=None)])
    return {"minItems": 1, **rows}


def _columns(inputs: Tensors, taken: InputSpec) -> Schema:
    wholes = {
        name: nested(sent(name, tensor.dtype, taken), tensor_shape(tensor))
        for name, tensor in inputs.items()
    }
    # Unknown columns are ignored, as in TF Serving.
    return _bare_or_named(wholes, taken, strict=False)


def sent(name: str, dtype: int, taken: InputSpec) -> Schema:
    """Returns the schema of one value of an input, also as a list or object if allowed.

    Args:
        name: Name of the input.
        dtype: `DT_…`.
        taken: Inputs of the signature.
    """
    value = request_value(dtype)
    if name not in taken.forms:
        return value
    return {"anyOf": [value, _SEVERAL[name]]}


def _of_one(tensor: meta_graph_pb2.TensorInfo) -> Shape:
    """Returns the shape of one row of a tensor."""
    shape = tensor_shape(tensor)
    return None if shape is None else shape[1:]


def _bare_or_named(
    parts: dict[str, Schema], taken: InputSpec, *, strict: bool
) -> Schema:
    """Returns the schema of all inputs; a single input may be given without a name."""
    objects = object_schema(parts, strict=strict)
    objects["required"] = [name for name in parts if name not in taken.defaults]
    if len(parts) > 1:
        return objects
    return {"anyOf": [*parts.values(), objects]}


def _bare(parts: dict[str, Schema]) -> Schema:
    """Returns the schema of all outputs; a single output has no name."""
    return object_schema(parts) if len(parts) > 1 else next(iter(parts.values()))
