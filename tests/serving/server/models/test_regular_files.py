"""Only regular files are read: others may never end, or never start."""

import os
import socket

import pytest

from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.models.regular_files import check_regular_files

PLACES = (
    "saved_model.pb",
    "batching_params.pbtxt",
    "variables/variables.index",
    "assets/vocabulary.txt",
    "assets.extra/deep/inside",
)


@pytest.fixture
def version(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # paths of sockets are short
    for place in PLACES:
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"content")
    return tmp_path


def test_files_and_links_to_them_are_read(version):
    (version / "elsewhere").write_bytes(b"content")
    (version / "assets/linked").symlink_to(version / "elsewhere")
    (version / "assets/lost").symlink_to(version / "nothing")
    os.mkfifo(version / "nobody-reads-this")
    check_regular_files(version)
    check_regular_files(version / "none")


@pytest.mark.parametrize("place", PLACES)
def test_a_fifo_is_refused(version, place):
    (version / place).unlink()
    os.mkfifo(version / place)
    with pytest.raises(StatusError, match=f"{place}: found a FIFO; expected a file"):
        check_regular_files(version)


def test_what_else_is_no_file_is_refused(version):
    path = version / "saved_model.pb"
    path.unlink()
    path.mkdir()
    with pytest.raises(StatusError, match="found a folder"):
        check_regular_files(version)
    path.rmdir()
    path.symlink_to("/dev/zero")
    with pytest.raises(StatusError, match="found a device"):
        check_regular_files(version)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path.name)
        with pytest.raises(StatusError, match="found a socket"):
            check_regular_files(version)
