"""JSON schemas of comparisons, for the server's OpenAPI document."""

from typing import get_args

from transbeam.serving.studio.answers import AnswerKind
from transbeam.serving.studio.schemas import (
    COUNT,
    FLAG,
    INSPECT_REQUEST,
    INSPECTION,
    TEXT,
    Schema,
    list_of,
    object_of,
    or_null,
)

_NUMBER: Schema = {"type": "number"}
_WHY_NOT: Schema = {"description": "Why there are none", **or_null(TEXT)}

_FORM = {
    "run": {"description": "A run's name", "type": "string"},
    "checkpoint": {"description": "The step of a checkpoint", **or_null(COUNT)},
    "tflite": {"description": "The variant of a TFLite file", **or_null(TEXT)},
}
_SIDE = object_of(_FORM, optional=("checkpoint", "tflite"))

COMPARE_REQUEST = object_of(
    {"a": _SIDE, "b": _SIDE, "texts": INSPECT_REQUEST["properties"]["texts"]}
)

_OUTCOME = object_of({"name": TEXT, "a": or_null(_NUMBER), "b": or_null(_NUMBER)})

_PREDICTION = object_of(
    {
        "number": {"description": "Of the mask, word or token", **COUNT},
        "text": {"description": "The word, or the text before the token", **TEXT},
        "difference": {"description": "Total variation, 0 to 1", **_NUMBER},
        "actual": {"description": "Index of the text's own outcome", **or_null(COUNT)},
        "best": {
            "description": "Index of the most probable outcome of each model",
            **object_of({"a": COUNT, "b": COUNT}),
        },
        "outcomes": {
            "description": "With probabilities, the largest difference first",
            **list_of(_OUTCOME),
        },
    }
)

ANSWERS = object_of(
    {
        "why_not": _WHY_NOT,
        "kind": {"enum": list(get_args(AnswerKind))},
        "same_tokens": FLAG,
        "predictions": {
            "description": "The largest difference first",
            **list_of(_PREDICTION),
        },
        "left_out": {"description": "Predictions before the first one", **COUNT},
        "written": {
            "description": "Continuations of the text",
            **or_null(object_of({"a": TEXT, "b": TEXT})),
        },
    },
    optional=("kind", "same_tokens", "predictions", "left_out", "written"),
)

_MAPS = object_of(
    {
        "why_not": _WHY_NOT,
        "groups": list_of(
            object_of(
                {
                    "name": TEXT,
                    "layers": {
                        "description": "Total variation of each head, mean of tokens",
                        **list_of(list_of(_NUMBER)),
                    },
                }
            )
        ),
    }
)

_MODEL = object_of(
    {
        **_FORM,
        "inspection": {"description": "If it has maps", **or_null(INSPECTION)},
    }
)

COMPARISON = object_of(
    {
        "a": _MODEL,
        "b": _MODEL,
        "seconds": _NUMBER,
        "answers": ANSWERS,
        "maps": _MAPS,
    }
)
