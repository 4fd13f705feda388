"""The part `flow` of an analysis: rollout, maximum flow and Sankey diagrams."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pyarrow as pa

from transbeam.model.adaptation.head_pruning import attention_layers
from transbeam.model.inspect.flow.attention_flow import (
    MAX_TOKENS,
    attention_flow,
    divide_by_receptive_field,
    normalize_rows,
)
from transbeam.model.inspect.flow.attention_rollout import (
    attention_rollout,
    mean_with_residual,
)
from transbeam.model.inspect.flow.sankey_links import SankeyLinks, sankey_links
from transbeam.model.inspect.token_attention import read_visible_attention
from transbeam.model.layers.attention.cross import CrossAttention
from transbeam.trainer.analysis.base.analysis_context import (
    AnalysisContext,
    AnalyzedTexts,
)
from transbeam.trainer.analysis.base.analysis_part import AnalysisPart
from transbeam.trainer.analysis.flow.flow_figures import draw_sankey, draw_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class TextFlow:
    """Rollout and flow of one text in one stack.

    Attributes:
        text: The number of the text.
        stack: `encoder` or `decoder`.
        tokens: The pieces of the text.
        mixed: float32 (L, T, T). Means over heads with the residual connection.
        rollout: float32 (L, T, T). Rollout after each layer.
        flow: float64 (T, T). Flow of the last layer; rows sum to 1.
        fields: bool (L, T, T). The receptive fields after each layer: true where what
            a query attends to, through this layer and those before, has the key.
        links: The links of the text's Sankey diagram.
    """

    text: int
    stack: str
    tokens: tuple[str, ...]
    mixed: np.ndarray
    rollout: np.ndarray
    flow: np.ndarray
    fields: np.ndarray
    links: SankeyLinks


def analyze_flow(
    context: AnalysisContext,
    *,
    max_texts: int = 4,
    threshold: float = 0.05,
    top_k: int | None = 4,
) -> AnalysisPart:
    """Computes how far input tokens reach, along all paths of self-attention.

    Rollout and flow are computed for the first texts that are short enough; flow is a
    maximum flow for each pair of tokens, and takes seconds for a text. The stacks
    of an encoder-decoder are computed separately; cross-attention, which leads from
    one to the other, is in neither. For causal stacks see the column
    `by_receptive_field`: early tokens are seen by all later ones.

    Args:
        context: The model and the texts.
        max_texts: Largest number of texts.
        threshold: The smallest weight of a Sankey diagram's link.
        top_k: The largest number of links from a token of a layer; None for all.

    Returns:
        The part: tables `rollout` (of all layers), `flow` (of the last layer) and
        `links`, each with text, stack, layer, query, key, their tokens, and weight;
        figures of the first text of each stack. A stack without weights for each pair
        of tokens has only a note.

    Raises:
        ConfigError: An option is out of range, or the model has no attention
            probabilities.
    """
    sankey_links(np.zeros((1, 1, 1)), threshold, top_k)  # checks before the model runs
    chosen, notes = choose_texts(context.texts, max_texts)
    flows: list[TextFlow] = []
    with context.console.progress("flow", len(chosen), "texts") as bar:
        for number in chosen:
            found, reasons = _compute(context, number, threshold, top_k)
            flows += found
            notes += [reason for reason in reasons if reason not in notes]
            bar.advance()
    return AnalysisPart(
        name="flow",
        title="Attention rollout and flow",
        summary=_summarize(flows),
        numbers={
            "texts": [int(number) for number in chosen],
            "threshold": threshold,
            "top_k": top_k,
            "most_received": [_find_most_received(flow) for flow in flows],
        },
        tables=_make_tables(flows),
        figures=_draw(flows),
        notes=tuple(notes),
    )


def choose_texts(texts: AnalyzedTexts, most: int) -> tuple[list[int], list[str]]:
    """Chooses the first texts that are short enough for flow.

    Returns:
        The numbers of the texts, and a note on those that are too long.
    """
    lengths = [
        max(
            (len(x) for name, x in row.items() if name.endswith("token_ids")), default=0
        )
        for row in texts.rows
    ]
    short = [
        number for number, length in enumerate(lengths) if 0 < length <= MAX_TOKENS
    ]
    notes = []
    if too_long := sum(length > MAX_TOKENS for length in lengths):
        notes.append(
            f"{too_long:,} of {len(lengths):,} texts have more than {MAX_TOKENS} "
            "tokens and are left out: flow takes a maximum flow for each pair of tokens"
        )
    if lengths and max(lengths) == 0:
        notes.append("rollout and flow are computed for texts, and these are images")
    return short[:most], notes


def _compute(
    context: AnalysisContext, number: int, threshold: float, top_k: int | None
) -> tuple[list[TextFlow], list[str]]:
    """Computes rollout and flow of one text, for each stack of the model."""
    one = AnalyzedTexts("one", (context.texts.rows[number],))
    longest = context.config.model.max_sequence_length
    (batch,) = one.batches(context.model, longest=longest)
    layers, others = _mix_layers(context.model, batch.inputs)
    reasons = [
        f"no rollout through {layer}: low-rank attention has no weights of tokens"
        for layer in others
    ]
    flows = []
    for stack, (mixed, fields) in layers.items():
        if any(layer.startswith(stack) for layer in others):
            continue
        ids = one.rows[0].get(f"{stack}_token_ids", one.rows[0].get("token_ids"))
        assert ids is not None
        own = _cut(mixed, len(ids))
        flows.append(
            TextFlow(
                number,
                stack,
                tuple(context.tokenizer.pieces[i] for i in ids),
                own,
                _cut(list(attention_rollout(mixed)), len(ids)),
                normalize_rows(attention_flow(own)),
                fields[:, : len(ids), : len(ids)],
                sankey_links(own, threshold, top_k),
            )
        )
    return flows, reasons


def _cut(layers: Sequence[Any], size: int) -> np.ndarray:
    """Stacks the only text of each layer, without padding: (L, T, T)."""
    return np.stack([np.asarray(layer)[0, :size, :size] for layer in layers])


def _mix_layers(
    model: keras.Model, inputs: Mapping[str, Any]
) -> tuple[dict[str, tuple[list[Any], np.ndarray]], list[str]]:
    """Averages the heads of each layer of self-attention, by stack.

    Returns:
        The layers' weights with the residual connection, and the receptive fields
        after each layer, bool (L, T, T); and the names of the layers whose weights are
        not of tokens.
    """
    mixed: dict[str, list[Any]] = {}
    fields: dict[str, list[np.ndarray]] = {}
    seen = read_visible_attention(model, inputs)
    layers = [
        path
        for path, layer in attention_layers(model).items()
        if not isinstance(layer, CrossAttention)
    ]
    for path in layers:
        if path not in seen:
            continue
        stack = path.partition("_")[0]
        mask = inputs.get(f"{stack}_padding_mask", inputs.get("padding_mask"))
        weights, shown = seen[path]
        mixed.setdefault(stack, []).append(mean_with_residual(weights, mask))
        own = np.eye(shown.shape[-1], dtype=bool)
        before = fields.setdefault(stack, [])
        reached = np.asarray(shown)[0].any(axis=0) | own
        before.append(reached @ (before[-1] if before else own))
    others = [path for path in layers if path not in seen]
    found = {stack: (mixed[stack], np.stack(fields[stack])) for stack in mixed}
    return found, others


def _find_most_received(flow: TextFlow) -> dict[str, Any]:
    """Returns the input token that reaches the tokens of the last layer most."""
    found: dict[str, Any] = {"text": flow.text, "stack": flow.stack}
    for name, weights in (("rollout", flow.rollout[-1]), ("flow", flow.flow)):
        received = weights.mean(axis=0)
        key = int(received.argmax())
        found[name] = {
            "key": key,
            "key_token": flow.tokens[key],
            "weight": round(float(received[key]), 4),
        }
    return found


def _summarize(flows: Sequence[TextFlow]) -> str:
    if not flows:
        return "No text has rollout or flow."
    first = _find_most_received(flows[0])
    texts = len({flow.text for flow in flows})
    return (
        f"Rollout and flow of {texts} texts. In text {first['text']} the last layer "
        f"of the {first['stack']} receives most of {first['rollout']['key_token']} by "
        f"rollout ({first['rollout']['weight']:.2f} on average), and most of "
        f"{first['flow']['key_token']} by flow ({first['flow']['weight']:.2f})."
    )


def _make_tables(flows: Sequence[TextFlow]) -> dict[str, pa.Table]:
    if not flows:
        return {}
    rollouts, last, links = [], [], []
    for flow in flows:
        layers = range(len(flow.rollout))
        rollouts += [_tabulate(flow, layer, flow.rollout[layer]) for layer in layers]
        last.append(_tabulate(flow, layers[-1], flow.flow))
        chosen = flow.links
        links.append(_columns(flow, chosen.layer, chosen.query, chosen.key))
        links[-1]["weight"] = chosen.weight
    return {
        name: pa.concat_tables([pa.table(columns) for columns in tables])
        for name, tables in (("rollout", rollouts), ("flow", last), ("links", links))
    }


def _tabulate(flow: TextFlow, layer: int, weights: np.ndarray) -> dict[str, Any]:
    """Returns the columns of a layer's pairs of a token and one that reaches it."""
    query, key = np.nonzero(flow.fields[layer])
    columns = _columns(flow, np.full(len(query), layer), query, key)
    divided = divide_by_receptive_field(weights, flow.fields[layer])
    for name, values in (("weight", weights), ("by_receptive_field", divided)):
        columns[name] = values[query, key].astype(np.float32)
    return columns


def _columns(
    flow: TextFlow, layer: np.ndarray, query: np.ndarray, key: np.ndarray
) -> dict[str, Any]:
    tokens = np.array(flow.tokens, object)
    return {
        "text": np.full(len(query), flow.text),
        "stack": pa.array([flow.stack] * len(query), pa.string()),
        "layer": layer.astype(np.int32),
        "query": query.astype(np.int32),
        "key": key.astype(np.int32),
        "query_token": pa.array(tokens[query], pa.string()),
        "key_token": pa.array(tokens[key], pa.string()),
    }


def _draw(flows: Sequence[TextFlow]) -> "dict[str, Figure]":
    """Draws the first text of each stack."""
    first: dict[str, TextFlow] = {}
    for flow in flows:
        first.setdefault(flow.stack, flow)
    figures = {}
    for stack, flow in first.items():
        figures[f"{stack}_rollout"] = draw_weights(
            {"rollout": flow.rollout[-1], "flow": flow.flow}, flow.tokens
        )
        figures[f"{stack}_sankey"] = draw_sankey(
            flow.links, len(flow.mixed), flow.tokens
        )
    return figures
