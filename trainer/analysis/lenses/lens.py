"""The part `lens` of an analysis: what the layers predict, read with a lens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from transbeam.configs.base.errors import ConfigError
from transbeam.model.inspect.logit_lens import POSITIONS, LensModel, apply_logit_lens
from transbeam.trainer.analysis.base.analysis_context import (
    AnalysisContext,
    AnalyzedTexts,
)
from transbeam.trainer.analysis.base.analysis_part import AnalysisPart
from transbeam.trainer.analysis.base.piece_labels import label_pieces
from transbeam.trainer.analysis.lenses.lens_figures import (
    draw_divergences,
    draw_predictions,
)
from transbeam.trainer.analysis.lenses.lens_texts import make_lens_batches
from transbeam.trainer.analysis.lenses.tuned_lens import (
    LensQuality,
    TunedLens,
    train_tuned_lens,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAME, _TITLE = "lens", "Logit lens"
_LOGIT, _TUNED = "logit lens", "tuned lens"
# Positions in the figure of predictions.
_SHOWN = 12
# Every fifth text is held out; lenses are compared on these.
_HELD_OUT = 5
# Tokens in a batch: as many rows of logits are held in memory.
_TOKENS = 1024


def analyze_lens(
    context: AnalysisContext,
    *,
    tuned: bool = True,
    text: int = 0,
    steps: int = 250,
    seconds: float = 300.0,
) -> AnalysisPart:
    """Reads predictions from the hidden states of every layer.

    Args:
        context: The model and the texts.
        tuned: Also train a tuned lens, on four fifths of the texts; both lenses are
            compared on the others. With one text only, there is no tuned lens.
        text: The number of the text whose predictions are shown.
        steps: Number of steps of the training.
        seconds: Time after which the training ends before its last step.

    Returns:
        The part; without numbers for a model that has no logits over its vocabulary.

    Raises:
        ConfigError: There is no such text.
    """
    check_text(context.texts, text)
    try:
        lens = LensModel(context.model)
    except ConfigError as error:
        return AnalysisPart(
            name=_NAME, title=_TITLE, summary="Does not apply.", notes=(str(error),)
        )
    compared = _compare(context, lens, steps if tuned else 0, seconds)
    if not compared.qualities[_LOGIT].count:
        note = "The texts have no token that could be masked and predicted."
        return AnalysisPart(
            name=_NAME, title=_TITLE, summary="Does not apply.", notes=(note,)
        )
    columns = _tabulate(lens.layers, compared.qualities)
    tables, figures = _read_text(context, lens, text)
    divergences = {
        name: quality.divergences for name, quality in compared.qualities.items()
    }
    return AnalysisPart(
        name=_NAME,
        title=_TITLE,
        summary=_summarize(lens.layers, compared.qualities),
        numbers={
            "predictions": compared.qualities[_LOGIT].count,
            "layers": {name: np.array(x).tolist() for name, x in columns.items()},
        },
        tables={"layers": pa.table(columns), **tables},
        figures={"divergence": draw_divergences(divergences, lens.layers), **figures},
        weights=compared.weights,
        notes=compared.notes,
    )


def check_text(texts: AnalyzedTexts, text: int) -> None:
    """Checks that there is a text with a number.

    Raises:
        ConfigError: There is none.
    """
    if not 0 <= text < len(texts):
        raise ConfigError(
            f"text={text}: there are {len(texts)} texts of {texts.name}, from 0"
        )


@dataclass(frozen=True)
class _Comparison:
    qualities: Mapping[str, LensQuality]
    weights: Mapping[str, Mapping[str, np.ndarray]]
    notes: tuple[str, ...]


def _compare(
    context: AnalysisContext, lens: LensModel, steps: int, seconds: float
) -> _Comparison:
    """Measures the logit lens, and trains and measures a tuned lens.

    Args:
        context: The texts.
        lens: The model.
        steps: Number of steps; without any there is no tuned lens.
        seconds: See `analyze_lens`.
    """
    texts = context.texts
    held_out = replace(texts, rows=texts.rows[::_HELD_OUT])
    rows = [row for index, row in enumerate(texts.rows) if index % _HELD_OUT]
    batches = make_lens_batches(context, held_out, _TOKENS)
    qualities = {_LOGIT: TunedLens(lens).measure(batches)}
    if not steps:
        return _Comparison(qualities, {}, ())
    if not rows:
        note = (
            "No tuned lens: it is trained on some texts and compared on others, and "
            "there is one text only."
        )
        return _Comparison(qualities, {}, (note,))
    training = make_lens_batches(context, replace(texts, rows=tuple(rows)), _TOKENS)
    with context.console.progress("tuned lens", steps, "steps") as bar:
        tuned, taken = train_tuned_lens(
            lens,
            training,
            steps=steps,
            seconds=seconds,
            seed=context.seed,
            advance=bar.set,
        )
    notes = []
    if taken < steps:
        notes.append(
            f"The tuned lens was trained for {taken} of {steps} steps, as its "
            f"{seconds:g} seconds were over."
        )
    qualities[_TUNED] = tuned.measure(batches)
    worse = np.flatnonzero(
        qualities[_TUNED].divergences > qualities[_LOGIT].divergences
    ).tolist()
    if worse:
        tuned.reset(worse)
        qualities[_TUNED] = tuned.measure(batches)
        notes.append(
            "The tuned lens was worse than the logit lens on held-out texts, and was "
            f"made equal to it, at: {', '.join(lens.layers[i] for i in worse)}."
        )
    return _Comparison(qualities, {"tuned": tuned.weights()}, tuple(notes))


def _read_text(
    context: AnalysisContext, lens: LensModel, text: int
) -> tuple[dict[str, pa.Table], "dict[str, Figure]"]:
    """Reads the predictions of one text: of all positions; the last ones are drawn."""
    texts = replace(context.texts, rows=context.texts.rows[text : text + 1])
    layers = np.array(lens.layers, object)
    batches = make_lens_batches(context, texts, _TOKENS)
    if not batches:  # an encoder's text without a token to mask
        return {}, {}
    batch = batches[0]
    found, cells = apply_logit_lens(lens, batch.inputs), batch.cells
    token_ids = batch.inputs.get("decoder_token_ids", batch.inputs.get("token_ids"))
    assert token_ids is not None
    masked = batch.inputs.get(POSITIONS)
    positions = cells if masked is None else masked[0][cells]
    read = token_ids[0][positions]

    def take(values: np.ndarray) -> np.ndarray:  # (layers, 1, P, …) of the text's cells
        return values[:, 0, cells]

    top_ids, probabilities = take(found.top_ids), take(found.top_probabilities)
    pieces = np.array(context.tokenizer.pieces, object)
    shape = top_ids.shape[:2]
    table = pa.table(
        {
            "layer": layers.repeat(shape[1]),
            "depth": np.arange(len(layers), dtype="int32").repeat(shape[1]),
            "position": np.tile(positions.astype("int32"), len(layers)),
            "token": np.tile(pieces[read], len(layers)),
            "predicted": list(pieces[top_ids].reshape(-1, top_ids.shape[-1])),
            "probability": list(probabilities.reshape(-1, top_ids.shape[-1])),
            "target": np.tile(pieces[top_ids[-1, :, 0]], len(layers)),
            "target_probability": take(found.target_probabilities).ravel(),
            "target_rank": take(found.target_ranks).ravel(),
            "divergence": take(found.divergences).ravel(),
        }
    )
    figure = draw_predictions(
        [label_pieces(context.tokenizer, row[-_SHOWN:, 0]) for row in top_ids],
        probabilities[:, -_SHOWN:, 0],
        lens.layers,
        label_pieces(context.tokenizer, read[-_SHOWN:]),
    )
    return {"predictions": table}, {"predictions": figure}


def _tabulate(
    layers: Sequence[str], qualities: Mapping[str, LensQuality]
) -> dict[str, Any]:
    """Returns the columns of the table of layers."""
    columns: dict[str, Any] = {
        "layer": list(layers),
        "depth": np.arange(len(layers), dtype="int32"),
    }
    for name, quality in qualities.items():
        column = name.replace(" ", "_")
        columns[f"{column}_divergence"] = quality.divergences
        columns[f"{column}_agreement"] = quality.agreements
    return columns


def _summarize(layers: Sequence[str], qualities: Mapping[str, LensQuality]) -> str:
    """Says where the predictions are formed."""
    quality = qualities[_LOGIT]
    most = np.flatnonzero(quality.agreements >= 0.5)[0]
    text = (
        f"Read at {layers[most]}, the most probable token is the model's own in "
        f"{quality.agreements[most]:.0%} of {quality.count:,} predictions, for the "
        "first time in more than half of them."
    )
    if _TUNED in qualities:
        means = [x.divergences[:-1].mean() for x in qualities.values()]
        text += (
            " The mean divergence from the model's predictions over the layers before "
            f"the last is {means[0]:.2f} nats for the logit lens and {means[1]:.2f} "
            "for the tuned lens."
        )
    return text
