"""Every key of the YAML is explained, every configuration in the project loads."""

from pathlib import Path

import pytest

from tests.finished_runs import runs_before_tasks
from transbeam.configs.loader.explain import explain
from transbeam.configs.loader.yaml_config import flatten, load_run

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configuration_loads_and_names_its_command(
    path: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs_before_tasks(Path("runs"))
    within = path.relative_to(ROOT)
    folders = within.parts[1:-1]
    assert load_run(path).name == "_".join([*folders, path.stem])
    header = path.read_text().split("name:")[0]
    assert f"transbeam run {within}" in header or f"transbeam data {within}" in header


@pytest.mark.parametrize("key", flatten(load_run(CONFIGS[0])))
def test_every_key_is_explained(key: str) -> None:
    assert len(explain(key).split()) > 5
