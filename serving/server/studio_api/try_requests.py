"""Bodies of the requests that the page Try sends, and the schemas of both sides."""

import json
from dataclasses import dataclass
from typing import Any

from transbeam.serving.server.base.status import invalid
from transbeam.serving.studio.schemas import Schema

# The largest id of a token that a signature can take.
_LARGEST = 2**31 - 1

_TEXT: Schema = {"type": "string"}
_ID: Schema = {"type": "integer", "minimum": 0, "maximum": _LARGEST}
_SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}


def _object(**properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


SERVE_REQUEST = _object(run={"description": "A run's name", **_TEXT})
SERVED = _object(
    run=_TEXT,
    served_as={
        "description": "The model's name in requests; null while it is being loaded: "
        "ask again",
        "anyOf": [_TEXT, {"type": "null"}],
    },
)

ALTERNATIVES_REQUEST = _object(
    run={"description": "A run's name", **_TEXT},
    texts={
        "description": "The texts that the model was given, by their names",
        "type": "object",
        "additionalProperties": _TEXT,
    },
    token_ids={
        "description": "The tokens that the model generated",
        "type": "array",
        "items": _ID,
        "minItems": 1,
    },
)

_GUESS = _object(id=_ID, piece=_TEXT, probability=_SHARE)

ALTERNATIVES = _object(
    tokens={
        "description": "For each generated token its probability, and the most "
        "probable tokens at its place, the best first",
        "type": "array",
        "items": _object(
            id=_ID,
            piece=_TEXT,
            probability=_SHARE,
            alternatives={"type": "array", "items": _GUESS},
        ),
    }
)


@dataclass(frozen=True)
class AlternativesRequest:
    """A generated text whose alternatives are requested.

    Attributes:
        run: The run's name.
        texts: The texts that the model was given, by input name.
        token_ids: The generated tokens.
    """

    run: str
    texts: dict[str, str]
    token_ids: list[int]

    @classmethod
    def from_json(cls, body: bytes) -> "AlternativesRequest":
        """Reads the body of a request.

        Raises:
            StatusError: The body is not JSON, or has other members.

        Example:
        >>> body = b'{"run": "demo", "texts": {"text": "It"}, "token_ids": [7]}'
        >>> AlternativesRequest.from_json(body).token_ids
        [7]
        """
        match _parse(body):
            case {
                "run": str(run),
                "texts": dict(texts),
                "token_ids": [_, *_] as ids,
                **rest,
            } if not rest and _are_texts(texts) and all(map(_is_id, ids)):
                return cls(run, texts, list(ids))
        raise invalid(
            'the body is not of the form {"run": "NAME", "texts": {"text": "..."}, '
            '"token_ids": [1, 2]}, see /openapi.json'
        )


def read_run(body: bytes) -> str:
    """Reads the body of a request with the name of a run.

    Raises:
        StatusError: The body is not JSON, or has other members.

    Example:
    >>> read_run(b'{"run": "demo"}')
    'demo'
    """
    match _parse(body):
        case {"run": str(run), **rest} if not rest:
            return run
    raise invalid('the body is not of the form {"run": "NAME"}, see /openapi.json')


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise invalid(f"the body is not JSON: {error}") from None


def _are_texts(texts: dict[Any, Any]) -> bool:
    return all(isinstance(text, str) for text in texts.values())


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST
