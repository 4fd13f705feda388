"""TFLite files in the interpreter that phones have."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from transbeam.configs.base.errors import ArtifactError, DataError
from transbeam.configs.system.native_output import output_held_back


class TFLiteRunner:
    """A TFLite file in the interpreter that phones have.

    It takes texts up to the length that the file was made for. Some models could read
    longer ones; others would answer with whatever stands behind their table of
    positions.

    Args:
        file: The `.tflite` file, or what it holds.
        delegate: With XNNPACK, the default; or the builtin kernels alone, which a
            phone falls back to.
        resized: Whether texts are asked about as they are, which resizes the inputs
            that can be; or filled up to the shapes that the file has.
        num_threads: Of the interpreter.
    """

    def __init__(
        self,
        file: Path | bytes,
        *,
        delegate: bool = True,
        resized: bool = True,
        num_threads: int = 1,
    ):
        resolver = (
            OpResolverType.BUILTIN
            if delegate
            else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        )
        self.resized = resized
        self.where = "the TFLite file" if isinstance(file, bytes) else file.name
        with output_held_back():
            interpreter = Interpreter(
                **(
                    {"model_content": file}
                    if isinstance(file, bytes)
                    else {"model_path": str(file)}
                ),
                experimental_op_resolver_type=resolver,
                num_threads=num_threads,
            )
            self._runners = {
                name: interpreter.get_signature_runner(name)
                for name in interpreter.get_signature_list()
            }
            self._inputs = {
                name: runner.get_input_details()
                for name, runner in self._runners.items()
            }
            # The delegate is made, and announced, by the first call.
            for name, inputs in self._inputs.items():
                ones = {
                    n: np.ones(of["shape"], of["dtype"]) for n, of in inputs.items()
                }
                self.run(name, **ones)

    @property
    def signatures(self) -> list[str]:
        """Their names."""
        return list(self._runners)

    @property
    def is_resizable(self) -> bool:
        """Whether it takes texts of any length."""
        return any(
            -1 in of["shape_signature"]
            for inputs in self._inputs.values()
            for of in inputs.values()
        )

    def shapes(self, signature: str) -> dict[str, tuple[int, ...]]:
        """The shape of each input, with the axis of the batch."""
        inputs = self._inputs_of(signature)
        return {name: tuple(map(int, of["shape"])) for name, of in inputs.items()}

    def size(self, signature: str, name: str) -> int:
        """How many numbers an input holds, at most."""
        return int(self._inputs_of(signature)[name]["shape"][1])

    def ask(self, signature: str, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """A signature's answers for one text, each without the axis of the batch.

        Args:
            signature: Its name.
            **inputs: Rows (N,), not padded; none longer than the file has room for. Or
                images, all of their size.

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
        """A signature's answers to inputs in its own shapes and dtypes.

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
                    f"{inputs[name].shape}; expected {shape}{most}. Of "
                    "a longer text leave something out"
                )
        return self._runners[signature](**inputs)

    def ones(self, signature: str, length: int) -> dict[str, np.ndarray]:
        """A text of so many tokens, for who only wants to know how long it takes."""
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
        """What the file tells of a signature's inputs."""
        if signature not in self._inputs:
            raise ArtifactError(
                f"{self.where}: there is no signature {signature}; it has "
                f"{', '.join(self._inputs)}. Ask one of these, or another file"
            )
        return self._inputs[signature]

    def _named(self, signature: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The same, if all of them and no others are given."""
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
    """Whether sizes are a file's own or, where it can be resized, no larger.

    A file of others, whose converter was told no length, has 1 there and takes any.

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
