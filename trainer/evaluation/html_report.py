"""The report of an evaluation, as one self-contained HTML page."""

import html
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from transbeam.configs.base.html_page import page
from transbeam.pipeline.evaluation_set import HeldOut
from transbeam.trainer.evaluation.collectors import Confusions
from transbeam.trainer.evaluation.comparison import Comparison
from transbeam.trainer.evaluation.error_analysis import Findings
from transbeam.trainer.evaluation.html_examples import EXAMPLES, examples
from transbeam.trainer.metrics.confidence_intervals import Interval
from transbeam.trainer.metrics.counts import ClassCounts

_MOST_EXAMPLES = 40
_WIDEST_TABLE = 20
_MOST_PAIRS = 30

_STYLE = """
caption { text-align: left; color: #51606f; font-size: .9rem; padding-bottom: .3rem }
.scroll { overflow-x: auto }
td.number, th.number { text-align: right }
td svg { width: 12rem; height: 1rem; vertical-align: middle }
td svg .track { fill: #dde3ea } td svg .point { fill: #1c2733 }
table.confusion td { text-align: right; padding: .2rem .5rem }
table.confusion th { padding-right: .5rem; font-weight: 600 }
table.confusion th[scope=col] { text-align: right; padding: .2rem .5rem }
table.confusion caption { white-space: nowrap }
table.confusion td.right { outline: 1px solid currentColor; outline-offset: -2px }
@media (prefers-color-scheme: dark) { caption { color: #9fb0c0 }
td svg .track { fill: #313b46 } td svg .point { fill: #dfe6ee } }
"""


def report(
    title: str,
    told: str,
    facts: Mapping[str, str],
    scores: Mapping[str, Interval],
    findings: Findings,
    held_out: HeldOut,
    beside: Comparison | None = None,
) -> str:
    """Renders the page.

    Args:
        title: Its heading.
        told: A summary of the results.
        facts: Facts on the evaluation, by name.
        scores: All scores.
        findings: Examples and confusions.
        held_out: The documents, whose images are shown.
        beside: For an export, the comparison with the run's own model.
    """
    table = _scores(scores, beside)
    sections = [f"<p>{html.escape(told)}</p>", _section("Scores", table)]
    if findings.confusions is not None:
        sections += list(_confusions(findings.confusions))
    if findings.examples:
        shown = findings.examples[:_MOST_EXAMPLES]
        sections.append(_section("Worst examples", examples(shown, held_out)))
    rows = "".join(
        f"<tr><th scope='row'>{html.escape(name)}</th>"
        f"<td>{html.escape(value)}</td></tr>"
        for name, value in facts.items()
    )
    sections.append(_section("What was evaluated", f"<table>{rows}</table>"))
    return page(title, "\n".join(sections), _STYLE + EXAMPLES)


def _section(title: str, body: str) -> str:
    return f"<section><h2>{html.escape(title)}</h2>{body}</section>"


def _scores(scores: Mapping[str, Interval], beside: Comparison | None) -> str:
    rows = "".join(
        f"<tr><th scope='row'>{html.escape(name.replace('_', ' '))}</th>"
        f"<td class='number'>{_number(of.score)}</td>"
        f"<td class='number'>{_number(of.low)} to {_number(of.high)}</td>"
        f"{_beside(name, beside)}<td>{_bar(name, of)}</td></tr>"
        for name, of in scores.items()
    )
    columns = ["value", "interval"]
    if beside is not None:
        columns += ["the run's own", "difference"]
    head = "".join(
        f"<th scope='col' class='number'>{html.escape(name)}</th>" for name in columns
    )
    return (
        "<table><caption>Each with the interval of 95% by the bootstrap: how far it "
        "might be off because these documents (or records) were drawn and not "
        "others. Bars reach from the least to the most that is possible.</caption>"
        f"<tr><th scope='col'>score</th>{head}<td></td></tr>{rows}</table>"
    )


def _beside(name: str, beside: Comparison | None) -> str:
    """Two further cells: the score of the run's own model, and the difference."""
    if beside is None:
        return ""
    own, difference = beside.run_scores.get(name), beside.differences.get(name)
    told = "–" if difference is None else f"{difference:+.4f}"
    return (
        f"<td class='number'>{_number(np.nan if own is None else own)}</td>"
        f"<td class='number'>{told}</td>"
    )


def _number(value: float) -> str:
    """Formats a score with about four significant digits; non-finite ones as a dash.

    Example:
    >>> [_number(value) for value in (0.51236, 41.1134, 2950.4, float("nan"))]
    ['0.5124', '41.11', '2,950', '–']
    """
    if not np.isfinite(value):
        return "–"
    digits = 4 if abs(value) < 10 else 2 if abs(value) < 1000 else 0
    return f"{value:,.{digits}f}"


# Upper bounds of the scores that are not between 0 and 1; None if unbounded.
_ENDS = {
    "bleu": 100.0,
    "bleu_lowercase": 100.0,
    "chrf": 100.0,
    "perplexity": None,
    "nats_per_token": None,
    "bits_per_byte": None,
    "mse": None,
    "mae": None,
}


def _bar(name: str, of: Interval) -> str:
    """Draws the interval on a scale of all possible scores, unless it is unbounded."""
    end = _ENDS.get(name, 1.0)
    if end is None or not np.isfinite([*of]).all() or of.low < 0:
        return ""
    score, low, high = (200 * value / end for value in of)
    return (
        "<svg viewBox='0 0 200 16' preserveAspectRatio='none' aria-hidden='true'>"
        "<rect class='track' x='0' y='7' width='200' height='2'/>"
        f"<rect x='{low:.1f}' y='4' width='{max(high - low, 1):.1f}' height='8'/>"
        f"<rect class='point' x='{score - 0.75:.1f}' y='1' width='1.5' height='14'/>"
        "</svg>"
    )


def _confusions(found: Confusions) -> Iterator[str]:
    labels, table = found.labels, found.table
    if len(labels) <= _WIDEST_TABLE:
        yield _section("What was taken for what", _confusion_table(labels, table))
    else:
        yield _section("What was taken for what", _confused_pairs(labels, table))
    counts = ClassCounts(np.diag(table), table.sum(axis=0), table.sum(axis=1))
    rows = "".join(
        f"<tr><th scope='row'>{html.escape(label)}</th>"
        + "".join(f"<td class='number'>{value:.3f}</td>" for value in of[:3])
        + f"<td class='number'>{of.support:,}</td></tr>"
        for label, of in counts.table(labels).items()
    )
    head = "".join(
        f"<th scope='col' class='number'>{name}</th>"
        for name in ("precision", "recall", "F1", "asked for")
    )
    yield _section(
        "By class", f"<table><tr><th scope='col'>class</th>{head}</tr>{rows}</table>"
    )


def _confusion_table(labels: Sequence[str], table: np.ndarray) -> str:
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    head = "".join(f"<th scope='col'>{html.escape(label)}</th>" for label in labels)
    rows = []
    for row, label in enumerate(labels):
        cells = "".join(
            f"<td{' class=right' if row == column else ''} "
            f"style='background:rgba(47,111,178,{0.65 * shares[row, column]:.2f})'>"
            f"{table[row, column]:,}</td>"
            for column in range(len(labels))
        )
        rows.append(f"<tr><th scope='row'>{html.escape(label)}</th>{cells}</tr>")
    return (
        "<div class='scroll'><table class='confusion'><caption>A row for each right "
        "class, a column for each guess.<br>The deeper the colour, the larger the "
        "share of the row. Framed: right guesses.</caption>"
        f"<tr><td></td>{head}</tr>{''.join(rows)}</table></div>"
    )


def _confused_pairs(labels: Sequence[str], table: np.ndarray) -> str:
    wrong = table * (1 - np.eye(len(labels), dtype=np.int64))
    order: list[int] = np.argsort(-wrong, axis=None, kind="stable").tolist()
    pairs = [divmod(place, len(labels)) for place in order[:_MOST_PAIRS]]
    rows = "".join(
        f"<tr><td>{html.escape(labels[row])}</td><td>{html.escape(labels[column])}</td>"
        f"<td class='number'>{wrong[row, column]:,}</td></tr>"
        for row, column in pairs
        if wrong[row, column]
    )
    return (
        "<table><caption>The most frequent mistakes.</caption><tr><th scope='col'>right"
        "</th><th scope='col'>guess</th><th scope='col' class='number'>times</th></tr>"
        f"{rows}</table>"
    )
