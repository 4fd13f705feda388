"""The page of the REST API, from a description that a server gave of two models.

`tests/serving/server/openapi/site_sample.py` makes the description, and a test holds
that servers still give it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.site.markdown import escape, table

PATH = "reference/http.md"
FILE = Path(__file__).parents[1] / "reference/openapi.json"

_INTRODUCTION = """\
# HTTP

The routes of `transbeam serve`, of a server that has two models: `masked`, which fills
gaps, and `writer`, which writes. `GET /openapi.json` describes those of your server
with its own models, in OpenAPI 3.1; [what this page is made of](openapi.json) is one.

All but `:stream`, `/livez`, `/readyz` and `/openapi.json` are TF Serving's, case by
case in [the table of its contract](../conformance.md). Over gRPC there are TF Serving's
services, and [`PredictStreamed`](../serving.md#texts-while-they-are-written).

Every path of a model is there with `/versions/{version}` behind the name as well, and
with `/labels/{label}` where versions have labels.

"""
_ROWS = """
`instances` are rows, an element for each thing to predict; `inputs` are columns, an
array for each input. A signature with one input takes its values bare. A text is a
string of UTF-8, or `{"b64": "..."}`.
"""


def page() -> str:
    """Writes the page."""
    document = json.loads(FILE.read_text("utf-8"))
    parts = [
        _INTRODUCTION,
        _routes(document),
        "\n## Predict\n\nWhat each signature of `masked` takes:\n\n",
        _signatures(document, "masked"),
        _ROWS,
        _example(document, "/v1/models/masked:predict"),
        "\n## Stream\n\nThe fields of `POST /v1/models/writer:stream`, of a model that"
        " takes few. [All that a writer may take](../serving.md#texts-while-they-are-"
        "written).\n\n",
        _fields(document["components"]["schemas"]["writer.1.stream.question"]),
        "\n\n",
        _description(document, "writer.1.stream.answer"),
        '\n## Errors\n\nThe body is `{"error": "..."}`.\n\n',
        _errors(document),
        "\n",
    ]
    return "".join(parts)


def _routes(document: dict[str, Any]) -> str:
    rows = []
    for path, item in document["paths"].items():
        if "{version}" in path:
            continue
        for verb in ("get", "post"):
            if verb in item:
                codes = ", ".join(item[verb]["responses"])
                what = escape(item[verb]["summary"])
                rows.append([f"`{verb.upper()} {path}`", what, codes])
    rows.append(["`GET /openapi.json`", "This description", "200"])
    return table(["route", "what it does", "answers"], rows) + "\n"


def _signatures(document: dict[str, Any], model: str) -> str:
    schema = document["components"]["schemas"][f"{model}.1.predict.question"]
    rows = []
    for form in schema["oneOf"]:
        name, _, field = form["title"].partition(": ")
        if field == "inputs":
            inputs = ", ".join(f"`{key}`" for key in sorted(_columns(form)))
            rows.append([f"`{name}`", inputs])
    return table(["`signature_name`", "inputs"], rows) + "\n"


def _columns(form: dict[str, Any]) -> Iterator[str]:
    """The inputs of a signature, by the object that holds a column of each."""
    inputs = form["properties"]["inputs"]
    for choice in inputs.get("anyOf", [inputs]):
        yield from choice.get("properties", {})


def _example(document: dict[str, Any], path: str) -> str:
    body = document["paths"][path]["post"]["requestBody"]["content"]
    example = body["application/json"]["examples"]["serving_default"]["value"]
    text = json.dumps(example, indent=2, ensure_ascii=False)
    return f"\n```json\n{text}\n```\n"


def _fields(schema: dict[str, Any]) -> str:
    rows = []
    for name, field in schema["properties"].items():
        kinds = [choice.get("type", "text") for choice in field.get("anyOf", [field])]
        needed = name in schema["required"]
        default = "*required*" if needed else f"`{json.dumps(field.get('default'))}`"
        rows.append([f"`{name}`", " or ".join(kinds), default])
    return table(["field", "type", "left out"], rows)


def _description(document: dict[str, Any], name: str) -> str:
    schema = document["components"]["schemas"][name]
    return escape(schema.get("description", "")).strip() + "\n"


def _errors(document: dict[str, Any]) -> str:
    codes: dict[str, str] = {}
    for item in document["paths"].values():
        for operation in (item.get("get"), item.get("post")):
            for code, response in (operation or {}).get("responses", {}).items():
                if reference := response.get("$ref"):
                    codes[code] = reference.rpartition("/")[2]
    answers = document["components"]["responses"]
    rows = [
        [code, escape(answers[name]["description"])]
        for code, name in sorted(codes.items())
    ]
    return table(["status", "when"], rows)
