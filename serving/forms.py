"""The exported files as the programs that will use them see them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from configs.held_back import output_held_back

# By their inputs' names: texts, files, or numbers.
Texts = Mapping[str, Sequence[str] | Sequence[bytes] | np.ndarray]
# Signature and texts → outputs by name.
AskTexts = Callable[[str, Texts], Mapping[str, np.ndarray]]


def ask_saved_model(folder: Path) -> AskTexts:
    """A SavedModel, loaded as Python programs do."""
    signatures = tf.saved_model.load(str(folder)).signatures

    def ask(signature: str, texts: Texts) -> Mapping[str, np.ndarray]:
        function = signatures[signature]
        specs = function.structured_input_signature[1]
        inputs = {
            name: tf.constant(of, specs[name].dtype) for name, of in texts.items()
        }
        answers = function(**inputs)
        return {name: value.numpy() for name, value in answers.items()}

    return ask


class PhoneModel:
    """A TFLite file in the interpreter that phones have.

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
        inputs = self._inputs[signature]
        return {name: tuple(map(int, of["shape"])) for name, of in inputs.items()}

    def size(self, signature: str, name: str) -> int:
        """How many numbers an input holds that is not resized."""
        return int(self._inputs[signature][name]["shape"][1])

    def ask(self, signature: str, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """A signature's answers for one text, each without the axis of the batch.

        Args:
            signature: Its name.
            **inputs: Rows (N,), not padded; at most `size` long. Or images, all of
                their size.
        """
        rows = {}
        for name, row in inputs.items():
            if not self._takes_any_length(signature, name):
                ends = [(0, 0)] * row.ndim
                ends[0] = 0, self.size(signature, name) - len(row)
                row = np.pad(row, ends)
            rows[name] = row[np.newaxis].astype(self._inputs[signature][name]["dtype"])
        answers = self.run(signature, **rows)
        return {name: answer[0] for name, answer in answers.items()}

    def run(self, signature: str, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """A signature's answers to inputs in its own shapes and dtypes."""
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
            for name, of in self._inputs[signature].items()
        }

    def _takes_any_length(self, signature: str, name: str) -> bool:
        signs = self._inputs[signature][name]["shape_signature"]
        return self.resized and len(signs) > 1 and signs[1] < 0
