"""A stage is made once, by whoever comes first, and nobody writes into it unseen."""

import multiprocessing

import pytest

from tests.harness import stages
from tests.harness.stages import built, changed, copy_of, stage, tidy


def make(folder):
    (folder / "below").mkdir()
    (folder / "below/file").write_text("made")


def folder_names(root):
    return sorted(path.name for path in root.iterdir() if path.is_dir())


def ask(root):
    stage("one", make, root)


def test_it_is_made_once_for_all_processes(tmp_path, monkeypatch):
    monkeypatch.setenv(stages.RUN, "this run")
    spawn = multiprocessing.get_context("fork")
    askers = [spawn.Process(target=ask, args=(tmp_path,)) for _ in range(3)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    folder = stage("one", make, tmp_path)
    assert (folder / "below/file").read_text() == "made"
    assert [made["stage"] for made in built("this run", tmp_path)] == [folder.name]
    assert built("another run", tmp_path) == []


def test_what_fails_is_made_again(tmp_path):
    def fail(folder):
        (folder / "half").touch()
        raise ValueError("half")

    with pytest.raises(ValueError, match="half"):
        stage("one", fail, tmp_path)
    with pytest.raises(ValueError, match="half"):
        stage("one", fail, tmp_path)
    assert not list(tmp_path.glob("*.done"))


def test_a_test_that_writes_takes_a_copy(tmp_path):
    folder = stage("one", make, tmp_path / "stages")
    copy = copy_of(folder, tmp_path / "copy")
    (copy / "below/file").write_text("changed")
    assert not changed(tmp_path / "stages")


@pytest.mark.parametrize("spoil", ["write", "add", "remove"])
def test_what_is_written_into_a_stage_is_found(tmp_path, spoil):
    folder = stage("one", make, tmp_path)
    file = folder / "below/file"
    file.chmod(0o644)
    match spoil:
        case "write":
            file.write_text("else")
        case "add":
            (folder / "new").touch()
            file = folder / "new"
        case "remove":
            file.unlink()
    assert changed(tmp_path) == [f"{folder.name}/{file.relative_to(folder)}"]


def test_another_processor_or_helper_has_other_stages(monkeypatch, tmp_path):
    keys = set()
    for processor in ("a", "b"):
        monkeypatch.setattr(stages, "_processor", lambda name=processor: name)
        keys.add(stages.key_of_now.__wrapped__())
    assert len(keys) == 2
    helper = tmp_path / "tests/helper.py"
    helper.parent.mkdir()
    monkeypatch.setattr(stages, "ROOT", tmp_path)
    for content in ("1", "2"):
        helper.write_text(content)
        keys.add(stages.key_of_now.__wrapped__())
    (tmp_path / "tests/test_it.py").write_text("3")
    keys.add(stages.key_of_now.__wrapped__())
    assert len(keys) == 4


def test_old_stages_go(tmp_path, monkeypatch):
    for number in range(5):
        (tmp_path / str(number)).mkdir()
    tidy(tmp_path)
    assert len(folder_names(tmp_path)) == 5
    monkeypatch.setattr(stages, "YOUNG", -1.0)
    tidy(tmp_path)
    assert len(folder_names(tmp_path)) == stages.KEPT
