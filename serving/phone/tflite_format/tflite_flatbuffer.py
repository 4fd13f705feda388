"""TFLite files as data: what ops they use, and what shapes they say they have."""

from collections.abc import Iterator, Mapping
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from ai_edge_litert.tools.flatbuffer_utils import opcode_to_name

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.system.native_output import output_held_back

# In a file made the wrong way these stand where the weights should be, and the
# interpreter answers with whatever its memory holds.
VARIABLE_OPS = frozenset({"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"})

_IDENTIFIER = b"TFL3"
_ALIGNMENT = 16  # bytes


def ops_of(content: bytes) -> tuple[set[str], set[str]]:
    """The builtin ops that a model uses, and those that are none of TFLite's own."""
    model = unpacked(content)
    codes = model.operatorCodes
    custom = {code.customCode.decode() for code in codes if code.customCode}
    builtin = {str(opcode_to_name(model, number)) for number in range(len(codes))}
    return builtin - {"CUSTOM"}, custom


def check_flatbuffer(
    content: bytes, where: str, allowed: frozenset[str] = frozenset()
) -> None:
    """Makes sure that the plain interpreter can run a TFLite model as it is.

    Args:
        content: The model.
        where: Names it in messages.
        allowed: Ops that it may use beside TFLite's own.

    Raises:
        ArtifactError: It has an op outside TFLite's own, or variables in place of
            weights.
    """
    builtin, custom = ops_of(content)
    if refused := sorted((custom - allowed) | (builtin & VARIABLE_OPS)):
        raise ArtifactError(
            f"{where}: uses {', '.join(refused)}; expected TFLite's builtin ops only, "
            "and weights as constants. Write the layer with other ops"
        )


def with_shapes(
    content: bytes, sizes: Mapping[str, Mapping[str, tuple[int, ...]]]
) -> bytes:
    """The same model, whose tensors have certain shapes until they are resized.

    The converter writes 1 for a size that may change. Then a program that does not
    resize reads texts of one token, and runtimes that plan their memory from the file
    plan for that. With all shapes written down, a file is one of fixed shapes to those,
    and can still be resized by others.

    Args:
        content: The model.
        sizes: The shape of each input of each signature.

    Returns:
        The model with the shape that each tensor has then.
    """
    model = unpacked(content)
    interpreter = Interpreter(
        model_content=content,
        # A delegate would swallow the tensors between its ops.
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    with output_held_back():
        for signature, shapes in sizes.items():
            runner: Any = interpreter.get_signature_runner(signature)
            dtypes = runner.get_input_details()
            runner(**{n: np.zeros(s, dtypes[n]["dtype"]) for n, s in shapes.items()})
            number = runner._subgraph_index
            found: list[Any] = interpreter.get_tensor_details(number)
            tensors = model.subgraphs[number].tensors
            for detail in found:
                # Behind those of the file stand the scratch tensors of the kernels.
                if detail["index"] < len(tensors):
                    tensors[detail["index"]].shape = detail["shape"].astype(np.int32)
    return packed(model)


def products_with_tables(content: bytes) -> set[str]:
    """The tensors that are products with a table which embeddings are looked up in.

    Such as the scores of a masked language model, whose table is both.
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


def operators(model: Any, name: str) -> Iterator[tuple[int, Any, Any]]:
    """The ops of a kind, each with its subgraph and the subgraph's number.

    Args:
        model: Of the schema's object API.
        name: Of the builtin op, such as `FULLY_CONNECTED`.
    """
    for number, graph in enumerate(model.subgraphs):
        for operator in graph.operators:
            if opcode_to_name(model, operator.opcodeIndex) == name:
                yield number, graph, operator


def unpacked(content: bytes | bytearray) -> Any:
    """A file as a model of the schema's object API, with all it holds inside.

    The quantizer may put weights behind the flatbuffer, at places that it tells; older
    runtimes do not look there.
    """
    model: Any = schema.ModelT.InitFromPackedBuf(content, 0)
    for buffer in model.buffers:
        if buffer.offset > 1:
            end = buffer.offset + buffer.size
            buffer.data = np.frombuffer(content[buffer.offset : end], np.uint8)
            buffer.offset = buffer.size = 0
    return model


def packed(model: Any) -> bytes:
    """A model of the schema's object API as a file.

    Weights stand at multiples of 16 bytes, as the schema asks; the converter and the
    quantizer leave that to chance.
    """
    builder = _AlignedBuilder(1 << 20)
    builder.Finish(model.Pack(builder), _IDENTIFIER)
    return bytes(builder.Output())


class _AlignedBuilder(flatbuffers.Builder):
    """Writes buffers where the schema wants them; the package knows no such wish."""

    def CreateNumpyVector(self, x: np.ndarray) -> int:
        if x.dtype != np.uint8:
            return super().CreateNumpyVector(x)
        self.Prep(_ALIGNMENT, len(x))
        return self.CreateByteVector(x.tobytes())
