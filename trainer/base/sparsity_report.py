"""Report of pruned weights: how many are zero, and how small a packed file is."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from transbeam.configs.cli.console import Console
from transbeam.model.adaptation.packed_size import measure_packed_size
from transbeam.model.adaptation.weight_pruning import count_zeros
from transbeam.model.base.weight_paths import select_prunable


def report_sparsity(
    weights: Mapping[str, np.ndarray], targets: Sequence[str], console: Console
) -> dict[str, Any]:
    """Counts the zeros of pruned weights, measures packed sizes, and prints both.

    Args:
        weights: All weights of the model, by path.
        targets: Patterns of the paths of pruned weights.
        console: Prints the progress and the report.

    Returns:
        `total`, the share of zeros in the pruned weights; `by_weight`; `numbers`, how
        many numbers these weights have; and `bytes` of all weights: `dense`, `bitmask`
        and `gzip`, see `transbeam.model.adaptation.packed_size.PackedSize`.

    Raises:
        ConfigError: The patterns match no matrix.

    Example:
    >>> kernel = np.array([[0.0, 0.0], [3.0, 4.0]], "float32")
    >>> report = report_sparsity({"pooler/kernel": kernel}, ["*"], Console())
    50.0% of the 4 numbers of 1 matrix are zero
    16 bytes of all weights; packed as a bit for each number and the values of the
    others 9, by gzip ...; the model is not faster, and takes as much memory
    >>> report["total"], report["bytes"]["bitmask"]
    (0.5, 9)
    """
    shapes = {path: x.shape for path, x in weights.items()}
    pruned = {path: weights[path] for path in select_prunable(shapes, targets)}
    sparsity = count_zeros(pruned)
    numbers = sum(x.size for x in pruned.values())
    matrices = "1 matrix" if len(pruned) == 1 else f"{len(pruned)} matrices"
    console.say(
        f"{sparsity.total:.1%} of the {numbers:,} numbers of {matrices} are zero"
    )
    megabytes = sum(x.nbytes for x in weights.values()) / 1e6
    with console.progress("packing", megabytes, "MB") as progress:
        size = measure_packed_size(weights, lambda done: progress.advance(done / 1e6))
    console.say(
        f"{size.dense:,} bytes of all weights; packed as a bit for each number and the "
        f"values of the others {size.bitmask:,}, by gzip {size.gzip:,}; the model is "
        "not faster, and takes as much memory"
    )
    return {
        "total": sparsity.total,
        "by_weight": sparsity.by_weight,
        "numbers": numbers,
        "bytes": {"dense": size.dense, "bitmask": size.bitmask, "gzip": size.gzip},
    }
