"""Scores of heads for roles: numbers from 0 to 1, each beside a baseline."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from transbeam.model.adaptation.head_pruning import attention_layers
from transbeam.model.inspect.attention_maps import attention_probabilities
from transbeam.model.inspect.head_roles import (
    RoleSums,
    compare_vectors,
    make_reference_heads,
    sum_role_statistics,
)
from transbeam.model.layers.attention.full import MultiHeadAttention
from transbeam.model.layers.masks import attention_mask
from transbeam.trainer.analysis.base.analysis_context import (
    AnalysisContext,
    AnalyzedTexts,
)
from transbeam.trainer.analysis.syntax.coreference_cases import make_coreference_cases
from transbeam.trainer.analysis.syntax.relation_scores import (
    ALL,
    PUNCTUATION,
    RelationCounts,
    RelationScore,
)
from transbeam.trainer.analysis.syntax.syntax import score_relations, tokenize_treebank
from transbeam.trainer.analysis.syntax.word_texts import (
    HeadName,
    list_heads,
    make_word_reader,
    read_word_maps,
    specify_inputs,
    tokenize_words,
)
from transbeam.trainer.metrics.confidence_intervals import Interval, intervals

POSITIONAL, LONG_RANGE, DELIMITER = "positional", "long range", "delimiter"
SEMANTIC, SYNTACTIC, COREFERENCE = "semantic", "syntactic", "coreference"
TEXT_ROLES = (POSITIONAL, LONG_RANGE, DELIMITER, SEMANTIC)
ROLES = (POSITIONAL, SYNTACTIC, COREFERENCE, SEMANTIC, LONG_RANGE, DELIMITER)

FAR = 8  # tokens
OFFSETS = tuple(offset for offset in range(-FAR, FAR + 1) if offset)
# Ranks of weights are sorted for each query of each head.
_MOST_TEXTS, _MOST_TOKENS = 200, 2048
_CHANCE = 0.5  # of two nouns
# Sums that each head has its own of.
_BY_HEAD = ("offset", "distant", "delimiter", "first", "semantic", "semantic_queries")
_UNIFORM, _NEAR = -2, -1  # the reference heads, behind the model's


@dataclass(frozen=True)
class RoleScore:
    """The score of a head for a role.

    Attributes:
        role: One of `ROLES`.
        name: The head.
        score: The score, from 0 to 1, with its interval.
        baseline: The score without the role, on the same texts.
        detail: What the score is of, such as an offset or a relation, or empty.
    """

    role: str
    name: HeadName
    score: Interval
    baseline: float
    detail: str

    @property
    def is_found(self) -> bool:
        """True if the interval is above the baseline."""
        return self.score.low > self.baseline


def score_text_roles(context: AnalysisContext) -> list[RoleScore]:
    """Scores what can be seen in any texts: positions, delimiters, similarity.

    - Positional: mean weight at the best fixed offset of 1 to 8 tokens, of the queries
      that can attend there. Baseline: uniform weights.
    - Long range: mean weight of the text's tokens that are more than 8 tokens away, of
      the queries that have such. Baseline: uniform weights.
    - Delimiter: mean weight of special tokens and the first token; the detail says how
      much of it the first token has. Baseline: uniform weights.
    - Semantic: mean rank correlation of a query's weights with the cosine similarity of
      the tokens' embeddings, without itself; 0 if negative. Baseline: that of weights
      which fall with the distance.

    Args:
        context: The model and its texts, of which at most 200 are read.

    Returns:
        The scores of heads of full attention: in the windows of others, the baselines
        are not those of the text.
    """
    heads = _list_full_heads(context.model)
    if not heads:
        return []
    sums = _sum_texts(context)
    seed = context.seed
    per_offset = sums.offset_queries[:, None]  # (texts, 1, K)
    with np.errstate(invalid="ignore"):
        shares = sums.offset.sum(axis=0) / per_offset.sum(axis=0)  # (heads + 2, K)
    best = np.argmax(np.nan_to_num(shares, nan=-1.0), axis=1)
    positional = _ratio_intervals(
        np.take_along_axis(sums.offset, best[None, :, None], axis=2)[..., 0],
        sums.offset_queries[:, best],
        seed,
    )
    scores = [
        RoleScore(
            POSITIONAL,
            name,
            end,
            float(shares[_UNIFORM, offset]),
            f"offset {OFFSETS[offset]:+d}",
        )
        for name, end, offset in zip(heads, positional, best, strict=False)
    ]
    first = sums.first.sum(axis=0) / np.maximum(sums.delimiter.sum(axis=0), 1e-9)
    far = [f"beyond {FAR} tokens"] * len(heads)
    on_first = [f"{share:.0%} on the first" for share in first]
    for role, values, queries, reference, details in (
        (LONG_RANGE, sums.distant, sums.distant_queries, _UNIFORM, far),
        (DELIMITER, sums.delimiter, sums.queries, _UNIFORM, on_first),
        (SEMANTIC, sums.semantic, sums.semantic_queries, _NEAR, [""] * len(heads)),
    ):
        queries = np.broadcast_to(queries.reshape(len(values), -1), values.shape)
        ends = [_clip(end) for end in _ratio_intervals(values, queries, seed)]
        scores += [
            RoleScore(role, name, end, ends[reference].score, detail)
            for name, end, detail in zip(heads, ends, details, strict=False)
        ]
    return [score for score in scores if np.isfinite(score.score.score)]


def score_coreference(context: AnalysisContext) -> list[RoleScore]:
    """Scores the share of pronouns that attend more to their antecedent.

    The sentences are English, made by template, and the other noun is a distractor; see
    `transbeam.trainer.analysis.syntax.coreference_cases`. Baseline: one half, which is
    exactly what the nearest or the first noun gets. Intervals are over sentences with
    both of their pronouns.

    Args:
        context: The model; its texts are not used.

    Returns:
        The scores; none if the tokenizer does not know the words.
    """
    heads, cases = list_heads(context.model), make_coreference_cases()
    words = tokenize_words(
        context,
        [case.text for case in cases],
        [case.offsets for case in cases],
        COREFERENCE,
    )
    is_right = np.zeros((len(cases), len(heads)))
    read = make_word_reader(context.model)
    for maps in read_word_maps(context, words, read, COREFERENCE):
        numbers = [words.kept[number] for number in maps.index]
        more = np.sign(maps.words[:, :, 0, 1] - maps.words[:, :, 0, 2])
        is_right[numbers] = (1 + more) / 2  # equal weights are half right
    if len(words.kept) < len(cases) or _has_unknown(context, words.texts):
        return []
    frames = np.array([case.frame for case in cases])
    sums = np.zeros((frames.max() + 1, len(heads)))
    np.add.at(sums, frames, is_right)
    ends = _ratio_intervals(sums, np.full_like(sums, 2.0), context.seed)
    return [
        RoleScore(COREFERENCE, name, end, _CHANCE, f"{len(cases)} pronouns")
        for name, end in zip(heads, ends, strict=True)
    ]


def score_syntactic(context: AnalysisContext, treebank: Path) -> list[RoleScore]:
    """Scores the largest gain of each head over the best offset, of all relations.

    The ends of the interval are conservative: those of the accuracy minus the opposite
    ends of the baseline's.

    Args:
        context: The model; its texts are not used.
        treebank: See `transbeam.trainer.analysis.syntax.analyze_syntax`.

    Raises:
        DataError: The treebank cannot be read or has too few words.
    """
    heads = list_heads(context.model)
    sentences, words = tokenize_treebank(context, treebank)
    counts = RelationCounts(sentences, words.memberships)
    read = make_word_reader(context.model)
    for maps in read_word_maps(context, words, read, "relations"):
        counts.add(maps)
    best: dict[HeadName, RelationScore] = {}
    for score in score_relations(counts, heads, treebank, context.seed):
        if score.relation not in (ALL, PUNCTUATION):
            held = best.setdefault(score.name, score)
            if score.gain > held.gain:
                best[score.name] = score
    return [_as_role(best[name]) for name in heads if name in best]


def _as_role(score: RelationScore) -> RoleScore:
    accuracy, baseline = score.accuracy, score.baseline
    gain = Interval(
        score.gain, accuracy.low - baseline.high, accuracy.high - baseline.low
    )
    detail = f"{score.relation}, attends {score.direction} its head"
    if score.direction == "by":
        detail = f"{score.relation}, attended to by its head"
    return RoleScore(SYNTACTIC, score.name, _clip(gain), 0.0, detail)


def _list_full_heads(model: keras.Model) -> list[HeadName]:
    layers = attention_layers(model)
    return [
        name
        for name in list_heads(model)
        if isinstance(layers[name.layer], MultiHeadAttention)
    ]


def _sum_texts(context: AnalysisContext) -> RoleSums:
    """Sums the statistics of each text; the reference heads are the last."""
    number, model = len(context.texts), context.model
    chosen = np.random.default_rng(context.seed).permutation(number)[:_MOST_TEXTS]
    rows = tuple(context.texts.rows[index] for index in chosen.tolist())
    texts = AnalyzedTexts(context.texts.name, rows)
    longest = context.config.model.max_sequence_length
    read, parts = _make_reader(context), []
    with context.console.progress("roles", len(rows), "text") as bar:
        for batch in texts.batches(model, _MOST_TOKENS, longest):
            parts.append([part.numpy() for part in read(batch.inputs)])
            bar.advance(len(batch.index))
    return RoleSums(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _make_reader(context: AnalysisContext):
    model, special = context.model, context.tokenizer.special
    layers = list(dict.fromkeys(name.layer for name in _list_full_heads(model)))
    causal = attention_layers(model)[layers[0]].causal
    side = "encoder_" if "encoder_token_ids" in model.input else ""
    delimiters = [i for i in (special.begin, *special.ends) if i is not None]
    embed = model.get_layer("token_embedding")
    # Traced once for all layers, which takes longer than the computation.
    reduce = tf.function(
        partial(sum_role_statistics, offsets=OFFSETS, far=FAR),
        autograph=False,
        reduce_retracing=True,
    )

    @tf.function(autograph=False, input_signature=[specify_inputs(model)])
    def read(inputs):
        ids, real = inputs[f"{side}token_ids"], inputs[f"{side}padding_mask"]
        info = {"padding_mask": real}
        if "prefix_mask" in inputs:
            info["prefix_mask"] = inputs["prefix_mask"]
        length = ops.shape(ids)[1]
        allowed = attention_mask(info, causal=causal)
        allowed = ops.broadcast_to(allowed, (ops.shape(ids)[0], length, length))
        is_text = real > 0
        for token in delimiters:
            is_text = ops.logical_and(is_text, ids != token)
        similarity = compare_vectors(embed(ids))
        maps = attention_probabilities(model, inputs)
        sums = [
            reduce(weights, allowed, is_text, similarity)
            for weights in (
                *(maps[layer] for layer in layers),
                make_reference_heads(allowed),
            )
        ]
        return sums[0]._replace(
            **{
                name: ops.concatenate([getattr(one, name) for one in sums], axis=1)
                for name in _BY_HEAD
            }
        )

    return read


def _has_unknown(context: AnalysisContext, texts: AnalyzedTexts) -> bool:
    unknown = context.tokenizer.special.unknown
    return unknown is not None and any(
        (value == unknown).any()
        for row in texts.rows
        for name, value in row.items()
        if name.endswith("token_ids")
    )


def _ratio_intervals(sums: np.ndarray, counts: np.ndarray, seed: int) -> list[Interval]:
    """Computes intervals of the columns' quotients of sums, over texts."""
    columns = sums.shape[1]

    def ratios(both: np.ndarray) -> dict[str, np.ndarray]:
        with np.errstate(invalid="ignore"):  # no query at all
            found = both[..., :columns] / both[..., columns:]
        return {str(column): found[..., column] for column in range(columns)}

    return list(intervals(np.hstack([sums, counts]), ratios, seed).values())


def _clip(interval: Interval) -> Interval:
    return Interval(*(np.clip(end, 0.0, 1.0).item() for end in interval))
