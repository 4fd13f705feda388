"""Every key of the YAML is explained, every configuration in the project loads."""

from pathlib import Path

import pytest

from tests.finished_runs import runs_before_tasks
from transbeam.configs.loader.explain import explain
from transbeam.configs.loader.suite import load_suite
from transbeam.configs.loader.yaml_config import flatten, load_run

ROOT = Path(__file__).parents[2]
# The folder says which kind of file it is: a suite, or the configuration of a run.
SUITES = sorted((ROOT / "configs/suites").glob("*.yaml"))
CONFIGS = sorted({*(ROOT / "configs").rglob("*.yaml")} - {*SUITES})


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_suite_loads_and_names_its_command(path: Path, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    runs_before_tasks(Path("runs"))
    header, _, keys = path.read_text().partition("name:")
    command = f"transbeam suite {path.relative_to(ROOT)}"
    assert command in header
    begun = ["model.init_from=runs/minilm"] if f"{command} --init" in header else []
    suite = load_suite(path, begun)
    assert suite.name == path.stem
    # Without `--init` in its command, a suite says itself which model it begins with.
    assert begun or all(
        row.config.training.init_from or row.config.training.distillation
        for row in suite.rows
    )
    assert len({row.config.name for row in suite.rows}) == keys.count("- name:")


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
