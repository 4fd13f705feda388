"""The interface of the parity checkers."""

from typing import Any, Protocol

from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.parity.base.parity_checks import ParityCheck
from transbeam.serving.runtimes.saved_model import AskTexts


class ParityChecker(Protocol):
    """Computes reference outputs with Keras and compares exported models with them.

    Keras runs on each text separately, without padding, and without the code of the
    exported signatures.
    """

    def saved_model_rows(self, form: str, ask: AskTexts) -> list[ParityCheck]:
        """Compares a SavedModel, called on all texts in one batch, with Keras."""
        ...

    def phone_rows(
        self, form: str, variant: str, model: TFLiteRunner
    ) -> list[ParityCheck]:
        """Compares a TFLite file, called on one text at a time, with Keras."""
        ...

    def ask_once(self, ask: AskTexts) -> Any:
        """Runs a SavedModel on one text, for latency measurements."""
        ...

    def ask_phone_once(self, model: TFLiteRunner) -> Any:
        """Runs a TFLite file on one text, for latency measurements."""
        ...

    @property
    def size(self) -> int:
        """The number of compared inputs."""
        ...
