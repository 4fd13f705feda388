"""Roles of attention heads: positional, syntactic, coreference, semantic and others."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from transbeam.pipeline.pages.pictures import COLORS, GRAY
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.base.analysis_part import AnalysisPart
from transbeam.trainer.analysis.syntax.role_scores import (
    ROLES,
    TEXT_ROLES,
    RoleScore,
    score_coreference,
    score_syntactic,
    score_text_roles,
)
from transbeam.trainer.analysis.syntax.word_texts import HeadName

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = 3


def analyze_roles(
    context: AnalysisContext, treebank: Path | None = None
) -> AnalysisPart:
    """Scores each head for each role, and names the best head of each role.

    Args:
        context: The model and its texts.
        treebank: A treebank in CoNLL-U for the syntactic role; without one, the role is
            left out.

    Raises:
        ConfigError: No head of the model attends from each token to each token.
        DataError: The treebank cannot be read or has too few words.
    """
    scores = score_text_roles(context)
    notes = []
    if not scores:
        notes.append(
            f"{_capitalize(', '.join(TEXT_ROLES))}: left out, as they need texts of "
            "several tokens."
        )
    if treebank is None:
        notes.append("Syntactic: left out, as it needs a treebank.")
    else:
        scores += score_syntactic(context, treebank)
    coreference = score_coreference(context)
    scores += coreference
    if not coreference:
        notes.append(
            "Coreference: left out, as the tokenizer does not know the English "
            "sentences of the test."
        )
    best = choose_best_heads(scores)
    notes += [
        f"{_capitalize(score.role)}: not found; the best head has "
        f"{score.score.score:.2f} [{score.score.low:.2f}, {score.score.high:.2f}], the "
        f"baseline {score.baseline:.2f}."
        for score in best.values()
        if not score.is_found
    ]
    heads = len({score.name for score in scores})
    notes.append(
        f"The best of {heads} heads is chosen on the texts that its score is of, so "
        "that the score is somewhat too high for other texts."
    )
    return AnalysisPart(
        name="roles",
        title="Roles of heads",
        summary=_summarize(best),
        numbers={role: _describe(score) for role, score in best.items()},
        tables={
            "heads": tabulate_roles(scores),
            "best": tabulate_roles(list(best.values())),
        },
        figures={"radar": draw_radars(scores)},
        notes=tuple(notes),
    )


def choose_best_heads(scores: Sequence[RoleScore]) -> dict[str, RoleScore]:
    """Returns the highest score of each role, in the order of `ROLES`."""
    best = {}
    for role in ROLES:
        if those := [score for score in scores if score.role == role]:
            best[role] = max(those, key=lambda score: score.score.score)
    return best


def tabulate_roles(scores: Sequence[RoleScore]) -> pa.Table:
    """Makes a table with a row per role and head."""
    columns = {"role": pa.string(), "layer": pa.string(), "head": pa.int32()}
    columns |= dict.fromkeys(("score", "low", "high", "baseline"), pa.float64())
    columns |= {"found": pa.bool_(), "detail": pa.string()}
    rows = [{"role": score.role, **_describe(score)} for score in scores]
    return pa.Table.from_pylist(rows, pa.schema(columns))


def _describe(score: RoleScore) -> dict[str, Any]:
    return {
        "layer": score.name.layer,
        "head": score.name.head,
        **score.score._asdict(),
        "baseline": score.baseline,
        "found": score.is_found,
        "detail": score.detail,
    }


def _summarize(best: dict[str, RoleScore]) -> str:
    def show(score: RoleScore) -> str:
        where = f"{score.name.layer} head {score.name.head}"
        detail = f"{score.detail}: " * bool(score.detail)
        return f"{score.role} {where} ({detail}{score.score.score:.2f})"

    found = [show(score) for score in best.values() if score.is_found]
    missed = [role for role, score in best.items() if not score.is_found]
    text = f"Best heads: {'; '.join(found)}." if found else "No role was found."
    return f"{text} Not found: {', '.join(missed)}." if missed else text


def _capitalize(role: str) -> str:
    return role[0].upper() + role[1:]


def draw_radars(scores: Sequence[RoleScore]) -> "Figure":
    """Draws all scores of the best head of each role, beside the baselines."""
    from matplotlib.figure import Figure

    best = choose_best_heads(scores)
    roles = list(best)
    table: dict[HeadName, dict[str, RoleScore]] = {}
    for score in scores:
        table.setdefault(score.name, {})[score.role] = score
    rows = -(-len(roles) // _COLUMNS)
    figure = Figure(figsize=(7.6, 2.9 * rows), layout="constrained")
    angles = np.linspace(0, 2 * np.pi, len(roles), endpoint=False)
    ring = [*range(len(roles)), 0]
    for place, (role, top) in enumerate(best.items(), 1):
        axes = figure.add_subplot(rows, _COLUMNS, place, projection="polar")
        held = table[top.name]
        values = [held[r].score.score if r in held else 0.0 for r in roles]
        bases = [held[r].baseline if r in held else 0.0 for r in roles]
        axes.plot(angles[ring], np.array(bases)[ring], "--", color=GRAY, linewidth=1)
        axes.plot(angles[ring], np.array(values)[ring], color=COLORS[0], linewidth=1.4)
        axes.fill(angles, values, color=COLORS[0], alpha=0.2)
        axes.set_xticks(angles, roles, fontsize=7)
        axes.set_ylim(0, 1)
        axes.set_yticks([0.5, 1.0], ["", ""])
        axes.grid(color=GRAY, alpha=0.4, linewidth=0.6)
        axes.spines["polar"].set_color(GRAY)
        state = "" if top.is_found else " (not found)"
        block = top.name.layer.rpartition("/")[0]
        axes.set_title(f"best {role}{state}\n{block}, {top.name.head}", fontsize=8)
    return figure
