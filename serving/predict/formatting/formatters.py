"""Finds the formatter of a prediction by the outputs of its signature."""

from collections.abc import Mapping
from typing import Any, Protocol

from transbeam.serving.predict.formatting import (
    classification,
    embedding,
    generation,
    masked,
    regression,
    span_corruption,
    span_qa,
    token_classification,
)


class Formatter(Protocol):
    """The interface of the formatter modules in this folder."""

    @property
    def KEY(self) -> str:
        """A key of its predictions that later formatters in `FORMATTERS` do not use."""
        ...

    @property
    def OUTPUTS(self) -> tuple[frozenset[str], ...]:
        """The sets of output names that the formatter supports, without `truncated`."""
        ...

    def read(self, text: str, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Converts the outputs for one input to JSON."""
        ...

    def lines(self, prediction: Mapping[str, Any]) -> list[str]:
        """Formats a prediction as lines of text."""
        ...


# An answer in a text has a score too, and filled gaps are generated.
FORMATTERS: tuple[Formatter, ...] = (
    masked,
    classification,
    token_classification,
    span_corruption,
    generation,
    span_qa,
    embedding,
    regression,
)


def formatter_of_outputs(outputs: frozenset[str]) -> Formatter | None:
    """Returns the formatter for a signature's outputs, or None.

    Example:
    >>> formatter_of_outputs(frozenset({"score", "truncated"})) is regression
    True
    """
    named = outputs - {"truncated"}
    return next((f for f in FORMATTERS if named in f.OUTPUTS), None)


def prediction_lines(prediction: Mapping[str, Any]) -> list[str]:
    """Formats a prediction of any kind as lines of text."""
    return next(f for f in FORMATTERS if f.KEY in prediction).lines(prediction)
