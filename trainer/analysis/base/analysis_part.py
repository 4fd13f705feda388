"""A part of an analysis: its numbers, tables and figures."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class AnalysisPart:
    """A part of an analysis.

    Attributes:
        name: The part's name, with which the names of its files begin.
        title: Its heading on the page.
        summary: One or two sentences with the main numbers.
        numbers: Numbers for programs, as JSON values: `NAME.json`.
        tables: Tables: `NAME_KEY.parquet`.
        figures: Pictures: `NAME_KEY.svg` and `.png`, and on the page.
        weights: Trained weights by path: `NAME_KEY.safetensors`.
        notes: What was not computed, and why.
    """

    name: str
    title: str
    summary: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    figures: "Mapping[str, Figure]" = field(default_factory=dict)
    weights: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
