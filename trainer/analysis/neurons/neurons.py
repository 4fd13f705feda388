"""The part `neurons` of an analysis: texts that activate units, and what they favor."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from transbeam.configs.base.errors import ConfigError
from transbeam.model.inspect.linear_head import LinearHead
from transbeam.model.inspect.neurons import (
    ValueTokens,
    feedforward_layers,
    read_value_tokens,
)
from transbeam.model.layers.feedforward import GatedFeedForward
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.base.analysis_part import AnalysisPart
from transbeam.trainer.analysis.neurons.unit_agreement import (
    Agreement,
    average_shares,
    measure_agreement,
)
from transbeam.trainer.analysis.neurons.unit_statistics import (
    LayerUnits,
    collect_units,
    is_decoder,
)
from transbeam.trainer.analysis.neurons.unit_tables import (
    draw_units,
    tabulate_layers,
    tabulate_triggers,
    tabulate_units,
)
from transbeam.trainer.analysis.vectors.occurrences import token_rows
from transbeam.trainer.metrics.confidence_intervals import Interval

_NAME, _TITLE = "neurons", "Feed-forward units"
_TOKENS = 10  # that a value vector favors
_PER_LAYER = 5


def analyze_neurons(
    context: AnalysisContext,
    *,
    units: Sequence[tuple[str, int]] = (),
    top: int = 25,
) -> AnalysisPart:
    """Finds the texts that activate feed-forward units most, and the tokens they favor.

    All units are measured. Shown are those that are asked for; or five of each layer,
    whose largest activations are most standard deviations above their mean.

    Args:
        context: The model and the texts.
        units: Layers and units, such as `("encoder_layer_0/feedforward", 7)`.
        top: Number of texts for each unit.

    Returns:
        The part; without numbers for a model without feed-forward layers, or of images.

    Raises:
        ConfigError: There is no such layer or unit, or `top` is not positive.

    References:
        - [Geva et al., 2021](https://arxiv.org/abs/2012.14913), sections 3 and 4
    """
    layers = feedforward_layers(context.model)
    if not layers:
        return _explain("The model has no feed-forward layers.")
    if not any(name.endswith("token_ids") for name in context.model.input):
        return _explain("The model reads images, and a unit is shown by texts.")
    _check(context, units, top)
    found = collect_units(context, top)
    if not any(layer.tokens for layer in found.values()):
        return _explain("The texts have no ordinary token.")
    values, notes = _read_values(context)
    agreements = {
        path: measure_agreement(
            found[path], token_rows(context, decoder=True), tokens, context.seed
        )
        for path, tokens in values.items()
    }
    active = {
        path: average_shares(layer.shares, context.seed)
        for path, layer in found.items()
    }
    chosen = list(units) or _choose(found)
    if any(isinstance(layer, GatedFeedForward) for layer in layers.values()):
        notes.append(
            "Units of gated layers are products of two projections: one with a "
            "negative product counts as not active, though it has an effect"
        )
    notes.append(
        "An activation above 0 is active. Special tokens do not count. Of a text, the "
        "token with the largest activation is the trigger"
    )
    return AnalysisPart(
        name=_NAME,
        title=_TITLE,
        summary=_summarize(active, agreements),
        numbers={
            path: _describe(interval, agreements.get(path))
            for path, interval in active.items()
            if found[path].tokens
        },
        tables={
            "layers": tabulate_layers(found, active, agreements),
            "units": tabulate_units(context, chosen, found, values, agreements),
            "triggers": tabulate_triggers(context, chosen, found),
        },
        figures={"depth": draw_units(active, agreements)},
        notes=tuple(notes),
    )


def _explain(note: str) -> AnalysisPart:
    return AnalysisPart(
        name=_NAME, title=_TITLE, summary="Does not apply.", notes=(note,)
    )


def _check(
    context: AnalysisContext, units: Sequence[tuple[str, int]], top: int
) -> None:
    layers = feedforward_layers(context.model)
    if top < 1:
        raise ConfigError(f"top={top}: expected a number of texts, such as 25")
    for path, unit in units:
        if path not in layers:
            raise ConfigError(
                f"units: found the layer {path!r}; the model has {', '.join(layers)}"
            )
        number = layers[path].intermediate_dim
        if not 0 <= unit < number:
            raise ConfigError(
                f"units: found unit {unit} of {path}, which has {number}, from 0"
            )


def _read_values(
    context: AnalysisContext,
) -> tuple[dict[str, ValueTokens], list[str]]:
    """Reads the tokens that the units of a decoder favor; else explains why not."""
    try:
        head = LinearHead.from_model(context.model)
        return {
            path: read_value_tokens(layer, head, _TOKENS)
            for path, layer in feedforward_layers(context.model).items()
            if is_decoder(path)
        }, []
    except ConfigError as error:
        return {}, [f"Favored tokens and agreement: left out, as {error}"]


def _choose(found: Mapping[str, LayerUnits]) -> list[tuple[str, int]]:
    """Chooses the strongest units of each layer."""
    return [
        (path, int(unit))
        for path, layer in found.items()
        for unit in np.argsort(-layer.strengths, kind="stable")[:_PER_LAYER]
    ]


def _describe(active: Interval, agreement: Agreement | None) -> dict[str, Any]:
    """Returns the numbers of a layer, as JSON values."""
    numbers: dict[str, Any] = {"active": active._asdict()}
    if agreement is not None and agreement.counted.any():
        numbers["agreement"] = agreement.share._asdict()
        numbers["agreement_baseline"] = agreement.baseline
    return numbers


def _summarize(
    active: Mapping[str, Interval], agreements: Mapping[str, Agreement]
) -> str:
    scores = [x.score for x in active.values() if np.isfinite(x.score)]
    text = (
        f"A token activates {min(scores):.0%} to {max(scores):.0%} of a layer's units"
    )
    counted = [path for path, x in agreements.items() if x.counted.any()]
    if counted:
        last = counted[-1]
        agreement = agreements[last]
        text += (
            f"; in {last} the token that a unit favors follows its strongest trigger "
            f"for {agreement.share.score:.1%} of the units (by chance "
            f"{agreement.baseline:.1%})"
        )
    return f"{text}."
