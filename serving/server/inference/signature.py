"""What a signature takes and gives, and whether a request fits it."""

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
from transbeam.serving.server.protocol.json_requests import InputSpec
from transbeam.serving.server.protocol.json_tensors import to_json, type_name
from transbeam.serving.server.protocol.logit_biases import json_of_object
from transbeam.serving.server.protocol.stop_lists import STOP, json_of_list

DEFAULT = "serving_default"
# What a client may send as more than the one text that the graph takes.
_FORMS = {STOP: json_of_list, "logit_bias": json_of_object}


@dataclass(frozen=True)
class ServableSignature:
    """One signature, by the names clients use.

    Attributes:
        name: Of itself.
        definition: As the SavedModel has it.
    """

    name: str
    definition: meta_graph_pb2.SignatureDef

    @property
    def dtypes(self) -> dict[str, int]:
        """The type of each input."""
        inputs = self.definition.inputs
        return {name: inputs[name].dtype for name in sorted(inputs)}

    @cached_property
    def defaults(self) -> dict[str, np.ndarray]:
        """Values of inputs that a request leaves out, by their names."""
        defaults = self.definition.defaults
        return {name: tf.make_ndarray(defaults[name]) for name in sorted(defaults)}

    @cached_property
    def forms(self) -> dict[str, Callable[[Any], Any]]:
        """Readers of JSON, for inputs of a signature that writes texts."""
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
        """Inputs that a request in JSON may bring."""
        rows = {
            name: to_json(value)[0]
            for name, value in self.defaults.items()
            if self._is_of_rows(name)
        }
        return InputSpec(self.dtypes, rows, self.forms)

    def completed(self, inputs: Arrays) -> Arrays:
        """With defaults for what is left out, one in each row.

        Raises:
            Failure: An input without a default is left out, or one is unknown.
        """
        missing = self.defaults.keys() - inputs.keys()
        # More inputs than there are is the first that is looked at.
        if not missing or len(inputs) > len(self.definition.inputs):
            return inputs
        self._check_names(inputs)
        rows = max((len(v) for v in inputs.values() if v.ndim), default=1)
        added = {
            name: np.repeat(self.defaults[name], rows, axis=0)
            if self._is_of_rows(name)
            else self.defaults[name]
            for name in sorted(missing)
        }
        return {**inputs, **added}

    def _check_names(self, inputs: Arrays) -> None:
        """Refuses what TensorFlow refuses where a signature has defaults."""
        known, sent = self.definition.inputs.keys(), ",".join(sorted(inputs))
        for name in sorted(known - inputs.keys() - self.defaults.keys()):
            raise invalid(
                f"Signature input alias: {name} not found in request and no default "
                f"value provided. Inputs expected to be in the request {{{sent}}}, or "
                f"default input alias set: {','.join(self.defaults)}"
            )
        if inputs.keys() - known:
            used = ",".join(sorted(inputs.keys() & known))
            raise invalid(
                f"Inputs contains invalid name. Used request inputs: {used}, request "
                f"input: {sent}"
            )

    def _is_of_rows(self, name: str) -> bool:
        """Tells if a default is for one row of many."""
        free = (self.shape(name) or [0])[0] is None
        return free and self.defaults[name].shape[:1] == (1,)

    def shape(self, name: str) -> list[int | None] | None:
        """What is known of an input's shape; nothing if not even its rank."""
        return shape_of(self.definition.inputs[name])

    def check_inputs(self, inputs: Arrays) -> None:
        """Makes sure that inputs can be fed.

        Shapes are not looked at: TF Serving hands every tensor on as it is, and what
        the graph cannot digest it refuses itself.

        Raises:
            Failure: One is missing, unknown, or of another type.
        """
        dtypes = self.dtypes
        if inputs.keys() != dtypes.keys():
            sent, known = sorted(inputs), sorted(dtypes)
            extra = ",".join(sorted(inputs.keys() - dtypes.keys()))
            missing = ",".join(sorted(dtypes.keys() - inputs.keys()))
            raise invalid(
                f"input size does not match signature: {len(sent)}!={len(known)} "
                f"len({{{','.join(sent)}}}) != len({{{','.join(known)}}}). Sent extra: "
                f"{{{extra}}}. Missing but required: {{{missing}}}."
            )
        for number, (name, dtype) in enumerate(dtypes.items()):
            found = datatype_of(inputs[name])
            if found != dtype:
                raise invalid(
                    f"Input {name}: Expects arg[{number}] to be {type_name(dtype)} but "
                    f"{type_name(found)} is provided"
                )

    def check_shapes(self, inputs: Arrays) -> None:
        """Makes sure that inputs are of the shapes that the signature names.

        Raises:
            Failure: One is not.
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
        """Tells if inputs have a row for each thing to predict.

        Only then may they share a batch with others', or be cut up: of inputs of
        another shape than the signature names nobody knows where a row ends.
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
        """The outputs that a request names; all of them if it names none.

        Raises:
            Failure: One is unknown, or named twice.
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
        # In one order, or each would be prepared anew.
        return sorted(wanted) or known


def shape_of(tensor: meta_graph_pb2.TensorInfo) -> list[int | None] | None:
    """What is known of a tensor's shape; nothing if not even its rank."""
    shape = tensor.tensor_shape
    if shape.unknown_rank:
        return None
    return [None if dim.size < 0 else dim.size for dim in shape.dim]


def _fits(found: Sequence[int], wanted: Sequence[int | None] | None) -> bool:
    """Tells if a shape is one of those that are wanted; nothing known fits all."""
    return wanted is None or (
        len(found) == len(wanted)
        and all(size in (None, at) for size, at in zip(wanted, found, strict=True))
    )


def datatype_of(values: np.ndarray) -> int:
    """The type of an array, as `DT_…`."""
    if values.dtype.kind in "OSU":
        return types_pb2.DT_STRING
    return tf.as_dtype(values.dtype).as_datatype_enum
