"""Parses the JSON body of a Predict request into input arrays.

https://www.tensorflow.org/tfx/serving/api_rest#predict_api. The row format
(`instances`) has a value or an object for each row; the columnar format (`inputs`) has
a tensor for each input.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from transbeam.serving.server.base.status import StatusError, invalid
from transbeam.serving.server.protocol.json_tensors import Column, is_base64, to_array
from transbeam.serving.server.protocol.json_text import parse_object, shown, text_bytes

Format = Literal["row", "columnar"]


@dataclass(frozen=True)
class InputSpec:
    """Inputs of a signature, as the JSON parser needs them.

    Attributes:
        dtypes: Data type (`DT_…`) of each input, by name.
        defaults: Default values, as JSON, of the inputs that a row may leave out.
        forms: Converters of inputs that may be a list or an object in each row.
    """

    dtypes: Mapping[str, int]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    forms: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class PredictBody:
    """Parsed body of a Predict request.

    Attributes:
        signature: Name of the signature; empty for the default one.
        format: Format of the request (row or columnar), in which the response is
            written.
        inputs: Arrays of the given inputs, by name.
    """

    signature: str
    format: Format
    inputs: dict[str, np.ndarray]


def read_predict(
    body: bytes,
    taken_by: Callable[[str], InputSpec],
    check_rows: Callable[[int], None] = lambda rows: None,
) -> PredictBody:
    """Parses the body of a Predict request.

    Args:
        body: JSON text.
        taken_by: Returns the inputs of a signature by its name.
        check_rows: Rejects too many rows; called before the rows are parsed.

    Raises:
        StatusError: The body is not a Predict request, or does not match the signature.
    """
    document = parse_object(body)
    signature = signature_name(document)
    taken = taken_by(signature)
    if not taken.dtypes:
        raise invalid(
            f"Failed to get input map for signature: {signature or 'DEFAULT'}"
        )
    if "instances" in document and "inputs" in document:
        raise invalid(
            f"JSON Value: {shown(document)} Not formatted correctly expecting only one "
            "of 'inputs' or 'instances' keys to exist "
        )
    if "instances" in document:
        return PredictBody(signature, "row", _rows(document, taken, check_rows))
    if "inputs" in document:
        return PredictBody(signature, "columnar", _columns(document["inputs"], taken))
    raise invalid("Missing 'inputs' or 'instances' key")


def signature_name(document: Mapping[str, Any]) -> str:
    """Returns the signature name in a request; empty if there is none.

    Raises:
        StatusError: The name is not a string, or contains an unpaired surrogate.
    """
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid(
            f"JSON Value: {shown(document)} not formatted correctly. 'signature_name' "
            "key must be a string value."
        )
    text_bytes(name)
    return name


def _rows(
    document: Mapping[str, Any], taken: InputSpec, check_rows: Callable[[int], None]
) -> dict[str, np.ndarray]:
    dtypes = taken.dtypes
    instances = document["instances"]
    if not isinstance(instances, list):
        raise invalid(
            f"JSON Value: {shown(document)} Expecting 'instances' to be an list/array"
        )
    if not instances:
        raise invalid(f"JSON Value: {shown(document)} No values in 'instances' array")
    check_rows(len(instances))
    if len(dtypes) > 1 and not isinstance(instances[0], dict):
        raise invalid(
            "instances is a plain list, but expecting list of objects as multiple "
            "input tensors required as per tensorinfo_map"
        )
    named = _is_object(instances[0])
    given = {name for one in instances if isinstance(one, dict) for name in one}
    columns = {
        name: Column(dtype)
        for name, dtype in dtypes.items()
        if name in given or name not in taken.defaults
    }
    if not named:  # a bare base64 value: the first input; others are missing
        columns = dict(list(columns.items())[:1])
    for number, instance in enumerate(instances):
        if _is_object(instance) != named:
            wanted, found = ("object", "list") if named else ("value/list", "object")
            raise invalid(
                f"Expecting {wanted} but got {found} at item {number} of input list"
            )
        if named:
            _add_object(instance, number, columns, taken)
            continue
        try:
            next(iter(columns.values())).add(instance)
        except StatusError as failure:
            raise invalid(
                f"Failed to process element: {number} of 'instances' list. Error: "
                f"{failure}"
            ) from None
    return {name: column.array() for name, column in columns.items()}


def _is_object(value: object) -> bool:
    return isinstance(value, dict) and not is_base64(value)


def _add_object(
    instance: dict[str, Any],
    number: int,
    columns: Mapping[str, Column],
    taken: InputSpec,
) -> None:
    for name in columns.keys() & taken.defaults.keys() - instance.keys():
        columns[name].add(taken.defaults[name])
    for name, value in instance.items():
        try:
            if name not in columns:
                raise invalid(f"JSON object: does not have named input: {name}")
            form = taken.forms.get(name)
            columns[name].add(form(value) if form else value)
        except StatusError as failure:
            raise invalid(
                f"Failed to process element: {number} key: {name} of 'instances' "
                f"list. Error: {failure}"
            ) from None
    if columns.keys() - instance.keys() - taken.defaults.keys():
        raise invalid(
            f"Failed to process element: {number} of 'instances' list. JSON object: "
            f"{shown(instance)} keys must be equal to: "
            f"{','.join(sorted(taken.dtypes))}"
        )


def _columns(value: Any, taken: InputSpec) -> dict[str, np.ndarray]:
    dtypes = taken.dtypes
    if not _is_object(value):
        if len(dtypes) > 1:
            raise invalid(
                "inputs is a plain value/list, but expecting an object as multiple "
                "input tensors required as per tensorinfo_map"
            )
        [(name, dtype)] = dtypes.items()
        return {name: to_array(value, dtype)}
    found = {}
    for name, dtype in dtypes.items():
        if name not in value:
            if name in taken.defaults:
                continue
            raise invalid(f"Missing named input: {name} in 'inputs' object.")
        column = value[name]
        if name in taken.forms and isinstance(column, list):
            column = [taken.forms[name](one) for one in column]
        found[name] = to_array(column, dtype)
    return found
