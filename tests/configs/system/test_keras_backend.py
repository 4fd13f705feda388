"""The backend of each command is chosen before any work."""

import errno
import importlib
import os
import sys

import pytest

from transbeam import __main__ as command_line
from transbeam import stage_process
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.system.keras_backend import (
    backend_for,
    chosen_backend,
    take_backend,
)

COMMANDS = [*command_line.ROOMS, "run"]
WITHOUT = {"explain", "cost"}
EITHER = {"run", "train", "evaluate", "sweep", "suite", "import", "trim"}


def anything(name: str) -> bool:
    return True


@pytest.mark.parametrize("chosen", ["tensorflow", "jax"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_runs_under_either(command: str, chosen: str) -> None:
    found = backend_for(command, {"KERAS_BACKEND": chosen}, anything)
    if command in WITHOUT:
        assert found is None
    else:
        assert found == (chosen if command in EITHER else "tensorflow")


@pytest.mark.parametrize("chosen", ["torch", "jaxx"])
@pytest.mark.parametrize("command", COMMANDS)
def test_what_nothing_trains_on_is_refused_or_left_aside(command, chosen) -> None:
    environment = {"KERAS_BACKEND": chosen}
    if command in EITHER:
        with pytest.raises(ConfigError, match=f"^KERAS_BACKEND={chosen}: "):
            backend_for(command, environment, anything)
    else:
        found = backend_for(command, environment, anything)
        assert found == (None if command in WITHOUT else "tensorflow")


@pytest.mark.parametrize("room", ["transbeam", "of its own"])
@pytest.mark.parametrize("chosen", ["torch", "openvino", "jaxx"])
@pytest.mark.parametrize("command", sorted(EITHER))
def test_others_are_refused_in_one_line(
    command, chosen, room, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("KERAS_BACKEND", chosen)
    program = command_line
    if room != "transbeam" and command in command_line.ROOMS:
        program = importlib.import_module(
            f"transbeam.{command_line.ROOMS[command]}.__main__"
        )
    assert program.main([command, "configs/tiny/causal.yaml"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"KERAS_BACKEND={chosen}" in line
    assert "tensorflow or jax" in line


def test_what_is_not_installed_is_named() -> None:
    with pytest.raises(ConfigError, match=r"jax is not installed here.*transbeam\[jax"):
        backend_for("train", {"KERAS_BACKEND": "jax"}, lambda name: name != "jax")


@pytest.mark.parametrize(
    ("content", "backend"),
    [
        ('{"backend": "jax"}', "jax"),
        ('{"floatx": "float32"}', "tensorflow"),
        ("[", "tensorflow"),
    ],
)
def test_keras_has_a_file_of_its_own(tmp_path, content: str, backend: str) -> None:
    (tmp_path / "keras.json").write_text(content)
    home = {"KERAS_HOME": str(tmp_path)}
    assert chosen_backend(home) == backend
    assert chosen_backend({**home, "KERAS_BACKEND": "jax"}) == "jax"


def test_the_file_that_chose_what_is_refused_is_named(tmp_path) -> None:
    file = tmp_path / "keras.json"
    file.write_text('{"backend": "torch"}')
    with pytest.raises(ConfigError) as refused:
        backend_for("train", {"KERAS_HOME": str(tmp_path)})
    assert str(refused.value).startswith(f"{file}: backend=torch: `transbeam train`")


@pytest.mark.parametrize(
    ("command", "backend"), [("train", "jax"), ("data", "tensorflow"), ("cost", "")]
)
def test_all_that_a_command_starts_gets_its_backend(
    tmp_path, monkeypatch, command: str, backend: str
) -> None:
    """Keras and child processes; and what asks which worker this is."""
    (tmp_path / "keras.json").write_text('{"backend": "jax"}')
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setenv("KERAS_BACKEND", "")
    monkeypatch.delitem(sys.modules, "keras", raising=False)
    take_backend(command)
    assert os.environ["KERAS_BACKEND"] == backend


class Pipe(list):
    send = list.append


@pytest.mark.parametrize(
    "error",
    [
        ArtifactError("nothing is trained"),
        OSError(errno.ENOSPC, "No space left on device", "runs/export"),
        KeyboardInterrupt(),
    ],
)
def test_what_stopped_a_stage_in_another_process_is_told_in_this(
    error: BaseException, monkeypatch
) -> None:
    pipe = Pipe()
    stage_that_raises(error, monkeypatch)
    stage_process._run_there("exports", "export", "tensorflow", None, pipe)
    assert pipe == [error]


def test_a_spawned_process_finds_the_stage() -> None:
    """It imports no module `__main__` of a package; so says multiprocessing.spawn."""
    assert not stage_process._run_there.__module__.endswith("__main__")


@pytest.mark.parametrize("bug", [ValueError(), OSError(errno.EBADF, "Bad file")])
def test_a_bug_keeps_its_traceback(bug: Exception, monkeypatch) -> None:
    pipe = Pipe()
    stage_that_raises(bug, monkeypatch)
    with pytest.raises(type(bug)):
        stage_process._run_there("exports", "export", "tensorflow", None, pipe)
    assert pipe == []


def stage_that_raises(error: BaseException, monkeypatch) -> None:
    def export(invocation) -> None:
        raise error

    room = type("Room", (), {"export": staticmethod(export)})
    monkeypatch.setattr(stage_process, "load_room", lambda module: room)
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
