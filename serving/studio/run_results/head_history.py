"""Changes of a model's heads while it trained: `training.analyze_every`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transbeam.serving.studio.run_results.checked_json import JsonFields, read_lines

_LOG = "training/analysis.jsonl"
# Of each head those that say most; the log has further ones.
_STATISTICS = ("entropy", "confidence", "first", "special")
_PARTICIPATION = "participation_ratio"
# Of the analyses that a picture has room for.
_MOST_STEPS = 64


def read_head_history(folder: Path) -> dict[str, Any] | None:
    """Reads the analyses of a training, at most 64 of them.

    Args:
        folder: The run's folder.

    Returns:
        A JSON object, see `schemas.HEADS`; None if the training has no analysis.

    Raises:
        ArtifactError: The log is damaged.
    """
    path = folder / _LOG
    if not path.is_file():
        return None
    # Of a training that goes on, the last line may be half-written.
    whole = path.read_bytes().count(b"\n")
    lines = _spread(list(read_lines(path, whole)))
    if not lines:
        return None
    last = lines[-1].fields("layers")
    tables = []
    for name in _STATISTICS:
        layers = [layer for layer in last.names() if name in last.fields(layer)]
        heads = {layer: len(last.fields(layer).items(name)) for layer in layers}
        rows = [f"{layer}, {n}" for layer in layers for n in range(heads[layer])]
        columns = [
            [
                value
                for layer in layers
                for value in _values(line.fields("layers"), layer, name, heads[layer])
            ]
            for line in lines
        ]
        if rows:
            tables.append({"name": name, "rows": rows, "columns": columns})
    blocks = lines[-1].fields(_PARTICIPATION).names()
    if blocks:
        columns = [
            [line.fields(_PARTICIPATION).number(block) for block in blocks]
            for line in lines
        ]
        tables.append({"name": _PARTICIPATION, "rows": blocks, "columns": columns})
    return {
        "steps": [line.number("step") for line in lines],
        "idle_heads": [line.number("idle_heads") for line in lines],
        "statistics": tables,
    }


def _spread(lines: Sequence[JsonFields]) -> list[JsonFields]:
    """Keeps lines at even distances, with the first and the last one."""
    if len(lines) <= _MOST_STEPS:
        return list(lines)
    last = len(lines) - 1
    places = [round(i * last / (_MOST_STEPS - 1)) for i in range(_MOST_STEPS)]
    return [lines[place] for place in places]


def _values(of: JsonFields, layer: str, name: str, heads: int) -> list[Any]:
    values = of.fields(layer).items(name)
    if len(values) != heads or not all(type(x) in (int, float) for x in values):
        raise of.fields(layer).error(name, f"no array of {heads} numbers")
    return values
