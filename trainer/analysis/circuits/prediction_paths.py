"""The prediction of an attention-only decoder as a sum over paths through its heads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pyarrow as pa

from transbeam.model.inspect.path_expansion import HeadPath, expand_paths
from transbeam.trainer.analysis.circuits.circuit_figures import draw_contributions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMED = 3


@dataclass(frozen=True)
class PredictionPaths:
    """The difference of two logits as a sum over paths.

    Attributes:
        paths: The paths; None for the term of all biases.
        contributions: float `(P,)`, the term of each path.
    """

    paths: Sequence[HeadPath | None]
    contributions: np.ndarray

    def summarize(self) -> str:
        """Names the direct path and the paths with the largest terms."""
        labels = self._label_paths()
        largest = np.argsort(-np.abs(self.contributions), kind="stable")[:_NAMED]
        named = ", ".join(
            f"{labels[index]} ({self.contributions[index]:+.2f})" for index in largest
        )
        direct = self.contributions[list(self.paths).index(())]
        return (
            f"It is the sum of {len(self.paths) - 1} paths through the heads: "
            f"{direct:+.2f} by the direct path, and the largest terms by {named}."
        )

    def tabulate(self) -> pa.Table:
        """Returns a table with a row for each path.

        `heads` is the number of heads on a path; null for what biases add.
        """
        return pa.table(
            {
                "path": self._label_paths(),
                "heads": pa.array(
                    [None if path is None else len(path) for path in self.paths],
                    pa.int32(),
                ),
                "contribution": self.contributions,
            }
        )

    def draw(self, meaning: str) -> "Figure":
        """Draws the largest terms.

        Args:
            meaning: Description of the difference of logits.
        """
        return draw_contributions(self._label_paths(), self.contributions, meaning)

    def _label_paths(self) -> list[str]:
        return [label_path(path) for path in self.paths]


def expand_prediction(
    model: keras.Model,
    inputs: Mapping[str, Any],
    position: int,
    predicted: int,
    against: int,
) -> PredictionPaths:
    """Computes the terms of all paths in the difference of two logits.

    Args:
        model: An attention-only decoder; see `expand_paths`.
        inputs: The model's inputs, of one text.
        position: The position at which the tokens are predicted.
        predicted: The id of the token with the higher logit.
        against: The id of the other.

    Raises:
        ConfigError: The model is of another kind, or has too many paths.
    """
    paths, terms = [], []
    for path, logits in expand_paths(model, inputs).at(position).logits():
        row = keras.ops.convert_to_numpy(logits)[0, 0]
        paths.append(path)
        terms.append(float(row[predicted]) - float(row[against]))
    return PredictionPaths(paths, np.array(terms))


def label_path(path: HeadPath | None) -> str:
    """Returns the text of a path: the layer and the head of each of its heads.

    Args:
        path: The path.

    Example:
    >>> [label_path(path) for path in (None, (), ((0, 3),), ((0, 3), (1, 5)))]
    ['biases', 'direct', '0.3', '0.3 > 1.5']
    """
    if path is None:
        return "biases"
    return " > ".join(f"{layer}.{head}" for layer, head in path) or "direct"
