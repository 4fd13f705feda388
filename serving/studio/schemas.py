"""JSON schemas of the studio's API, for the server's OpenAPI document."""

from typing import Any

from transbeam.serving.studio.head_summaries import SUMMARIES

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}


def object_of(properties: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    """Returns the schema of an object that has no other members."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def list_of(items: Schema) -> Schema:
    """Returns the schema of a list."""
    return {"type": "array", "items": items}


def or_null(schema: Schema) -> Schema:
    """Returns a schema that also allows null."""
    return {"anyOf": [schema, {"type": "null"}]}


RUN = object_of(
    {
        "name": TEXT,
        "objective": TEXT,
        "family": {"enum": ["encoder", "decoder", "seq2seq"]},
        "inputs": list_of(TEXT),
        "examples": list_of(TEXT),
        "layers": COUNT,
        "decoder_layers": COUNT,
        "heads": COUNT,
        "hidden_dim": COUNT,
        "attention": TEXT,
        "max_length": COUNT,
        "has_maps": FLAG,
        "why_no_maps": or_null(TEXT),
        "is_trained": FLAG,
        "checkpoints": {"description": "Steps of those kept", **list_of(COUNT)},
        "tflite": {"description": "Variants of the export", **list_of(TEXT)},
        "served_as": {
            "description": "The name at /v1/models of the export, once it is loaded",
            **or_null(TEXT),
        },
        "why_not_served": or_null(TEXT),
    },
    optional=("decoder_layers",),
)

RUNS = object_of({"runs": list_of(RUN)})

INSPECT_REQUEST = object_of(
    {
        "run": {"description": "A run's name", "type": "string"},
        "texts": {
            "description": "A text for each of the run's inputs, by their names",
            "type": "object",
            "additionalProperties": TEXT,
        },
        "checkpoint": {"description": "The step of a checkpoint", **or_null(COUNT)},
    },
    optional=("checkpoint",),
)

_TOKEN = object_of(
    {
        "id": COUNT,
        "piece": TEXT,
        "text": or_null(COUNT),
        "start": or_null(COUNT),
        "end": or_null(COUNT),
        "word": COUNT,
        "special": FLAG,
    }
)

_LAYER = object_of(
    {
        "path": TEXT,
        "heads": COUNT,
        "summaries": object_of(
            {
                name: {"description": text, **or_null(list_of({"type": "number"}))}
                for name, text in SUMMARIES.items()
            }
        ),
    }
)

INSPECTION = object_of(
    {
        "key": {"description": "The key of its maps", "type": "string"},
        "run": TEXT,
        "seconds": {"type": "number"},
        "rows": list_of(
            object_of({"name": TEXT, "texts": list_of(TEXT), "tokens": list_of(_TOKEN)})
        ),
        "groups": list_of(
            object_of(
                {
                    "name": TEXT,
                    "queries": {"description": "Index of their row", **COUNT},
                    "keys": {"description": "Index of their row", **COUNT},
                    "small": {
                        "description": "Rows and columns of the small maps",
                        **list_of(COUNT),
                        "minItems": 2,
                        "maxItems": 2,
                    },
                    "layers": list_of(_LAYER),
                }
            )
        ),
        "truncated": {"description": "Whether a text was cut", **FLAG},
        "limit": {"description": "The most tokens of a row", **COUNT},
    }
)

_NUMBER: Schema = {"type": "number"}

PREDICTIONS = object_of(
    {
        "row": {"description": "Index of the row of tokens", **COUNT},
        "predicts": {
            "description": "The next token, or the token itself if it is masked",
            "enum": ["next", "masked"],
        },
        "layers": {
            "description": "The embeddings, then the layers",
            **list_of(TEXT),
        },
        "ids": {
            "description": "By layer and token, the most probable first",
            **list_of(list_of(list_of(COUNT))),
        },
        "probabilities": list_of(list_of(list_of(_NUMBER))),
        "final_ranks": {
            "description": "How many tokens a layer finds more probable than the one "
            "that the model predicts",
            **list_of(list_of(COUNT)),
        },
        "divergences": {
            "description": "Kullback-Leibler divergence from the model's prediction, "
            "in nats",
            **list_of(list_of(_NUMBER)),
        },
        "pieces": {
            "description": "Pieces by ids",
            "type": "object",
            "additionalProperties": TEXT,
        },
    }
)

_PREDICTED = object_of({"id": COUNT, "piece": TEXT, "probability": _NUMBER})

CONTRIBUTIONS = object_of(
    {
        "position": COUNT,
        "token": _PREDICTED,
        "against": _PREDICTED,
        "difference": {
            "description": "The logit of `token` minus that of `against`",
            **_NUMBER,
        },
        "parts": {
            "description": "They add up to the difference",
            **list_of(
                object_of(
                    {
                        "layer": TEXT,
                        "head": or_null(COUNT),
                        "contribution": _NUMBER,
                    }
                )
            ),
        },
    }
)

STAGES = object_of(
    {
        "stages": list_of(
            object_of(
                {
                    "part": {"enum": ["input", "embeddings", "block", "output"]},
                    "path": TEXT,
                    "shape": {"description": "Without the batch", **list_of(COUNT)},
                    "length": {
                        "description": "Mean L2 norm of the tokens' vectors",
                        **or_null(_NUMBER),
                    },
                }
            )
        )
    }
)

QUERY_KEY = object_of(
    {
        "query": {
            "description": "The query of the attending token",
            **list_of(_NUMBER),
        },
        "key": {"description": "The key of the attended token", **list_of(_NUMBER)},
        "products": {
            "description": "By dimension, scaled as the score is",
            **list_of(_NUMBER),
        },
        "score": {"description": "Their sum, without biases of positions", **_NUMBER},
    }
)
