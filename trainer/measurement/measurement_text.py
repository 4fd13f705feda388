"""Formats measured time and memory as text."""

import textwrap
from collections.abc import Mapping
from typing import Any

from transbeam.model.cost.report_text import Row, table

_WIDTH = 88
TITLES = {
    "length": "tokens per record",
    "depth": "blocks",
    "width": "hidden width",
    "batch": "records per update",
}


def describe_measurement(measured: Mapping[str, Any]) -> str:
    """Formats the result of `transbeam.trainer.measurement.measurement.measure_cost`.

    Example:
    >>> print(describe_measurement({"device": "cpu", "backend": "tensorflow",
    ...     "precision": "float32", "rounds": 5, "peak_flops": 98e9, "axes": {}}))
    Measured on cpu with tensorflow in float32, medians of 5 [least-most] after a
    warm-up. Expected: the time of * times the ratio of the counted FLOPs. MFU: FLOPs of
    an update as a share of 98 GFLOP/s, which large matrix products reach. MB: the peak
    in updates, beyond the libraries' own; counted: without compiled graphs and buffers.
    """
    said = (
        f"Measured on {measured['device']} with {measured['backend']} in "
        f"{measured['precision']}, medians of {measured['rounds']} [least-most] after "
        "a warm-up. Expected: the time of * times the ratio of the counted FLOPs. MFU: "
        f"FLOPs of an update as a share of {measured['peak_flops'] / 1e9:,.0f} "
        "GFLOP/s, which large matrix products reach. MB: the peak in updates, beyond "
        "the libraries' own; counted: without compiled graphs and buffers."
    )
    blocks = [_axis(axis, found) for axis, found in measured["axes"].items()]
    return "\n\n".join([textwrap.fill(said, _WIDTH), *blocks])


def _axis(axis: str, found: Mapping[str, Any]) -> str:
    rows: list[Row] = [
        (
            "",
            "forward, ms",
            "expected",
            "update, ms",
            "expected",
            "MFU",
            "MB",
            "counted",
        )
    ]
    rows += [_point(point, found["own"]) for point in found["points"]]
    lines = [TITLES[axis], table(rows)] if found["points"] else [TITLES[axis]]
    lines += [
        f"  {skipped['size']:,} is left out: {skipped['reason']}"
        for skipped in found["skipped"]
    ]
    return "\n".join(lines)


def _point(point: Mapping[str, Any], own: int) -> Row:
    cells = []
    for work in ("forward", "step"):
        expected = point["expected_seconds"][work]
        cells += [_spread(point["seconds"][work])]
        cells += ["" if expected is None else _milliseconds(expected)]
    return (
        f"{'*' if point['size'] == own else ' '} {point['size']:,}",
        *cells,
        f"{point['mfu']:.0%}",
        f"{point['memory'] / 1e6:,.0f}",
        f"{point['expected_memory'] / 1e6:,.0f}",
    )


def _spread(seconds: Mapping[str, float]) -> str:
    median, least, most = (
        _milliseconds(seconds[name]) for name in ("median", "least", "most")
    )
    return f"{median} [{least}-{most}]"


def _milliseconds(seconds: float) -> str:
    """Formats seconds as milliseconds with three significant digits.

    Example:
    >>> [_milliseconds(x) for x in (0.0012345, 0.0456, 1.2345)]
    ['1.23', '45.6', '1,234']
    """
    value = 1e3 * seconds
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f}"
