"""Formats what a budget of FLOPs buys as text."""

from collections.abc import Mapping
from typing import Any

from transbeam.model.cost.compute_budget import FITTED
from transbeam.model.cost.report_text import Row, table

_UNITS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def describe_budget(plan: Mapping[str, Any]) -> str:
    """Formats the result of `transbeam.model.cost.compute_budget.plan_budget`."""
    blocks = [
        f"A budget of {plan['flops']:.3g} FLOPs buys, with C = 6 N D:",
        table(_fits(plan)),
        *_warnings(plan),
        "Of this configuration's family, with the FLOPs that model/cost counts:",
        table(_models(plan)),
    ]
    if plan["seconds"] is not None:
        speed = f"{_short(plan['flops_per_second'])} FLOP/s, {plan['speed_source']}"
        blocks.append(f"At {speed}, it takes {describe_time(plan['seconds'])}.")
    else:
        blocks.append(
            "How long it takes here is unknown: add --measure, or train the "
            "configuration for\nsome steps."
        )
    return "\n\n".join(blocks)


def _fits(plan: Mapping[str, Any]) -> list[Row]:
    rows: list[Row] = [("", "weights", "tokens", "tokens per weight")]
    rows += [
        (
            fit["source"],
            _short(fit["weights"]),
            _short(fit["tokens"]),
            f"{fit['tokens'] / fit['weights']:,.1f}",
        )
        for fit in plan["fits"]
    ]
    return rows


def _warnings(plan: Mapping[str, Any]) -> list[str]:
    lines = [
        "These are fits to causal decoders that read each token of English text about "
        "once. The\nlast one corrects approach 3."
    ]
    if plan["is_extrapolated"]:
        low, high = FITTED
        lines[0] += (
            f" The budget is outside of those that were fitted,\n{low:.0e} to "
            f"{high:.0e} FLOPs, so all of them are extrapolated."
        )
    return lines


def _models(plan: Mapping[str, Any]) -> list[Row]:
    own, nearest = plan["own"], plan["nearest"]
    rows: list[Row] = [("", "as configured", "nearest to the optimum")]
    for title, key in (
        ("num_layers", "num_layers"),
        ("hidden_dim", "hidden_dim"),
        ("attention.num_heads", "num_heads"),
        ("feedforward.intermediate_dim", "intermediate_dim"),
    ):
        if own[key] is not None:
            rows.append((title, f"{own[key]:,}", f"{nearest[key]:,}"))
    for title, key in (
        ("weights", "weights"),
        ("tokens", "tokens"),
        ("updates of its batch", "steps"),
        ("FLOPs per token", "flops_per_token"),
    ):
        rows.append((title, _short(own[key]), _short(nearest[key])))
    rows.append(
        (
            "tokens per weight",
            f"{own['tokens_per_weight']:,.1f}",
            f"{nearest['tokens_per_weight']:,.1f}",
        )
    )
    return rows


def describe_time(seconds: float) -> str:
    """Formats a time, in days if it is long.

    Example:
    >>> [describe_time(x) for x in (90, 7_200, 200_000, 1e9)]
    ['1.5 minutes', '2.0 hours', '2.3 days', '11,574 days']
    """
    for unit, name in ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes")):
        if seconds >= unit:
            number = seconds / unit
            return f"{number:,.0f} {name}" if number >= 100 else f"{number:.1f} {name}"
    return f"{seconds:.1f} seconds"


def _short(number: float) -> str:
    """Formats a large number with three significant digits.

    Example:
    >>> [_short(x) for x in (124_439_808, 4.956e9, 13_345.9, 42)]
    ['124 M', '4.96 B', '13.3 k', '42']
    """
    for size, unit in _UNITS:
        if number >= size:
            return f"{number / size:,.3g} {unit}" if number < 1e15 else f"{number:.3g}"
    return f"{number:,.0f}"
