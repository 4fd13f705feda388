"""Differences between how a checkpoint's images are prepared and how ours are.

preprocessor_config.json     what transformers does to an image before the model

Ours are resized to the model's size by a bilinear filter, and their values go from -1
to 1: what a ViT has where the file says nothing else.
"""

from pathlib import Path
from typing import Any

from transbeam.model.weights.checkpoints.hf_config import HFConfig, shown

FILE = "preprocessor_config.json"

# Settings under which images are prepared as here; left out, they are the same.
_OURS: dict[str, Any] = {
    "do_resize": True,
    "do_rescale": True,
    "do_normalize": True,
    "do_center_crop": False,
    "resample": 2,  # bilinear, as Pillow counts
}
_HALF = 0.5
_CLOSE = 1e-6


def image_differences(folder: Path, image_size: int) -> list[str]:
    """The settings of `preprocessor_config.json` that ours do otherwise.

    Args:
        folder: The checkpoint's.
        image_size: Height and width that the model reads.

    Returns:
        Keys with their values; none where there is no such file.

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
    """Tells a number, or a list of numbers that are all the same.

    Example:
    >>> _is_all([0.5, 0.5], 0.5), _is_all(0.5, 0.5), _is_all([0.5, 0.4], 0.5)
    (True, True, False)
    """
    values = value if isinstance(value, list) else [value]
    return all(
        isinstance(each, int | float) and abs(each - wanted) < _CLOSE for each in values
    )
