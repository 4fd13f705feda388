"""JSON schemas of the studio's API, for the server's OpenAPI document."""

from typing import Any

from transbeam.serving.studio.head_summaries import SUMMARIES

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_FLAG: Schema = {"type": "boolean"}


def _object(properties: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


RUN = _object(
    {
        "name": _TEXT,
        "objective": _TEXT,
        "family": {"enum": ["encoder", "decoder", "seq2seq"]},
        "inputs": _list(_TEXT),
        "examples": _list(_TEXT),
        "layers": _COUNT,
        "decoder_layers": _COUNT,
        "heads": _COUNT,
        "hidden_dim": _COUNT,
        "attention": _TEXT,
        "max_length": _COUNT,
        "has_maps": _FLAG,
        "why_no_maps": _or_null(_TEXT),
        "served_as": {
            "description": "The name at /v1/models of the export, once it is loaded",
            **_or_null(_TEXT),
        },
        "why_not_served": _or_null(_TEXT),
    },
    optional=("decoder_layers",),
)

RUNS = _object({"runs": _list(RUN)})

INSPECT_REQUEST = _object(
    {
        "run": {"description": "A run's name", "type": "string"},
        "texts": {
            "description": "A text for each of the run's inputs, by their names",
            "type": "object",
            "additionalProperties": _TEXT,
        },
    }
)

_TOKEN = _object(
    {
        "id": _COUNT,
        "piece": _TEXT,
        "text": _or_null(_COUNT),
        "start": _or_null(_COUNT),
        "end": _or_null(_COUNT),
        "word": _COUNT,
        "special": _FLAG,
    }
)

_LAYER = _object(
    {
        "path": _TEXT,
        "heads": _COUNT,
        "summaries": _object(
            {
                name: {"description": text, **_or_null(_list({"type": "number"}))}
                for name, text in SUMMARIES.items()
            }
        ),
    }
)

INSPECTION = _object(
    {
        "key": {"description": "The key of its maps", "type": "string"},
        "run": _TEXT,
        "seconds": {"type": "number"},
        "rows": _list(
            _object({"name": _TEXT, "texts": _list(_TEXT), "tokens": _list(_TOKEN)})
        ),
        "groups": _list(
            _object(
                {
                    "name": _TEXT,
                    "queries": {"description": "Index of their row", **_COUNT},
                    "keys": {"description": "Index of their row", **_COUNT},
                    "small": {
                        "description": "Rows and columns of the small maps",
                        **_list(_COUNT),
                        "minItems": 2,
                        "maxItems": 2,
                    },
                    "layers": _list(_LAYER),
                }
            )
        ),
        "truncated": {"description": "Whether a text was cut", **_FLAG},
        "limit": {"description": "The most tokens of a row", **_COUNT},
    }
)
