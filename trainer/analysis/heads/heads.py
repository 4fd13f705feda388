"""The part `heads` of an analysis: metrics of every attention head, with intervals."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.model import DecoderConfig
from transbeam.model.adaptation.head_pruning import attention_layers
from transbeam.model.inspect.attention_statistics import (
    OFFSETS,
    attention_statistics,
    check_options,
)
from transbeam.model.inspect.head_detectors import detect_heads, repeat_random_tokens
from transbeam.model.inspect.head_observation import layers_with_probabilities
from transbeam.model.layers.attention.low_rank import LowRankAttention
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext, TextBatch
from transbeam.trainer.analysis.base.analysis_part import AnalysisPart
from transbeam.trainer.analysis.heads.head_figures import (
    draw_entropy,
    draw_maps,
    draw_offsets,
)
from transbeam.trainer.analysis.heads.head_means import (
    HeadMean,
    TextSums,
    average_heads,
    means_by_text,
)
from transbeam.trainer.analysis.heads.token_classes import (
    TOKEN_CLASSES,
    classify_pieces,
)

# A head with this share of its weight at one offset is called positional; with this one
# on the tokens before or after a document, a begin or end head.
POSITIONAL_SHARE, BOUNDARY_SHARE = 0.8, 0.6
# Texts of repeated random tokens: 25 tokens, four times, as Olsson et al. have them.
_REPEATED_TEXTS, _REPEATED_TOKENS, _COPIES = 32, 25, 4


def analyze_heads(
    context: AnalysisContext,
    *,
    sparsity_threshold: float = 0.001,
    distant_tokens: int = 16,
    rare_quantile: float = 0.1,
) -> AnalysisPart:
    """Computes metrics of every attention head over texts.

    A metric of a text is the mean over its queries; that of a head is the mean over the
    texts, with a bootstrap interval of 95% over texts. The model runs once over the
    texts, and nothing but sums per text and head is kept. For decoders the scores of
    the detectors of repetition, on random tokens of the texts, repeated, are further
    metrics, whose texts are these.

    Args:
        context: The model and the texts.
        sparsity_threshold: Weights below are counted by the metric `sparsity`.
        distant_tokens: Keys further away are counted by the metric `distant`.
        rare_quantile: Share of the tokens that is rare; see `classify_pieces`.

    Returns:
        The part: tables `metrics` (layer, head, metric, mean, low, high, texts) and
        `offsets` (offset instead of metric), and the heads that stand out. See
        `attention_statistics` for the metrics, and `TOKEN_CLASSES` for the classes of
        keys.

    Raises:
        ConfigError: An option is out of range, or the model has no attention
            probabilities.
    """
    check_options(sparsity_threshold, distant_tokens)
    if not 0 <= rare_quantile <= 1:
        raise ConfigError(
            f"rare_quantile={rare_quantile}: expected 0 to 1, such as 0.1"
        )
    special = context.tokenizer.special
    end_class = None if special.end is None else TOKEN_CLASSES.index("end")
    pieces = classify_pieces(context.tokenizer, context.texts.rows, rare_quantile)

    def compute(inputs: Mapping[str, Any], classes: Mapping[str, Any]) -> Any:
        return attention_statistics(
            context.model,
            inputs,
            classes,
            sparsity_threshold=sparsity_threshold,
            distant_tokens=distant_tokens,
            end_class=end_class if classes else None,
        )

    sums = _sum_texts(context, pieces, compute)
    means = _average(sums, context.seed)
    notes = _explain_absences(context)
    if isinstance(context.config.model, DecoderConfig):
        detected, note = _detect(context)
        means += _average(detected, context.seed)
        notes += [note]
    metrics = _drop_absent_classes(means, special.begin, special.end)
    return AnalysisPart(
        name="heads",
        title="Attention heads",
        summary=summarize_heads(metrics),
        numbers=find_heads(metrics)
        | {
            "sparsity_threshold": sparsity_threshold,
            "distant_tokens": distant_tokens,
            "rare_quantile": rare_quantile,
            "texts": len(context.texts),
        },
        tables={
            "metrics": _make_table(metrics, "metric", str, pa.string()),
            "offsets": _make_table(metrics, "offset", int, pa.int32()),
        },
        figures=_draw(metrics),
        notes=tuple(notes),
    )


def _sum_texts(
    context: AnalysisContext, pieces: np.ndarray, compute: Callable[..., Any]
) -> TextSums:
    """Runs the model over all texts."""
    sums = TextSums(len(context.texts))
    traces: dict[Any, Any] = {}
    with context.console.progress("heads", len(context.texts), "texts") as bar:
        for batch in context.batches():
            arguments = (batch.inputs, _read_classes(batch, pieces))
            # One trace for each padded length; the number of texts is free.
            signature = tf.nest.map_structure(
                lambda x: tf.TensorSpec((None, *x.shape[1:]), x.dtype), arguments
            )
            key = str(signature)
            if key not in traces:
                traces[key] = tf.function(
                    compute, input_signature=signature, autograph=False
                )
            sums.add(batch.index, traces[key](*arguments))
            bar.advance(len(batch.index))
    return sums


def _read_classes(batch: TextBatch, pieces: np.ndarray) -> dict[str, np.ndarray]:
    """Looks up the classes of the tokens of each stack: (B, T, C)."""
    classes = {}
    for side in ("encoder", "decoder"):
        ids = batch.inputs.get(f"{side}_token_ids", batch.inputs.get("token_ids"))
        if ids is not None:
            classes[side] = pieces[ids]
    return classes


def _detect(context: AnalysisContext) -> tuple[TextSums, str]:
    """Detects induction heads on repeated random tokens."""
    tokenizer = context.tokenizer
    longest = context.config.model.max_sequence_length - 1
    # Of pieces that the training never had, a model has nothing to look for.
    pieces = np.concatenate([row["token_ids"] for row in context.texts.rows])
    known = np.intersect1d(pieces, tokenizer.ordinary_ids)
    if len(known) < _REPEATED_TOKENS:
        known = tokenizer.ordinary_ids
    length = min(_REPEATED_TOKENS, longest // _COPIES, len(known))
    ids = repeat_random_tokens(
        known,
        texts=_REPEATED_TEXTS,
        seed=context.seed,
        length=length,
        copies=_COPIES,
    )
    if tokenizer.special.begin is not None:
        ids = np.pad(ids, [(0, 0), (1, 0)], constant_values=tokenizer.special.begin)
    values = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    values["prefix_mask"] = np.zeros_like(ids)
    inputs = {name: values[name] for name in context.model.input}
    sums = TextSums(len(ids))
    sums.add(np.arange(len(ids)), detect_heads(context.model, inputs))
    note = (
        "previous_token, duplicate_token and induction are measured on "
        f"{len(ids)} texts of {length} random tokens, repeated {_COPIES} times, drawn "
        f"from {len(known):,} pieces"
    )
    return sums, note


def _average(sums: TextSums, seed: int) -> list[HeadMean]:
    return [
        mean
        for layer, found in sums.layers.items()
        for mean in average_heads(layer, means_by_text(found), seed)
    ]


def _drop_absent_classes(
    means: Sequence[HeadMean], begin: int | None, end: int | None
) -> list[HeadMean]:
    """Drops the shares of tokens that the tokenizer does not have."""
    absent = {name for name, x in (("begin", begin), ("end", end)) if x is None}
    return [mean for mean in means if mean.metric not in absent]


def _explain_absences(context: AnalysisContext) -> list[str]:
    """Says which layers lack which metrics, and why."""
    notes = []
    layers = attention_layers(context.model)
    readable = {layer.path for layer in layers_with_probabilities(context.model)}
    if without := [path for path in layers if path not in readable]:
        notes.append(
            f"{', '.join(without)}: no metrics; kernel attention computes no "
            "probabilities"
        )
    projected = [x for x, y in layers.items() if isinstance(y, LowRankAttention)]
    if projected:
        notes.append(
            f"{', '.join(projected)}: entropy and confidence only; low-rank attention "
            "attends to projections of the text, which have no position"
        )
    if crossing := [path for path in layers if path.endswith("cross_attention")]:
        notes.append(
            f"{', '.join(crossing)}: no distances and offsets, as keys and queries are "
            "of two texts; no induction scores in an encoder-decoder"
        )
    return notes


def _make_table(
    means: Sequence[HeadMean], column: str, kind: type, data_type: pa.DataType
) -> pa.Table:
    """Makes a table of the metrics whose name is a string, or an offset."""
    chosen = [mean for mean in means if isinstance(mean.metric, kind)]
    columns = {
        "layer": pa.array([mean.layer for mean in chosen], pa.string()),
        "head": pa.array([mean.head for mean in chosen], pa.int32()),
        column: pa.array([mean.metric for mean in chosen], data_type),
    }
    for number, name in enumerate(("mean", "low", "high")):
        ends = [mean.interval[number] for mean in chosen]
        columns[name] = pa.array(ends, pa.float64())
    columns["texts"] = pa.array([mean.texts for mean in chosen], pa.int64())
    return pa.table(columns)


def _draw(means: Sequence[HeadMean]) -> dict[str, Any]:
    figures = {"entropy": draw_entropy(means), "maps": draw_maps(means)}
    if any(mean.metric == 0 for mean in means):
        figures["offsets"] = draw_offsets(means)
    return figures


def find_heads(means: Sequence[HeadMean]) -> dict[str, Any]:
    """Lists the heads that stand out, the best first.

    Args:
        means: The means of all heads.

    Returns:
        `heads`, their number; `positional_heads`: with the offset that has most of
        their weight, at least `POSITIONAL_SHARE`; `begin_heads` and `end_heads`: with
        at least `BOUNDARY_SHARE` on these tokens; `induction_heads`: the five with the
        highest score.
    """
    best: dict[tuple[str, int], HeadMean] = {}
    for mean in means:
        if mean.metric in OFFSETS:
            head = (mean.layer, mean.head)
            if head not in best or best[head].mean < mean.mean:
                best[head] = mean
    induction = [x for x in means if x.metric == "induction"]
    positional = [x for x in best.values() if x.mean >= POSITIONAL_SHARE]
    found = {
        "heads": len({(mean.layer, mean.head) for mean in means}),
        "positional_heads": [
            {**_describe(mean), "offset": mean.metric} for mean in _sort(positional)
        ],
    }
    for name in ("begin", "end"):
        shares = [mean for mean in means if mean.metric == name]
        most = [mean for mean in _sort(shares) if mean.mean >= BOUNDARY_SHARE]
        if shares:
            found[f"{name}_heads"] = [_describe(mean) for mean in most]
    if induction:
        found["induction_heads"] = [_describe(mean) for mean in _sort(induction)[:5]]
    return found


def _sort(means: Sequence[HeadMean]) -> list[HeadMean]:
    return sorted(means, key=lambda mean: -mean.mean)


def _describe(mean: HeadMean) -> dict[str, Any]:
    score, low, high = mean.interval
    return {
        "layer": mean.layer,
        "head": mean.head,
        "share": score,
        "low": low,
        "high": high,
    }


def summarize_heads(means: Sequence[HeadMean]) -> str:
    """Summarizes how many heads stand out, in a sentence."""
    found = find_heads(means)
    beside = [x for x in found["positional_heads"] if x["offset"] in (-1, 1)]
    text = f"Of {found['heads']:,} heads, {len(beside)} put at least "
    text += f"{POSITIONAL_SHARE:.0%} of their weight on the previous or the next token"
    for name in ("begin", "end"):
        if f"{name}_heads" in found:
            number = len(found[f"{name}_heads"])
            text += f", {number} at least {BOUNDARY_SHARE:.0%} on {name} tokens"
    entropies = [mean.mean for mean in means if mean.metric == "entropy"]
    text += f"; the mean entropy is {np.mean(entropies):.2f} nats"
    if "induction_heads" in found:
        best = found["induction_heads"][0]
        text += (
            f"; the highest induction score is {best['share']:.2f}, of head "
            f"{best['head']} of {best['layer']}"
        )
    return f"{text}."
