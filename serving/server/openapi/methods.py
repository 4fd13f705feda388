"""API methods of a model version, with JSON schemas of requests and responses."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from transbeam.serving.base.golden_requests import Golden
from transbeam.serving.server.inference import classify_regress
from transbeam.serving.server.inference.signature import DEFAULT, ServableSignature
from transbeam.serving.server.openapi import predict_schemas
from transbeam.serving.server.openapi.tensor_schemas import Schema, named, nested
from transbeam.serving.server.protocol.generation_inputs import STOP
from transbeam.serving.server.protocol.json_tensors import to_json
from transbeam.serving.server.streaming.stream_requests import (
    BEGIN,
    STREAMED,
    can_stream,
    default_inputs,
)

_FEATURE = {"$ref": "#/components/schemas/Feature"}
_EXAMPLE = {"$ref": "#/components/schemas/Example"}
_LEAF: Schema = {
    "anyOf": [{"type": ["boolean", "number"]}, {"$ref": "#/components/schemas/Text"}]
}
# Component schemas of `tf.Example`s.
EXAMPLES: dict[str, Schema] = {
    "Feature": {
        "description": "A value, or a list of values of one type",
        "anyOf": [_LEAF, {"type": "array", "items": _LEAF}],
    },
    "Example": {
        "description": "Features by their names",
        "type": "object",
        "additionalProperties": _FEATURE,
    },
}
_LABELLED: Schema = {
    "description": "A class and its score",
    "type": "array",
    "prefixItems": [{"type": "string"}, {"type": "number"}],
    "minItems": 2,
    "maxItems": 2,
}
_RESULTS: Mapping[str, Schema] = {
    classify_regress.CLASSIFY: nested(_LABELLED, [None, None]),
    classify_regress.REGRESS: nested({"type": "number"}, [None]),
}
_EVENTS = """\
Server-sent events: `data: {"text": ..., "token_id": ...}` for each part, and one at the
end, `event: done` with `generated_text`, `num_tokens`, `finished` and `truncated`, or
`event: error` with `error`.
"""


@dataclass(frozen=True)
class Method:
    """An API method, with its JSON schemas.

    Attributes:
        name: Name of the method in paths.
        question: Schema of the request.
        answer: Schema of the response.
        media_type: Media type of the response.
        examples: Valid example requests by name.
    """

    name: str
    question: Schema
    answer: Schema
    media_type: str = "application/json"
    examples: Mapping[str, Any] = field(default_factory=dict)


def describe_methods(
    signatures: Mapping[str, ServableSignature], known: Sequence[Golden]
) -> Iterator[Method]:
    """Yields the API methods that a version supports.

    Args:
        signatures: Signatures of the version.
        known: Golden requests of the version, used as examples.
    """
    streams = can_stream(signatures)
    asked = {
        name: signature
        for name, signature in signatures.items()
        if predict_schemas.can_predict(signature) and not (streams and name in STREAMED)
    }
    if asked:
        yield Method(
            "predict",
            {"oneOf": _flat(predict_schemas.questions(of) for of in asked.values())},
            {"anyOf": _flat(predict_schemas.answers(of) for of in asked.values())},
            examples=_examples(asked, known),
        )
    for path_name, method in classify_regress.METHODS.items():
        names = [
            name
            for name, signature in signatures.items()
            if classify_regress.can_be_asked_by(signature, method)
        ]
        if names:
            yield Method(
                path_name, _of_examples(names), named({"results": _RESULTS[method]})
            )
    if streams:
        yield Method(
            "stream",
            _stream_request(signatures[BEGIN]),
            {"type": "string", "description": _EVENTS},
            "text/event-stream",
        )


def _of_examples(names: Sequence[str]) -> Schema:
    """Returns the schema of a Classify or Regress request."""
    # The name may be left out for the default signature.
    spared = DEFAULT in names
    return {
        "type": "object",
        "properties": {
            "signature_name": {"enum": [*names, *[""] * spared]},
            "context": _EXAMPLE,
            "examples": {"type": "array", "items": _EXAMPLE, "minItems": 1},
        },
        "required": ["examples", *["signature_name"] * (not spared)],
    }


def _stream_request(begin: ServableSignature) -> Schema:
    properties = {
        name: predict_schemas.sent(name, dtype, begin.taken)
        for name, dtype in begin.dtypes.items()
    }
    defaults = default_inputs(begin)
    for name in properties.keys() & defaults.keys():
        properties[name]["default"] = to_json(defaults[name])[0]
    texts: Schema = {"type": "array", "items": {"type": "string"}}
    return {
        "type": "object",
        "properties": {
            **properties,
            STOP: {"anyOf": [{"type": "string"}, texts], "default": []},
        },
        "required": [name for name in properties if name not in defaults],
        "additionalProperties": False,
    }


def _examples(
    asked: Mapping[str, ServableSignature], known: Sequence[Golden]
) -> dict[str, Any]:
    """Returns an example request for each signature that has a golden request."""
    found: dict[str, Any] = {}
    for golden in known:
        name = golden.signature or DEFAULT
        if name in asked and name not in found:
            value: dict[str, Any] = {} if name == DEFAULT else {"signature_name": name}
            rows = predict_schemas.in_rows(asked[name])
            value |= _in_rows(golden.inputs) if rows else _in_columns(golden.inputs)
            found[name] = {"value": value}
    return found


def _in_columns(inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {"inputs": {name: to_json(values) for name, values in inputs.items()}}


def _in_rows(inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    columns = {name: to_json(values) for name, values in inputs.items()}
    if len(columns) == 1:
        return {"instances": next(iter(columns.values()))}
    rows = zip(*columns.values(), strict=True)
    return {"instances": [dict(zip(columns, row, strict=True)) for row in rows]}


def _flat(lists: Iterator[list[Schema]]) -> list[Schema]:
    return [schema for schemas in lists for schema in schemas]
