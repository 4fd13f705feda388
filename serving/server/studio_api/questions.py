"""Reads the bodies of requests to the studio's API."""

import json
from collections.abc import Mapping
from typing import Any

from transbeam.serving.server.base.status import invalid
from transbeam.serving.studio.model_form import ModelForm


def read_inspection(body: bytes) -> tuple[ModelForm, dict[str, str]]:
    """Reads the body of an inspection request: a model and its texts.

    Raises:
        StatusError: The body is not JSON, or has other members.

    Example:
    >>> form, texts = read_inspection(b'{"run": "demo", "texts": {"text": "It is."}}')
    >>> print(form, texts)
    demo {'text': 'It is.'}
    """
    match read_json(body):
        case {"texts": dict(texts), **form} if are_texts(texts):
            if "tflite" not in form and (found := _read_form(form)):
                return found, texts
    raise invalid(
        'the body is not of the form {"run": "NAME", "texts": {"text": "..."}}, see '
        "/openapi.json"
    )


def read_comparison(body: bytes) -> tuple[ModelForm, ModelForm, dict[str, str]]:
    """Reads the body of a comparison request: two models and their texts.

    Raises:
        StatusError: The body is not JSON, or has other members.
    """
    match read_json(body):
        case {"a": one, "b": other, "texts": dict(texts), **rest} if not rest:
            a, b = _read_form(one), _read_form(other)
            if a and b and are_texts(texts):
                return a, b, texts
    raise invalid(
        'the body is not of the form {"a": {"run": "NAME"}, "b": {"run": "NAME", '
        '"checkpoint": 100}, "texts": {"text": "..."}}, see /openapi.json'
    )


def read_json(body: bytes) -> Any:
    """Reads the body of a request.

    Raises:
        StatusError: It is not JSON.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise invalid(f"the body is not JSON: {error}") from None


def are_texts(texts: Mapping[Any, Any]) -> bool:
    """Returns whether all values are texts."""
    return all(isinstance(text, str) for text in texts.values())


def _read_form(value: Any) -> ModelForm | None:
    """Reads the name of a model; None if it is none.

    Example:
    >>> print(_read_form({"run": "demo", "checkpoint": 100}))
    demo (checkpoint 100)
    >>> _read_form({"run": "demo", "checkpoint": 100, "tflite": "int8"})
    """
    match value:
        case {"run": str(run), **rest} if rest.keys() <= {"checkpoint", "tflite"}:
            checkpoint, tflite = rest.get("checkpoint"), rest.get("tflite")
        case _:
            return None
    if tflite is not None:  # no file is exported of a checkpoint
        is_file = isinstance(tflite, str) and checkpoint is None
        return ModelForm(run, tflite=tflite) if is_file else None
    # A flag is an int, too.
    if checkpoint is not None and (type(checkpoint) is not int or checkpoint < 0):
        return None
    return ModelForm(run, checkpoint)
