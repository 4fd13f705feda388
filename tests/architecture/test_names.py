"""Every key of the YAML is explained, every configuration in the project loads."""

from pathlib import Path

import pytest

from configs.explain import explain
from configs.load import flatten, load_run

CONFIGS = sorted((Path(__file__).parents[2] / "configs").rglob("*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configuration_loads_and_names_its_command(path: Path) -> None:
    config = load_run(path)
    assert config.name.replace("_", "") == (
        path.stem if path.parent.name == "configs" else f"tiny{path.stem}"
    )
    header = path.read_text().split("name:")[0]
    command = path.relative_to(path.parents[len(path.parts) - 3]).as_posix()
    assert "transbeam run configs/" in header, command


@pytest.mark.parametrize("key", flatten(load_run(CONFIGS[0])))
def test_every_key_is_explained(key: str) -> None:
    assert len(explain(key).split()) > 5
