"""The published configurations that come with Transbeam, by their names."""

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "presets"


@cache
def preset_files() -> dict[str, Path]:
    """Returns the file of each preset, in the order of their names.

    Example:
    >>> preset_files()["bert_base"].name
    'bert_base.yaml'
    """
    return {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}
