"""Inputs and outputs of a SavedModel signature, and validation of requests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from transbeam.serving.server.base.batched_arrays import Arrays
from transbeam.serving.server.base.status import invalid
from transbeam.serving.server.protocol.generation_inputs import (
    STOP,
    json_of_list,
    json_of_object,
)
from transbeam.serving.server.protocol.json_requests import InputSpec
from transbeam.serving.server.protocol.json_tensors import to_json, type_name

DEFAULT = "serving_default"
# String inputs of text generation that JSON clients may send as lists or objects.
_FORMS = {STOP: json_of_list, "logit_bias": json_of_object}


@dataclass(frozen=True)
class ServableSignature:
    """A signature of a SavedModel.

    Attributes:
        name: Name of the signature.
        definition: The `SignatureDef` of the SavedModel.
    """

    name: str
    definition: meta_graph_pb2.SignatureDef

    @cached_property
    def dtypes(self) -> dict[str, int]:
        """Data type of each input."""
        inputs = self.definition.inputs
        return {name: inputs[name].dtype for name in sorted(inputs)}

    @cached_property
    def defaults(self) -> dict[str, np.ndarray]:
        """Default values of optional inputs, by name."""
        defaults = self.definition.defaults
        return {name: tf.make_ndarray(defaults[name]) for name in sorted(defaults)}

    @cached_property
    def forms(self) -> dict[str, Callable[[Any], Any]]:
        """JSON converters for list and object inputs of text generation."""
        inputs = self.definition.inputs
        return {
            name: form
            for name, form in _FORMS.items()
            if "max_new_tokens" in inputs
            and name in inputs
            and inputs[name].dtype == types_pb2.DT_STRING
            and self.shape(name) == [None]
        }

    @cached_property
    def taken(self) -> InputSpec:
        """Input specification for the JSON parser."""
        rows = {
            name: to_json(value)[0]
            for name, value in self.defaults.items()
            if self._is_of_rows(name)
        }
        return InputSpec(self.dtypes, rows, self.forms)

    def completed(self, inputs: Arrays) -> Arrays:
        """Adds default values for missing inputs, repeated for each row.

        Raises:
            StatusError: An input without a default is missing, or an input is unknown.
        """
        missing = self.defaults.keys() - inputs.keys()
        # Requests with too many inputs fail in `check_inputs`, as in TF Serving.
        if not missing or len(inputs) > len(self.definition.inputs):
            return inputs
        known, sent = self.definition.inputs.keys(), ",".join(sorted(inputs))
        # As in TF Serving, other names are rejected if there are defaults.
        for name in sorted(known - inputs.keys() - self.defaults.keys()):
            raise invalid(
                f"Signature input alias: {name} not found in request and no default "
                f"value provided. Inputs expected to be in the request {{{sent}}}, or "
                f"default input alias set: {','.join(self.defaults)}"
            )
        if inputs.keys() - known:
            raise invalid(
                "Inputs contains invalid name. Used request inputs: "
                f"{','.join(sorted(inputs.keys() & known))}, request input: {sent}"
            )
        rows = max((len(v) for v in inputs.values() if v.ndim), default=1)
        added = {
            name: np.repeat(self.defaults[name], rows, axis=0)
            if self._is_of_rows(name)
            else self.defaults[name]
            for name in sorted(missing)
        }
        return {**inputs, **added}

    def _is_of_rows(self, name: str) -> bool:
        """Returns True if the default is a single row, to be repeated for each row."""
        free = (self.shape(name) or [0])[0] is None
        return free and self.defaults[name].shape[:1] == (1,)

    def shape(self, name: str) -> list[int | None] | None:
        """Returns the shape of an input, None for unknown sizes or an unknown rank."""
        return tensor_shape(self.definition.inputs[name])

    def check_inputs(self, inputs: Arrays) -> None:
        """Checks names and dtypes of the inputs.

        Shapes are not checked: TF Serving feeds tensors of any shape, and the graph
        itself rejects tensors that it cannot process.

        Raises:
            StatusError: An input is missing or unknown, or its dtype differs from the
                signature's.
        """
        dtypes = self.dtypes
        if inputs.keys() != dtypes.keys():
            sent, known = sorted(inputs), sorted(dtypes)
            raise invalid(
                f"input size does not match signature: {len(sent)}!={len(known)} "
                f"len({{{','.join(sent)}}}) != len({{{','.join(known)}}}). Sent extra: "
                f"{{{','.join(sorted(inputs.keys() - dtypes.keys()))}}}. Missing but "
                f"required: {{{','.join(sorted(dtypes.keys() - inputs.keys()))}}}."
            )
        for number, (name, dtype) in enumerate(dtypes.items()):
            found = array_datatype(inputs[name])
            if found != dtype:
                raise invalid(
                    f"Input {name}: Expects arg[{number}] to be {type_name(dtype)} but "
                    f"{type_name(found)} is provided"
                )

    def check_shapes(self, inputs: Arrays) -> None:
        """Checks that the inputs have the shapes of the signature.

        Raises:
            StatusError: The shape of an input differs from that of the signature.
        """
        for name, values in inputs.items():
            wanted = self.shape(name)
            if not _fits(values.shape, wanted):
                sizes = ["?" if size is None else str(size) for size in wanted or ()]
                raise invalid(
                    f"Input {name} has the shape {list(values.shape)}; expected "
                    f"[{', '.join(sizes)}]"
                )

    def takes_in_rows(self, inputs: Arrays) -> bool:
        """Returns True if the first axis of all inputs is the batch.

        Only inputs with a common batch axis can be split, or be batched with the inputs
        of other requests. Returns False if the shapes differ from the signature's,
        because the batch axis is then unknown.
        """
        counts = {len(values) if values.ndim else 0 for values in inputs.values()}
        if len(counts) != 1 or 0 in counts:
            return False
        shapes = {name: self.shape(name) for name in inputs}
        return all(
            (shape or [None])[:1] == [None] and _fits(inputs[name].shape, shape)
            for name, shape in shapes.items()
        )

    def choose_outputs(self, wanted: Sequence[str]) -> list[str]:
        """Returns the requested output names, or all output names if none is requested.

        Raises:
            StatusError: An output is unknown or named twice.
        """
        known = sorted(self.definition.outputs)
        for number, name in enumerate(wanted):
            if name not in known:
                raise invalid(
                    f"output tensor alias not found in signature: {name} Outputs "
                    f"expected to be in the set {{{','.join(known)}}}."
                )
            if name in wanted[:number]:
                raise invalid(f"duplicate output tensor alias: {name}")
        # Sorted, since each order of fetches would be cached separately.
        return sorted(wanted) or known


def tensor_shape(tensor: meta_graph_pb2.TensorInfo) -> list[int | None] | None:
    """Returns a tensor's shape, None for unknown sizes or an unknown rank."""
    shape = tensor.tensor_shape
    if shape.unknown_rank:
        return None
    return [None if dim.size < 0 else dim.size for dim in shape.dim]


def _fits(found: Sequence[int], wanted: Sequence[int | None] | None) -> bool:
    """Returns True if a shape matches a spec, in which None is any size or shape."""
    return wanted is None or (
        len(found) == len(wanted)
        and all(size in (None, at) for size, at in zip(wanted, found, strict=True))
    )


def array_datatype(values: np.ndarray) -> int:
    """Returns the `DT_…` data type of an array."""
    if values.dtype.kind in "OSU":
        return types_pb2.DT_STRING
    return tf.as_dtype(values.dtype).as_datatype_enum
