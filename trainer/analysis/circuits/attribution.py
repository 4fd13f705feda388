"""The prediction of one text's next token, attributed to the parts of the model."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import keras
import numpy as np
import pyarrow as pa

from transbeam.configs.base.errors import ConfigError
from transbeam.model.inspect.logit_attribution import (
    LogitAttribution,
    attribute_logits,
    find_linear_stack,
)
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.base.piece_labels import label_pieces
from transbeam.trainer.analysis.circuits.circuit_figures import draw_contributions
from transbeam.trainer.analysis.circuits.prediction_paths import (
    PredictionPaths,
    expand_prediction,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class AttributedPrediction:
    """A prediction: the most probable token against the second.

    Attributes:
        predicted: The piece of the most probable token.
        against: The piece of the second.
        position: The position in the text at which they are predicted.
        attribution: The difference of their logits, and its parts: one row.
        paths: The same as a sum over paths, of an attention-only model.
        notes: The reason why an attention-only model has no paths here.
    """

    predicted: str
    against: str
    position: int
    attribution: LogitAttribution
    paths: PredictionPaths | None = None
    notes: tuple[str, ...] = ()

    @property
    def difference(self) -> float:
        """The difference of the logits."""
        return float(self.attribution.logits[0])

    def summarize(self, text: int) -> str:
        """Names the parts with the largest contributions."""
        values = self.attribution.contributions[0]
        largest = sorted(range(len(values)), key=lambda index: -abs(values[index]))[:3]
        labels = self._label_parts()
        named = ", ".join(
            f"{labels[index]} ({values[index]:+.2f})" for index in largest
        )
        sentence = (
            f"In text {text}, after token {self.position}, the logit of "
            f"{self.predicted!r} is {self.difference:.2f} above that of "
            f"{self.against!r}; the largest contributions are of {named}."
        )
        if self.paths is None:
            return sentence
        return f"{sentence} {self.paths.summarize()}"

    def tabulate(self) -> pa.Table:
        """Returns a table with a row for each part; `head` is null where it is none."""
        parts = self.attribution.parts
        return pa.table(
            {
                "layer": [part.layer for part in parts],
                "head": pa.array(
                    [part.head if part.head >= 0 else None for part in parts],
                    pa.int32(),
                ),
                "contribution": self.attribution.contributions[0],
            }
        )

    def draw(self) -> "Figure":
        """Draws the contributions."""
        return draw_contributions(
            self._label_parts(), self.attribution.contributions[0], self._meaning
        )

    def draw_paths(self) -> "Figure":
        """Draws the terms of the paths."""
        assert self.paths is not None
        return self.paths.draw(self._meaning)

    @property
    def _meaning(self) -> str:
        return (
            f"contribution to the logit of {self.predicted!r} less that of "
            f"{self.against!r}"
        )

    def _label_parts(self) -> list[str]:
        return [
            part.layer if part.head < 0 else f"{part.layer} {part.head}"
            for part in self.attribution.parts
        ]


def attribute_prediction(
    context: AnalysisContext, text: int, position: int | None = None
) -> AttributedPrediction:
    """Attributes the next token after a position of a text.

    Args:
        context: The model and the texts.
        text: The number of the text.
        position: The position; None for the last one before special tokens at the end.

    Raises:
        ConfigError: There is no such position; or see `attribute_logits`.
    """
    stack = find_linear_stack(context.model)
    row = context.texts.rows[text]
    length = len(row["token_ids"])
    if position is None:
        position = _find_last(row["token_ids"], context.tokenizer)
    if not 0 <= position < length:
        raise ConfigError(
            f"position={position}: text {text} has {length} tokens, from 0"
        )
    one = replace(context.texts, rows=(row,))
    longest = context.config.model.max_sequence_length
    (batch,) = one.batches(context.model, context.max_tokens, longest)
    outputs = context.model(batch.inputs, training=False)
    logits = keras.ops.convert_to_numpy(outputs["logits"])[0, position]
    second, first = np.argsort(logits)[-2:]
    found = attribute_logits(context.model, batch.inputs, [position], [first], [second])
    predicted, against = label_pieces(context.tokenizer, (first, second))
    prediction = AttributedPrediction(predicted, against, position, found)
    if any(block.feedforward is not None for block in stack.blocks):
        return prediction
    try:
        paths = expand_prediction(context.model, batch.inputs, position, first, second)
    except ConfigError as error:
        return replace(prediction, notes=(f"No paths: {error}.",))
    return replace(prediction, paths=paths)


def _find_last(token_ids: np.ndarray, tokenizer: Tokenizer) -> int:
    """Returns the position of the last token that is not special, or 0.

    Args:
        token_ids: int `(T,)`.
        tokenizer: The tokenizer.
    """
    ordinary = np.flatnonzero(np.isin(token_ids, tokenizer.ordinary_ids))
    return int(ordinary[-1]) if len(ordinary) else 0
