"""Differences between a checkpoint's image preprocessing and ours.

preprocessor_config.json     image preprocessing of transformers

Ours resizes images to the model's size with a bilinear filter and scales values to -1
to 1, which is the default of ViT in transformers.
"""

from pathlib import Path
from typing import Any

from transbeam.model.weights.checkpoints.hf_config import HFConfig, shown

FILE = "preprocessor_config.json"

# The settings of our preprocessing, which are also the defaults of missing keys.
_OURS: dict[str, Any] = {
    "do_resize": True,
    "do_rescale": True,
    "do_normalize": True,
    "do_center_crop": False,
    "resample": 2,  # bilinear, in Pillow's numbering
}
_HALF = 0.5
_CLOSE = 1e-6


def image_differences(folder: Path, image_size: int) -> list[str]:
    """Lists the settings of `preprocessor_config.json` that differ from ours.

    Args:
        folder: The checkpoint's folder.
        image_size: Height and width of the model's input.

    Returns:
        Keys with their values; empty if there is no such file.

    Raises:
        ArtifactError: The file is damaged.
    """
    file = folder / FILE
    if not file.is_file():
        return []
    told = HFConfig.of_file(file).values
    others = {
        key: told[key]
        for key, ours in _OURS.items()
        if key in told and told[key] != ours
    }
    if told.get("do_normalize", True) is not False:
        for key in ("image_mean", "image_std"):
            if key in told and not _is_all(told[key], _HALF):
                others[key] = told[key]
    if told.get("do_rescale", True) is not False:
        factor = told.get("rescale_factor", 1 / 255)
        if not _is_all(factor, 1 / 255):
            others["rescale_factor"] = factor
    if told.get("do_resize", True) is not False and "size" in told:
        size = told["size"]
        sides = list(size.values()) if isinstance(size, dict) else size
        if not _is_all(sides, image_size) or "shortest_edge" in str(size):
            others["size"] = size
    return [f"{key}={shown(value)}" for key, value in others.items()]


def _is_all(value: Any, wanted: float) -> bool:
    """Tells if a number, or every number of a list, has a given value.

    Example:
    >>> _is_all([0.5, 0.5], 0.5), _is_all(0.5, 0.5), _is_all([0.5, 0.4], 0.5)
    (True, True, False)
    """
    values = value if isinstance(value, list) else [value]
    return all(
        isinstance(each, int | float) and abs(each - wanted) < _CLOSE for each in values
    )
