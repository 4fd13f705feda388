"""Finds the YAML file that the argument CONFIG names, and the files of the presets."""

from functools import cache
from pathlib import Path

from transbeam.configs.base.errors import ConfigError

RUN_FILE = "run.yaml"
_STAGES = ("data", "training", "export", "phone")


def run_file(path: str | Path) -> Path:
    """The configuration file that CONFIG names.

    For a run's folder, the file is the folder's own `run.yaml`, which imported runs
    have, or else the `run.yaml` of the stage that was finished last.

    Args:
        path: A YAML file, which need not exist, or a run's folder.

    Raises:
        ConfigError: CONFIG is a folder without a configuration file, or the folder of a
            stage.
    """
    path = Path(path)
    if not path.is_dir():
        return path
    if (path / "stage.json").is_file():
        raise ConfigError(
            f"{path}: is the folder of a stage. Name that of the run: {path.parent}"
        )
    if (path / RUN_FILE).is_file():
        return path / RUN_FILE
    files = [path / stage / RUN_FILE for stage in _STAGES]
    of_stages = [file for file in files if file.is_file()]
    if not of_stages:
        raise ConfigError(
            f"{path}: no {RUN_FILE} is in this folder or in those of its stages. Name "
            "a YAML file, or the folder of a run of which a stage is done"
        )
    return max(of_stages, key=lambda file: (file.stat().st_mtime_ns, file))


_PRESETS = Path(__file__).parents[1] / "presets"


@cache
def preset_files() -> dict[str, Path]:
    """Returns the file of each preset, in the order of their names.

    Example:
    >>> preset_files()["bert_base"].name
    'bert_base.yaml'
    """
    return {path.stem: path for path in sorted(_PRESETS.glob("*.yaml"))}
