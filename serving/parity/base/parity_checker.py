"""What the gate has to know of a task."""

from typing import Any, Protocol

from transbeam.serving.parity.base.parity_checks import ParityCheck
from transbeam.serving.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.runtimes.saved_model import AskTexts


class Judge(Protocol):
    """Knows what Keras answers to some texts, and holds other answers against that.

    Keras is asked about each text alone, without padding, and without the code of the
    signatures.
    """

    def saved_model_rows(self, form: str, ask: AskTexts) -> list[ParityCheck]:
        """Comparisons with a SavedModel, which is asked about all texts at once."""
        ...

    def phone_rows(
        self, form: str, variant: str, model: TFLiteRunner
    ) -> list[ParityCheck]:
        """Comparisons with a TFLite file, asked about each text."""
        ...

    def ask_once(self, ask: AskTexts) -> Any:
        """Asks a SavedModel about one text, for its time."""
        ...

    def ask_phone_once(self, model: TFLiteRunner) -> Any:
        """Asks a TFLite file about one text, for its time."""
        ...

    @property
    def size(self) -> int:
        """How many texts there are."""
        ...
