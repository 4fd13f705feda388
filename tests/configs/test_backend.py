"""What each command does under each backend is decided before any work."""

import pytest

import transbeam
from configs.backend import backend_for, chosen_backend
from configs.errors import ConfigError

WITHOUT = {"explain", "cost", "data", "tokenize"}
EITHER = {"run", "train", "evaluate", "sweep", "import", "trim"}


@pytest.mark.parametrize("chosen", ["tensorflow", "jax"])
@pytest.mark.parametrize("command", [*transbeam.ROOMS, "run"])
def test_every_command_runs_under_either(command: str, chosen: str) -> None:
    found = backend_for(command, {"KERAS_BACKEND": chosen}, lambda name: True)
    if command in WITHOUT:
        assert found is None
    else:
        assert found == (chosen if command in EITHER else "tensorflow")


@pytest.mark.parametrize("chosen", ["torch", "openvino", "jaxx"])
@pytest.mark.parametrize("command", sorted(EITHER))
def test_others_are_refused_in_one_line(command, chosen, monkeypatch, capsys) -> None:
    monkeypatch.setenv("KERAS_BACKEND", chosen)
    assert transbeam.main([command, "configs/tiny/causal.yaml"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"KERAS_BACKEND={chosen}" in line
    assert "tensorflow or jax" in line


def test_what_is_not_installed_is_named() -> None:
    with pytest.raises(ConfigError, match=r"jax is not installed here.*transbeam\[jax"):
        backend_for("train", {"KERAS_BACKEND": "jax"}, lambda name: name != "jax")


@pytest.mark.parametrize(
    ("content", "backend"), [('{"backend": "jax"}', "jax"), ("[", "tensorflow")]
)
def test_keras_has_a_file_of_its_own(tmp_path, content: str, backend: str) -> None:
    (tmp_path / "keras.json").write_text(content)
    home = {"KERAS_HOME": str(tmp_path)}
    assert chosen_backend(home) == backend
    assert chosen_backend({**home, "KERAS_BACKEND": "jax"}) == "jax"
