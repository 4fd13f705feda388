"""API methods of a model version, with JSON schemas of requests and responses."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from transbeam.serving.base.golden_requests import GoldenRequest
from transbeam.serving.server.inference import classify_regress
from transbeam.serving.server.inference.signature import DEFAULT, ServableSignature
from transbeam.serving.server.openapi import predict_schemas
from transbeam.serving.server.openapi.tensor_schemas import (
    Schema,
    nested,
    object_schema,
)
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
    signatures: Mapping[str, ServableSignature], known: Sequence[GoldenRequest]
) -> Iterator[Method]:
    """Yields the API methods that a version supports.

    Args:
        signatures: Signatures of the version.
        known: Golden requests of the version, used as examples.
    """
    streams = can_stream(signatures)
    predicted = {
        name: signature
        for name, signature in signatures.items()
        if predict_schemas.can_predict(signature) and not (streams and name in STREAMED)
    }
    if predicted:
        requests = chain(*map(predict_schemas.request_schemas, predicted.values()))
        responses = chain(*map(predict_schemas.response_schemas, predicted.values()))
        yield Method(
            "predict",
            {"oneOf": list(requests)},
            {"anyOf": list(responses)},
            examples=_examples(predicted, known),
        )
    for path_name, method in classify_regress.METHODS.items():
        names = [
            name
            for name, signature in signatures.items()
            if classify_regress.supports_method(signature, method)
        ]
        if names:
            yield Method(
                path_name,
                _of_examples(names),
                object_schema({"results": _RESULTS[method]}),
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
    predicted: Mapping[str, ServableSignature], known: Sequence[GoldenRequest]
) -> dict[str, Any]:
    """Returns an example request for each signature that has a golden request."""
    found: dict[str, Any] = {}
    for golden in known:
        name = golden.signature or DEFAULT
        if name in predicted and name not in found:
            value: dict[str, Any] = {} if name == DEFAULT else {"signature_name": name}
            columns = {name: to_json(values) for name, values in golden.inputs.items()}
            if not predict_schemas.in_rows(predicted[name]):
                value["inputs"] = columns
            elif len(columns) == 1:
                value["instances"] = next(iter(columns.values()))
            else:
                value["instances"] = [
                    dict(zip(columns, row, strict=True))
                    for row in zip(*columns.values(), strict=True)
                ]
            found[name] = {"value": value}
    return found
