"""Bodies of the requests that the page Try sends, and the schemas of both sides."""

from dataclasses import dataclass
from typing import Any

from transbeam.serving.server.base.status import invalid
from transbeam.serving.server.studio_api.questions import are_texts, read_json
from transbeam.serving.studio.schemas import TEXT, Schema, object_of

# The largest id of a token that a signature can take.
_LARGEST = 2**31 - 1

_ID: Schema = {"type": "integer", "minimum": 0, "maximum": _LARGEST}
_SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}


def _object(**properties: Schema) -> Schema:
    return object_of(properties)


SERVE_REQUEST = _object(run={"description": "A run's name", **TEXT})
SERVED = _object(
    run=TEXT,
    served_as={
        "description": "The model's name in requests; null while it is being loaded: "
        "ask again",
        "anyOf": [TEXT, {"type": "null"}],
    },
)

ALTERNATIVES_REQUEST = _object(
    run={"description": "A run's name", **TEXT},
    texts={
        "description": "The texts that the model was given, by their names",
        "type": "object",
        "additionalProperties": TEXT,
    },
    token_ids={
        "description": "The tokens that the model generated",
        "type": "array",
        "items": _ID,
        "minItems": 1,
    },
)

_GUESS = _object(id=_ID, piece=TEXT, probability=_SHARE)

ALTERNATIVES = _object(
    tokens={
        "description": "For each generated token its probability, and the most "
        "probable tokens at its place, the best first",
        "type": "array",
        "items": _object(
            id=_ID,
            piece=TEXT,
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
        match read_json(body):
            case {
                "run": str(run),
                "texts": dict(texts),
                "token_ids": [_, *_] as ids,
                **rest,
            } if not rest and are_texts(texts) and all(map(_is_id, ids)):
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
    match read_json(body):
        case {"run": str(run), **rest} if not rest:
            return run
    raise invalid('the body is not of the form {"run": "NAME"}, see /openapi.json')


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST
