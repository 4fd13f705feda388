"""Syntax in attention: dependency relations and trees that heads find."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from transbeam.configs.base.errors import DataError
from transbeam.pipeline.pages.pictures import COLORS, GRAY, new_figure
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.base.analysis_part import AnalysisPart
from transbeam.trainer.analysis.syntax.relation_scores import (
    ALL,
    PUNCTUATION,
    RelationCounts,
    RelationScore,
    choose_best,
    tabulate_relations,
)
from transbeam.trainer.analysis.syntax.tree_scores import (
    DirectedTreeCounts,
    TreeCounts,
    TreeScore,
    tabulate_trees,
)
from transbeam.trainer.analysis.syntax.treebank import TreebankSentence, read_treebank
from transbeam.trainer.analysis.syntax.word_texts import (
    HeadName,
    WordTexts,
    list_heads,
    make_word_reader,
    read_word_maps,
    tokenize_words,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEWEST_WORDS = 50  # of a relation
# Heads of the highest UUAS whose directed trees are made, which takes milliseconds for
# each head of each sentence.
DIRECTED_HEADS = 3
_MOST_BARS = 24


def analyze_syntax(context: AnalysisContext, treebank: Path) -> AnalysisPart:
    """Measures the dependency relations and trees that attention heads find.

    Args:
        context: The model; its texts are not used.
        treebank: A treebank in CoNLL-U. Sentences longer than the model are skipped.

    Raises:
        ConfigError: No head of the model attends from each token to each token.
        DataError: The treebank cannot be read or has too few words.

    References:
        - [Clark et al., 2019](https://arxiv.org/abs/1906.04341), section 4.2
        - [Htut et al., 2019](https://arxiv.org/abs/1911.12246)
    """
    heads = list_heads(context.model)
    sentences, words = tokenize_treebank(context, treebank)
    relations = RelationCounts(sentences, words.memberships)
    trees = TreeCounts(sentences)
    read = make_word_reader(context.model)
    for maps in read_word_maps(context, words, read, "relations"):
        relations.add(maps)
        trees.add(maps)
    scores = score_relations(relations, heads, treebank, context.seed)
    undirected = trees.scores(heads, context.seed)

    order = np.argsort([-one.score.score for one in undirected], kind="stable")
    directed = DirectedTreeCounts(sentences, order[:DIRECTED_HEADS].tolist())
    for maps in read_word_maps(context, words, read, "trees"):
        directed.add(maps)
    tree_scores = [*undirected, *directed.scores(heads, context.seed)]
    baselines = trees.baselines(context.seed)

    best = choose_best(scores)
    return AnalysisPart(
        name="syntax",
        title="Syntax",
        summary=_summarize(best, tree_scores, baselines),
        numbers={
            "sentences": len(sentences),
            "skipped": words.skipped,
            "relations": {score.relation: describe_score(score) for score in best},
            "trees": [_describe_tree(one) for one in (*_best(tree_scores), *baselines)],
        },
        tables={
            "relations": tabulate_relations(scores),
            "best": tabulate_relations(best),
            "trees": tabulate_trees([*tree_scores, *baselines]),
        },
        figures={"relations": draw_relations(best)},
        notes=_make_notes(words, treebank, best, len(heads)),
    )


def tokenize_treebank(
    context: AnalysisContext, treebank: Path
) -> tuple[list[TreebankSentence], WordTexts]:
    """Reads a treebank and tokenizes those of its sentences that fit into the model.

    Raises:
        DataError: The treebank cannot be read, or no sentence fits.
    """
    sentences = read_treebank(treebank)
    words = tokenize_words(
        context,
        [sentence.text for sentence in sentences],
        [sentence.offsets for sentence in sentences],
        treebank.name,
    )
    return [sentences[number] for number in words.kept], words


def score_relations(
    counts: RelationCounts, heads: Sequence[HeadName], treebank: Path, seed: int
) -> list[RelationScore]:
    """Computes the scores of relations that are frequent enough.

    Raises:
        DataError: There is no such relation.
    """
    scores = counts.scores(heads, FEWEST_WORDS, seed)
    if not scores:
        raise DataError(
            f"{treebank}: no relation has {FEWEST_WORDS} words in the sentences that "
            "fit into the model; give a larger treebank"
        )
    return scores


def describe_score(score: RelationScore) -> dict[str, Any]:
    """Returns a score as JSON values."""
    return {
        "layer": score.name.layer,
        "head": score.name.head,
        "direction": score.direction,
        "accuracy": list(score.accuracy),
        "baseline": list(score.baseline),
        "baseline_offset": score.offset,
        "words": score.words,
        "found": score.is_found,
    }


def _best(scores: Sequence[TreeScore]) -> list[TreeScore]:
    """Returns the best tree of each measure."""
    measures = {one.measure for one in scores}
    return [
        max((s for s in scores if s.measure == measure), key=lambda s: s.score.score)
        for measure in sorted(measures, reverse=True)
    ]


def _describe_tree(score: TreeScore) -> dict[str, Any]:
    (row,) = tabulate_trees([score]).to_pylist()
    return row


def _summarize(
    best: Sequence[RelationScore],
    trees: Sequence[TreeScore],
    baselines: Sequence[TreeScore],
) -> str:
    named = [score for score in best if score.relation not in (ALL, PUNCTUATION)]
    found = [score for score in named if score.is_found]
    text = (
        f"Of {len(named)} relations, a head finds {len(found)} better than the best "
        "fixed offset does"
    )
    if found:
        top = max(found, key=lambda score: score.gain)
        text += (
            f", {top.relation} by the most ({top.accuracy.score:.1%} against "
            f"{top.baseline.score:.1%})"
        )
    tree, chain = _best(trees)[0], baselines[0]
    return (
        f"{text}. The best tree of one head has {tree.score.score:.1%} UUAS, a chain "
        f"of neighbors {chain.score.score:.1%}."
    )


def _make_notes(
    words: WordTexts, treebank: Path, best: Sequence[RelationScore], heads: int
) -> tuple[str, ...]:
    notes = [
        f"The heads are the best of {heads} on the same sentences, so that their "
        "scores are somewhat too high for other texts."
    ]
    if words.skipped:
        notes.append(
            f"{words.skipped:,} sentences of {treebank.name} are longer than the model "
            "or have no token, and were skipped."
        )
    if missed := [score.relation for score in best if not score.is_found]:
        notes.append(
            "Not found better than by a fixed offset, with intervals apart: "
            f"{', '.join(missed)}."
        )
    notes.append(f"Relations with fewer than {FEWEST_WORDS} words are left out.")
    return tuple(notes)


def draw_relations(best: Sequence[RelationScore]) -> "Figure":
    """Draws the best head of each frequent relation beside the best fixed offset."""
    frequent = sorted(best, key=lambda score: -score.words)[:_MOST_BARS]
    shown = sorted(frequent, key=lambda score: score.gain)
    figure, axes = new_figure(0.8 + 0.26 * len(shown))
    rows = np.arange(len(shown))
    for shift, color, label, parts in (
        (0.2, COLORS[0], "best head", [score.accuracy for score in shown]),
        (-0.2, GRAY, "best fixed offset", [score.baseline for score in shown]),
    ):
        values = np.array(parts)
        axes.barh(
            rows + shift,
            values[:, 0],
            height=0.38,
            color=color,
            label=label,
            xerr=np.abs(values[:, 1:] - values[:, :1]).T,
            error_kw={"elinewidth": 0.8, "ecolor": GRAY},
        )
    axes.set_yticks(rows, [score.relation for score in shown])
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", alpha=0.3, linewidth=0.6)
    axes.set_xlim(0, 1)
    axes.locator_params(axis="x", integer=False)
    axes.set_xlabel("share of words whose head is found")
    axes.legend(loc="lower right", frameon=False)
    return figure
