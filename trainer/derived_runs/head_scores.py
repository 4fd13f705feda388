"""Scores of heads from a run's analysis, by which `transbeam prune` chooses heads."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.base.reflection import did_you_mean
from transbeam.configs.loader.model_files import find_model_weights
from transbeam.pipeline.records.manifest import sha256
from transbeam.trainer.analysis.base.analysis_files import (
    FINGERPRINT,
    FOLDER,
    SUMMARY,
    read_summary,
)

GRADIENT, ABLATION = "gradient", "ablation"
# Tables with a row for each head: the change of the loss, and the mean of each metric.
CHANGES, METRICS = "ablation_changes.parquet", "heads_metrics.parquet"


def read_head_scores(
    run_folder: Path, name: str, heads: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """Reads a score of every head from the analysis of a run's weights.

    Args:
        run_folder: The run's folder.
        name: `ablation`, for the change of the loss without the head, or one of the
            metrics of the analysis, such as `entropy`.
        heads: The number of heads of each attention layer, by its path.

    Returns:
        The scores by the layer's path, float64 `(H,)`.

    Raises:
        ArtifactError: The analysis is missing, damaged, or of other weights, or lacks a
            head.
        ConfigError: The analysis has no such score.
    """
    folder = run_folder / FOLDER
    _check_weights(run_folder, folder)
    table = folder / (CHANGES if name == ABLATION else METRICS)
    column = "change" if name == ABLATION else "mean"
    columns = ["layer", "head", column]
    if name == ABLATION:
        rows = _read_rows(table, columns, run_folder)
    else:
        rows = _read_rows(table, [*columns, "metric"], run_folder)
        known = {row["metric"] for row in rows}
        if name not in known:
            raise _unknown(name, table, known)
        rows = [row for row in rows if row["metric"] == name]
    return _arrange(rows, column, heads, table, run_folder)


def mean_scores(
    scores: Mapping[str, np.ndarray], kept: Mapping[str, Sequence[int]]
) -> dict[str, float]:
    """Computes the mean scores of the heads that are kept and of those removed.

    Example:
    >>> mean_scores({"layer": np.array([1.0, 4.0, 2.0])}, {"layer": [1, 2]})
    {'kept': 3.0, 'removed': 1.0}
    """
    stay = [np.isin(np.arange(len(x)), kept[layer]) for layer, x in scores.items()]
    every, is_kept = np.concatenate([*scores.values()]), np.concatenate(stay)
    return {
        "kept": float(every[is_kept].mean()),
        "removed": float(every[~is_kept].mean()),
    }


def _arrange(
    rows: list[dict[str, Any]],
    column: str,
    heads: Mapping[str, int],
    table: Path,
    run_folder: Path,
) -> dict[str, np.ndarray]:
    """Arranges scores by layer and head."""
    scores = {layer: np.full(number, np.nan) for layer, number in heads.items()}
    for row in rows:
        layer, head = row["layer"], row["head"]
        # Rows without a head are of whole layers.
        if layer in scores and head is not None and 0 <= head < heads[layer]:
            scores[layer][head] = row[column]
    for layer, values in scores.items():
        if (missing := np.flatnonzero(~np.isfinite(values))).size:
            raise ArtifactError(
                f"{table}: has no number for head {missing[0]} of {layer}. "
                f"{_again(run_folder)}"
            )
    return scores


def _check_weights(run_folder: Path, folder: Path) -> None:
    summary = read_summary(folder)
    if summary is None:
        raise ArtifactError(
            f"{folder / SUMMARY}: missing or damaged, and the heads are chosen by it. "
            f"{_again(run_folder)}"
        )
    weights = find_model_weights(run_folder)
    found, expected = summary.get(FINGERPRINT), sha256(weights)
    if found != expected:
        raise ArtifactError(
            f"{folder / SUMMARY}: is of other weights than {weights}: fingerprint "
            f"{str(found)[:12]}… there, {expected[:12]}… here. {_again(run_folder)}"
        )


def _read_rows(
    table: Path, columns: list[str], run_folder: Path
) -> list[dict[str, Any]]:
    try:
        return pq.read_table(table).select(columns).to_pylist()
    except (OSError, KeyError, pa.ArrowException) as error:
        raise ArtifactError(
            f"{table}: cannot be read: {error}. {_again(run_folder)}"
        ) from error


def _again(run_folder: Path) -> str:
    return f"Analyze the run: `transbeam analyze {run_folder}`"


def _unknown(name: str, table: Path, known: Collection[str]) -> ConfigError:
    names = sorted({GRADIENT, ABLATION, *known})
    return ConfigError(
        f"--by={name}: {table} has no such score.{did_you_mean(name, names)} Scores: "
        f"{', '.join(names)}"
    )
