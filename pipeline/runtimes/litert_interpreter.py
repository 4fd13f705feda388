"""Runs TFLite files in the LiteRT interpreter."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import InterpreterWithCustomOps, OpResolverType

from transbeam.configs.base.errors import ArtifactError, DataError
from transbeam.configs.system.native_output import output_on_error


def load_interpreter(
    file: Path | bytes,
    *,
    delegate: bool = True,
    num_threads: int = 1,
    custom_ops: Sequence[Any] = (),
    keeps_all_tensors: bool = False,
) -> InterpreterWithCustomOps:
    """Loads a TFLite file in the LiteRT interpreter, without its log messages.

    Args:
        file: The file, or its contents.
        delegate: Whether to use the XNNPACK delegate instead of the builtin kernels.
        num_threads: The number of threads of the interpreter.
        custom_ops: Functions that register the ops of other libraries.
        keeps_all_tensors: Whether `get_tensor` may read intermediate tensors.

    Raises:
        ArtifactError: The file is not a TFLite model that the interpreter can run.
    """
    model = (
        {"model_content": file}
        if isinstance(file, bytes)
        else {"model_path": str(file)}
    )
    resolver = (
        OpResolverType.BUILTIN
        if delegate
        else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    try:
        with output_on_error():
            return InterpreterWithCustomOps(
                custom_op_registerers=list(custom_ops),
                experimental_op_resolver_type=resolver,
                experimental_preserve_all_tensors=keeps_all_tensors,
                num_threads=num_threads,
                **model,
            )
    except (OSError, ValueError, RuntimeError) as error:
        where = "the TFLite file" if isinstance(file, bytes) else file
        raise ArtifactError(
            f"{where}: cannot be read as a TFLite model: {error}. Remove "
            "it, then export it again"
        ) from error


class TFLiteRunner:
    """Runs the signatures of a TFLite file in the LiteRT interpreter.

    Accepts texts up to the length that the file was converted for. Some models could
    process longer texts; other models would read beyond the end of the table of
    position embeddings.

    Args:
        file: The `.tflite` file, or its contents.
        delegate: Whether to use the XNNPACK delegate, the default, instead of the
            builtin kernels, the fallback on phones.
        resized: Whether resizable inputs are resized to the length of each text;
            otherwise texts are padded to the shapes in the file.
        num_threads: The number of threads of the interpreter.
        custom_ops: Functions that register the ops of other libraries.

    Raises:
        ArtifactError: The file is not a TFLite model that the interpreter can run.
    """

    def __init__(
        self,
        file: Path | bytes,
        *,
        delegate: bool = True,
        resized: bool = True,
        num_threads: int = 1,
        custom_ops: Sequence[Any] = (),
    ):
        self.resized = resized
        self.where = "the TFLite file" if isinstance(file, bytes) else file.name
        interpreter = load_interpreter(
            file, delegate=delegate, num_threads=num_threads, custom_ops=custom_ops
        )
        with output_on_error():
            self._runners = {
                name: interpreter.get_signature_runner(name)
                for name in interpreter.get_signature_list()
            }
        self._inputs = {
            name: runner.get_input_details() for name, runner in self._runners.items()
        }
        self._called: set[str] = set()

    @property
    def signatures(self) -> list[str]:
        """The names of the signatures."""
        return list(self._runners)

    @property
    def is_resizable(self) -> bool:
        """True if any input can be resized to the length of a text."""
        return any(
            -1 in of["shape_signature"]
            for inputs in self._inputs.values()
            for of in inputs.values()
        )

    def shapes(self, signature: str) -> dict[str, tuple[int, ...]]:
        """Returns the shape of each input, including the batch axis."""
        inputs = self._inputs_of(signature)
        return {name: tuple(map(int, of["shape"])) for name, of in inputs.items()}

    def size(self, signature: str, name: str) -> int:
        """Returns the size of an input's second axis, its maximum length."""
        return int(self._inputs_of(signature)[name]["shape"][1])

    def ask(self, signature: str, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Runs a signature on one text and returns outputs without the batch axis.

        Args:
            signature: Its name.
            **inputs: Token rows (N,) without padding, none longer than the input's
                size; or images of exactly the input's size.

        Raises:
            ArtifactError: As `run`.
            DataError: As `run`.
        """
        rows = {}
        for name, of in self._named(signature, inputs).items():
            row = np.asarray(inputs[name])
            if row.ndim == 1 and not self._takes_any_length(signature, name):
                room = self.size(signature, name) - len(row)
                row = np.pad(row, (0, max(room, 0)))
            rows[name] = row[np.newaxis].astype(of["dtype"])
        answers = self.run(signature, **rows)
        return {name: answer[0] for name, answer in answers.items()}

    def run(self, signature: str, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Runs a signature on inputs that have its shapes and dtypes.

        Raises:
            ArtifactError: The file has no such signature.
            DataError: An input is missing, unknown, too long or of another shape.
        """
        for name, of in self._named(signature, inputs).items():
            shape, signs = tuple(map(int, of["shape"])), of["shape_signature"]
            if not _fits(inputs[name].shape, shape, signs):
                most = ", at most" if -1 in signs else ""
                raise DataError(
                    f"{self.where}: {name} of {signature} has the shape "
                    f"{inputs[name].shape}; expected {shape}{most}. "
                    "Shorten a longer text"
                )
        # The first call creates the delegate, which logs a message.
        quiet = nullcontext() if signature in self._called else output_on_error()
        self._called.add(signature)
        with quiet:
            return self._runners[signature](**inputs)

    def ones(self, signature: str, length: int) -> dict[str, np.ndarray]:
        """Returns inputs of ones with a given number of tokens, to measure latency."""
        return {
            name: np.ones(
                (1, length, *of["shape"][2:])
                if self._takes_any_length(signature, name)
                else of["shape"],
                of["dtype"],
            )
            for name, of in self._inputs_of(signature).items()
        }

    def _inputs_of(self, signature: str) -> dict[str, Any]:
        """Returns the interpreter's input details of a signature."""
        if signature not in self._inputs:
            raise ArtifactError(
                f"{self.where}: there is no signature {signature}; it has "
                f"{', '.join(self._inputs)}. Use one of these, or another file"
            )
        return self._inputs[signature]

    def _named(self, signature: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the input details if exactly the expected inputs are given."""
        known = self._inputs_of(signature)
        if inputs.keys() != known.keys():
            raise DataError(
                f"{self.where}: {signature} was given "
                f"{', '.join(inputs) or 'nothing'}; expected {', '.join(known)}. Give "
                "all of these, and no others"
            )
        return known

    def _takes_any_length(self, signature: str, name: str) -> bool:
        signs = self._inputs[signature][name]["shape_signature"]
        return self.resized and len(signs) > 1 and signs[1] < 0


def _fits(shape: Sequence[int], own: Sequence[int], signs: Sequence[int]) -> bool:
    """Returns whether a shape is the file's or, on resizable axes, smaller.

    In third-party files that were converted without a length, resizable axes have the
    length 1 and accept any length.

    Example:
    >>> [_fits((1, size), (1, 8), (1, -1)) for size in (3, 8, 9)]
    [True, True, False]
    >>> _fits((1, 9), (1, 1), (1, -1))
    True
    """
    return len(shape) == len(own) and all(
        size == most or (sign < 0 and (most == 1 or 0 < size < most))
        for size, most, sign in zip(shape, own, signs, strict=True)
    )
