"""Reads and modifies TFLite flatbuffers: ops, shapes and buffers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.tools.flatbuffer_utils import opcode_to_name

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.system.native_output import output_on_error
from transbeam.pipeline.runtimes.litert_interpreter import load_interpreter

# In a file from a wrong conversion these ops replace the weights, and the interpreter
# returns uninitialized memory.
VARIABLE_OPS = frozenset({"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"})

_IDENTIFIER = b"TFL3"
_ALIGNMENT = 16  # bytes


def list_ops(content: bytes) -> tuple[set[str], set[str]]:
    """The builtin ops that a model uses, and its custom ops."""
    model = unpacked(content)
    codes = model.operatorCodes
    custom = {code.customCode.decode() for code in codes if code.customCode}
    builtin = {str(opcode_to_name(model, number)) for number in range(len(codes))}
    return builtin - {"CUSTOM"}, custom


def check_flatbuffer(
    content: bytes, where: str, allowed: frozenset[str] = frozenset()
) -> None:
    """Checks that the plain interpreter can run a TFLite model.

    Args:
        content: The model.
        where: The model's name in messages.
        allowed: Custom ops that the model may use.

    Raises:
        ArtifactError: The model uses custom ops that are not allowed, or has variables
            in place of weights.
    """
    builtin, custom = list_ops(content)
    if refused := sorted((custom - allowed) | (builtin & VARIABLE_OPS)):
        raise ArtifactError(
            f"{where}: uses {', '.join(refused)}; expected TFLite's builtin ops only, "
            "and weights as constants. Write the layer with other ops"
        )


def with_shapes(
    content: bytes, sizes: Mapping[str, Mapping[str, tuple[int, ...]]]
) -> bytes:
    """Sets the initial shapes of resizable tensors.

    The converter writes 1 for a dynamic size. As a result, a program that does not
    resize inputs processes texts of one token, and runtimes that plan memory from the
    file plan for that length. With initial shapes set, such programs and runtimes treat
    all shapes as fixed, and other programs can still resize the inputs.

    Args:
        content: The model.
        sizes: The shape of each input of each signature.

    Returns:
        The model with the resulting shape of each tensor.
    """
    model = unpacked(content)
    # A delegate would hide the tensors between its ops.
    interpreter = load_interpreter(content, delegate=False)
    with output_on_error():
        for signature, shapes in sizes.items():
            runner: Any = interpreter.get_signature_runner(signature)
            dtypes = runner.get_input_details()
            runner(**{n: np.zeros(s, dtypes[n]["dtype"]) for n, s in shapes.items()})
            number = runner._subgraph_index
            found: list[Any] = interpreter.get_tensor_details(number)
            tensors = model.subgraphs[number].tensors
            for detail in found:
                # The scratch tensors of kernels follow those of the file.
                if detail["index"] < len(tensors):
                    tensors[detail["index"]].shape = detail["shape"].astype(np.int32)
    return packed(model)


def products_with_tables(content: bytes) -> set[str]:
    """Returns the outputs of matrix products that share an embedding table.

    An example is the logits of a masked language model with tied embeddings.
    """
    model = unpacked(content)
    tables = {
        graph.tensors[operator.inputs[1]].buffer
        for _, graph, operator in operators(model, "EMBEDDING_LOOKUP")
    }
    return {
        graph.tensors[operator.outputs[0]].name.decode()
        for _, graph, operator in operators(model, "FULLY_CONNECTED")
        if graph.tensors[operator.inputs[1]].buffer in tables
    }


def run_with_tensors(
    content: bytes,
    inputs: Mapping[str, Sequence[Mapping[str, np.ndarray]]],
    num_threads: int = 1,
) -> Iterator[tuple[int, Callable[[int], np.ndarray]]]:
    """Runs each signature of a model on its inputs.

    Args:
        content: The model.
        inputs: Inputs of each signature.
        num_threads: Threads of the interpreter.

    Returns:
        An iterator over the runs. Each item is the index of the signature's subgraph,
        and a function that returns a tensor of this subgraph by index.
    """
    interpreter = load_interpreter(
        content, delegate=False, num_threads=num_threads, keeps_all_tensors=True
    )
    model = schema.Model.GetRootAsModel(content, 0)
    signatures = [model.SignatureDefs(n) for n in range(model.SignatureDefsLength())]
    names: list[Any] = [signature.SignatureKey().decode() for signature in signatures]
    with output_on_error():
        runners = {name: interpreter.get_signature_runner(name) for name in names}

    def runs() -> Iterator[tuple[int, Callable[[int], np.ndarray]]]:
        for name, runner in runners.items():
            graph = runner._subgraph_index
            for each in inputs[name]:
                runner(**each)
                yield graph, partial(interpreter.get_tensor, subgraph_index=graph)

    return runs()


def operators(model: Any, name: str) -> Iterator[tuple[int, Any, Any]]:
    """Yields the ops of a kind, each with its subgraph and the subgraph's index.

    Args:
        model: Model in the schema's object API.
        name: Name of the builtin op, such as `FULLY_CONNECTED`.
    """
    for number, graph in enumerate(model.subgraphs):
        for operator in graph.operators:
            if opcode_to_name(model, operator.opcodeIndex) == name:
                yield number, graph, operator


def unpacked(content: bytes | bytearray) -> Any:
    """Parses a file to a model of the schema's object API, with all buffers inline.

    The quantizer may store weights after the flatbuffer, at given offsets; older
    runtimes do not support this.
    """
    model: Any = schema.ModelT.InitFromPackedBuf(content, 0)
    for buffer in model.buffers:
        if buffer.offset > 1:
            end = buffer.offset + buffer.size
            buffer.data = np.frombuffer(content[buffer.offset : end], np.uint8)
            buffer.offset = buffer.size = 0
    return model


def packed(model: Any) -> bytes:
    """Serializes a model of the schema's object API.

    Weights are aligned to 16 bytes, as the schema requires; the converter and the
    quantizer do not ensure that.
    """
    builder = _AlignedBuilder(1 << 20)
    builder.Finish(model.Pack(builder), _IDENTIFIER)
    return bytes(builder.Output())


class _AlignedBuilder(flatbuffers.Builder):
    """A flatbuffer builder that aligns buffers, unlike TFLite's generated code."""

    def CreateNumpyVector(self, x: np.ndarray) -> int:
        if x.dtype != np.uint8:
            return super().CreateNumpyVector(x)
        self.Prep(_ALIGNMENT, len(x))
        return self.CreateByteVector(x.tobytes())
