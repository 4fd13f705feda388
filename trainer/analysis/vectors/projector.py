"""Files of TensorBoard's projector: vectors of pieces with their labels.

    projector/tensors.tsv            a vector per line
    projector/metadata.tsv           the piece, and how often it occurs
    projector/projector_config.pbtxt the names of both

`tensorboard --logdir FOLDER` shows them; https://projector.tensorflow.org loads the two
tables.

References:
    - [Embedding projector](https://www.tensorflow.org/tensorboard/tensorboard_projector_plugin)
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from transbeam.configs.base.atomic_files import writing
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.vectors.piece_vectors import (
    find_frequent,
    read_piece_vectors,
)

TENSORS, METADATA = "tensors.tsv", "metadata.tsv"
CONFIG = "projector_config.pbtxt"
_CONFIG = f"""embeddings {{
  tensor_name: "pieces"
  tensor_path: "{TENSORS}"
  metadata_path: "{METADATA}"
}}
"""
# As many points move smoothly in a browser.
_MOST = 5000


def write_projector(folder: Path, context: AnalysisContext) -> int:
    """Writes the embeddings of the most frequent pieces of the texts.

    Args:
        folder: The folder of the files, which is made if it is missing.
        context: The model and the texts.

    Returns:
        The number of pieces, at most 5000; without any, nothing is written.

    Raises:
        ArtifactError: The files cannot be written.
        ConfigError: The model's table is quantized or has an adapter.
    """
    ids = find_frequent(context, _MOST)
    if not ids:
        return 0
    pieces = read_piece_vectors(context)
    rows = pieces.find_rows(ids)
    columns = {
        "piece": [context.tokenizer.pieces[index] for index in ids],
        "count": pieces.counts[rows].tolist(),
    }
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / TENSORS).write_text(format_vectors(pieces.vectors[rows]), "utf-8")
        (folder / METADATA).write_text(format_metadata(columns), "utf-8")
        (folder / CONFIG).write_text(_CONFIG, "utf-8")
    return len(ids)


def format_vectors(vectors: np.ndarray) -> str:
    r"""Formats vectors as lines of numbers between tabs.

    Example:
    >>> format_vectors(np.array([[0.5, 1.0], [-2.0, 1e-7]]))
    '0.5\t1\n-2\t1e-07\n'
    """
    rows = ("\t".join(f"{value:.7g}" for value in row) for row in vectors.tolist())
    return "".join(f"{row}\n" for row in rows)


def format_metadata(columns: Mapping[str, Sequence[Any]]) -> str:
    r"""Formats labels as lines between tabs, with the columns' names first.

    Tabs and line ends in a label are escaped; an empty label is written as `""`.

    Args:
        columns: At least two; the projector expects no names above a single one.

    Example:
    >>> format_metadata({"piece": ["a\t", ""], "count": [2, 1]})
    'piece\tcount\na\\t\t2\n""\t1\n'
    """
    rows = zip(*columns.values(), strict=True)
    lines = ("\t".join(_escape(str(value)) for value in values) for values in rows)
    return "".join(f"{line}\n" for line in ("\t".join(columns), *lines))


def _escape(label: str) -> str:
    escaped = "".join(
        x if x.isprintable() else x.encode("unicode_escape").decode() for x in label
    )
    return escaped if escaped.strip() else f'"{escaped}"'
