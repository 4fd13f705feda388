"""A written file is whole or not there, and a disk that refuses is told plainly."""

import errno
import os

import pytest

from transbeam.configs.base.atomic_files import write_atomically, write_json, writing
from transbeam.configs.base.errors import ArtifactError


def test_content_arrives_byte_by_byte(tmp_path):
    write_atomically(tmp_path / "a", "Grüße\r\n")
    write_atomically(tmp_path / "b", b"\x00\xff")
    assert (tmp_path / "a").read_bytes() == "Grüße\r\n".encode()
    assert (tmp_path / "b").read_bytes() == b"\x00\xff"
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_others_may_read_it_as_the_umask_says(tmp_path):
    (tmp_path / "ordinary").write_text("")
    write_atomically(tmp_path / "ours", "")
    ours, ordinary = (tmp_path / name for name in ("ours", "ordinary"))
    assert ours.stat().st_mode == ordinary.stat().st_mode


def test_old_file_stays_when_the_disk_is_full(tmp_path, monkeypatch):
    file = tmp_path / "stage.json"
    file.write_text("old")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArtifactError) as caught:
        write_json(file, {"new": 1})
    assert str(caught.value) == (
        f"{file}: cannot be written: no space is left on the disk. Free some, or "
        "choose another folder."
    )
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["stage.json"]


def test_kill_before_the_rename_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "stage.json"
    file.write_text("old")

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(file, "new")
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["stage.json"]


def test_not_a_number_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "a.json", {"loss": float("nan")})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EACCES, "permission denied"),
        (errno.EROFS, "the file system is read-only"),
        (errno.EDQUOT, "the disk quota is used up"),
    ],
)
def test_what_the_user_can_mend_is_said_in_words(number, words):
    refusal = pytest.raises(ArtifactError, match=f"a/b: cannot be written: {words}")
    with refusal, writing("a/b"):
        raise OSError(number, "")


def test_path_through_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="a part of the path is a file"):
        write_atomically(tmp_path / "file" / "inner", "")
    with pytest.raises(ArtifactError, match="a folder is in the way"):
        write_atomically(tmp_path, "")


def test_other_errors_are_bugs_and_stay_what_they_are(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "no folder" / "file", "")
    with pytest.raises(ZeroDivisionError), writing(tmp_path):
        1 / 0  # noqa: B018
