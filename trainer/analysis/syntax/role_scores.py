"""Scores of heads for roles: numbers from 0 to 1, each beside a baseline."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from keras import ops

from transbeam.model.inspect.head_roles import (
    RoleSums,
    compare_vectors,
    make_reference_heads,
    sum_role_statistics,
)
from transbeam.model.inspect.token_attention import read_visible_attention
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


class RoleTable(NamedTuple):
    """Sums of all heads, and of the references that see the same keys.

    Attributes:
        heads: Of the model's heads.
        uniform: Of heads whose weights are all alike, one for each of the model's.
        near: Of heads whose weights fall with the distance.
    """

    heads: RoleSums
    uniform: RoleSums
    near: RoleSums


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
        The scores. In windows and blocks of tokens, a query can attend to the tokens
        there, and the baselines are of these.

    Raises:
        ConfigError: No head of the model attends to tokens.
    """
    names = list_heads(context.model)
    heads, uniform, near = _sum_texts(context)
    seed = context.seed
    with np.errstate(invalid="ignore"):
        shares = heads.offset.sum(axis=0) / heads.offset_queries.sum(axis=0)  # (H, K)
    best = np.argmax(np.nan_to_num(shares, nan=-1.0), axis=1)[None, :, None]
    first = heads.first.sum(axis=0) / np.maximum(heads.delimiter.sum(axis=0), 1e-9)

    def at_best(sums: np.ndarray) -> np.ndarray:
        return np.take_along_axis(sums, best, axis=2)[..., 0]

    scores = []
    for role, values, queries, reference, details in (
        (
            POSITIONAL,
            at_best(heads.offset),
            at_best(heads.offset_queries),
            (at_best(uniform.offset), at_best(uniform.offset_queries)),
            [f"offset {OFFSETS[k]:+d}" for k in best.ravel()],
        ),
        (
            LONG_RANGE,
            heads.distant,
            heads.distant_queries,
            (uniform.distant, uniform.distant_queries),
            [f"beyond {FAR} tokens"] * len(names),
        ),
        (
            DELIMITER,
            heads.delimiter,
            heads.queries,
            (uniform.delimiter, uniform.queries),
            [f"{share:.0%} on the first" for share in first],
        ),
        (
            SEMANTIC,
            heads.semantic,
            heads.semantic_queries,
            (near.semantic, near.semantic_queries),
            [""] * len(names),
        ),
    ):
        sums, counts = (part.sum(axis=0) for part in reference)
        baselines = np.clip(sums / np.maximum(counts, 1), 0, 1)
        ends = [_clip(end) for end in _ratio_intervals(values, queries, seed)]
        scores += [
            RoleScore(role, *of)
            for of in zip(names, ends, baselines.tolist(), details, strict=True)
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


def _sum_texts(context: AnalysisContext) -> RoleTable:
    """Sums the statistics of each text."""
    number, model = len(context.texts), context.model
    chosen = np.random.default_rng(context.seed).permutation(number)[:_MOST_TEXTS]
    rows = tuple(context.texts.rows[index] for index in chosen.tolist())
    texts = AnalyzedTexts(context.texts.name, rows)
    longest = context.config.model.max_sequence_length
    read, parts = _make_reader(context), []
    with context.console.progress("roles", len(rows), "text") as bar:
        for batch in texts.batches(model, _MOST_TOKENS, longest):
            parts.append(tf.nest.map_structure(np.asarray, read(batch.inputs)))
            bar.advance(len(batch.index))
    return tf.nest.map_structure(lambda *each: np.concatenate(each), *parts)


def _make_reader(context: AnalysisContext) -> Callable[[Any], RoleTable]:
    model, special = context.model, context.tokenizer.special
    layers = list(dict.fromkeys(name.layer for name in list_heads(model)))
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
        ids = inputs[f"{side}token_ids"]
        is_text = inputs[f"{side}padding_mask"] > 0
        for token in delimiters:
            is_text = ops.logical_and(is_text, ids != token)
        similarity = compare_vectors(embed(ids))
        seen = read_visible_attention(model, inputs)
        tables = []
        for weights, visible in (seen[layer] for layer in layers):
            heads = reduce(weights, visible, is_text, similarity)
            uniform, near = (
                _repeat(reduce(head, visible, is_text, similarity), heads)
                for head in make_reference_heads(visible)
            )
            tables.append(RoleTable(heads, uniform, near))
        return tf.nest.map_structure(lambda *each: ops.concatenate(each, 1), *tables)

    return read


def _repeat(reference: RoleSums, heads: RoleSums) -> RoleSums:
    """Repeats the sums of a reference for each head that it is a baseline of."""
    pairs = zip(reference, heads, strict=True)
    return RoleSums(*(one + ops.zeros_like(each) for one, each in pairs))


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
