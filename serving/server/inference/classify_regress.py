"""Classify and Regress: signatures that take `tf.Example`s, and their results."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import classification_pb2, regression_pb2

from transbeam.serving.server.base.status import StatusError, invalid
from transbeam.serving.server.inference.signature import (
    ServableSignature,
    array_datatype,
)
from transbeam.serving.server.protocol.json_tensors import dims

CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"
# Names of the methods in signatures, by their names in REST paths.
METHODS = {"classify": CLASSIFY, "regress": REGRESS}
INPUTS = "inputs"

_CLASSES, _SCORES = "classes", "scores"
_TYPES = {_CLASSES: types_pb2.DT_STRING, _SCORES: types_pb2.DT_FLOAT}
_OUTPUTS = "outputs"

Response: TypeAlias = (
    classification_pb2.ClassificationResponse | regression_pb2.RegressionResponse
)


def check_method(signature: ServableSignature, method: str) -> None:
    """Checks that a signature supports Classify or Regress.

    The check is based on the signature's inputs and outputs, not on its `method_name`:
    `tf.saved_model.save` marks every signature as a Predict signature.

    Raises:
        StatusError: The signature's inputs or outputs are not those that the method
            requires.
    """
    definition = signature.definition
    kind = "classification" if method == CLASSIFY else "regression"
    found = set(definition.outputs)
    if len(definition.inputs) != 1:
        raise invalid("Expected one input Tensor.")
    if method == REGRESS and len(found) != 1:
        raise invalid("Expected one output Tensor.")
    if method == CLASSIFY and len(found) not in (1, 2):
        raise invalid(f"Expected one or two output Tensors, found {len(found)}")
    if INPUTS not in definition.inputs:
        raise invalid(f"No {kind} inputs found in SignatureDef: {definition}")
    if method == REGRESS and found != {_OUTPUTS}:
        raise invalid(f"No regression outputs found in SignatureDef: {definition}")
    if method == CLASSIFY and not found & {_CLASSES, _SCORES}:
        raise invalid(
            "Expected classification signature outputs to contain at least one of "
            f'"classes" or "scores". Signature was: {definition}'
        )


def supports_method(signature: ServableSignature, method: str) -> bool:
    """Returns True if the signature supports `method`, Classify or Regress."""
    try:
        check_method(signature, method)
    except StatusError:
        return False
    return signature.dtypes[INPUTS] == types_pb2.DT_STRING


def method_output_names(signature: ServableSignature, method: str) -> list[str]:
    """Returns the names of the outputs that `method`, Classify or Regress, uses."""
    known = {_CLASSES, _SCORES} if method == CLASSIFY else {_OUTPUTS}
    return sorted(known & set(signature.definition.outputs))


def method_response(
    method: str, outputs: Mapping[str, np.ndarray], examples: int
) -> Response:
    """Converts the outputs of a signature to the response of `method`.

    Args:
        method: `CLASSIFY` or `REGRESS`.
        outputs: See `classification` and `regression`.
        examples: Number of examples of the request.

    Raises:
        StatusError: An output does not have the required shape or dtype.
    """
    if method == CLASSIFY:
        return classification_pb2.ClassificationResponse(
            result=classification(outputs, examples)
        )
    return regression_pb2.RegressionResponse(result=regression(outputs, examples))


def classification(
    outputs: Mapping[str, np.ndarray], examples: int
) -> classification_pb2.ClassificationResult:
    """Converts the outputs of a Classify signature to a `ClassificationResult`.

    Args:
        outputs: `classes` (strings), `scores` (float32), or both, of shape
            (examples, classes).
        examples: Number of examples of the request.

    Raises:
        StatusError: An output does not have the required shape or dtype.
    """
    for name, values in outputs.items():
        if values.ndim != 2:
            raise invalid(
                "Expected Tensor shape: [batch_size num_classes] but got "
                f"{dims(values.shape)}"
            )
        found, wanted = array_datatype(values), _TYPES[name]
        if found != wanted:
            raise invalid(
                f"Expected {name} Tensor of {_named(wanted)}. Got: {_named(found)}"
            )
        if len(values) != examples:
            raise invalid(
                f"Expected {name} output batch size of {examples}. Got: {len(values)}"
            )
    if len({values.shape[1] for values in outputs.values()}) > 1:
        raise invalid(
            "Tensors class and score should match in dim_size(1). Got "
            + " vs. ".join(str(values.shape[1]) for values in outputs.values())
        )
    empty: list[list[None]] = [
        [None] * next(iter(outputs.values())).shape[1]
    ] * examples
    labels = outputs[_CLASSES].tolist() if _CLASSES in outputs else empty
    numbers = outputs[_SCORES].tolist() if _SCORES in outputs else empty
    result = classification_pb2.ClassificationResult()
    for row_labels, row_scores in zip(labels, numbers, strict=True):
        classes = result.classifications.add().classes
        for label, score in zip(row_labels, row_scores, strict=True):
            text = None if label is None else label.decode("utf-8", "replace")
            classes.add(label=text, score=score)
    return result


def regression(
    outputs: Mapping[str, np.ndarray], examples: int
) -> regression_pb2.RegressionResult:
    """Converts the outputs of a Regress signature to a `RegressionResult`.

    Args:
        outputs: `outputs`, float32, (examples,) or (examples, 1).
        examples: Number of examples of the request.

    Raises:
        StatusError: The output does not have the required shape or dtype.
    """
    values = outputs[_OUTPUTS]
    if values.shape[1:] not in ((), (1,)) or values.ndim == 0:
        raise invalid(
            "Expected output Tensor shape to be either [batch_size] or "
            f"[batch_size, 1] but got {dims(values.shape)}"
        )
    if len(values) != examples:
        raise invalid(
            f"Input batch size did not match output batch size: {examples} vs. "
            f"{len(values)}"
        )
    if values.dtype != np.float32:
        raise invalid(
            "Expected output Tensor of DT_FLOAT.  Got: "
            f"{_named(array_datatype(values))}"
        )
    result = regression_pb2.RegressionResult()
    for value in values.ravel().tolist():
        result.regressions.add(value=value)
    return result


def _named(dtype: int) -> str:
    return types_pb2.DataType.Name(dtype)  # type: ignore[arg-type]
