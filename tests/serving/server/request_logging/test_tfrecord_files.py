"""Files of requests: their names, when they are whole, and what a disk may do."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
import tensorflow as tf

from transbeam.serving.server.request_logging import tfrecord_files as files
from transbeam.serving.server.request_logging.tfrecord_files import (
    RecordFiles,
    encode_tfrecord,
)

NAME = r"demo-\d{8}T\d{6}\.\d{6}Z-[\w.-]+-%d\.tfrecord"


@pytest.fixture
def logs(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


def begin(logs, **options):
    return RecordFiles(f"{logs}{os.sep}", "demo", **options)


def there(logs):
    return sorted(path.name for path in logs.iterdir())


def read(path, records=None):
    """Reads records with TensorFlow; into `records` if this may fail."""
    found = [] if records is None else records
    for record in tf.data.TFRecordDataset(str(path)):
        found.append(record.numpy())
    return found


def read_all(logs):
    return [record for name in there(logs) for record in read(logs / name)]


@pytest.mark.parametrize("record", [b"", b"a", b"\x00\xff" * 100_000])
def test_a_record_is_framed_as_tensorflow_does(tmp_path, record):
    file = tmp_path / "file"
    with tf.io.TFRecordWriter(str(file)) as writer:
        writer.write(record)
    assert encode_tfrecord(record) == file.read_bytes()


def test_a_file_has_its_name_when_nothing_more_comes(logs):
    kept = begin(logs)
    assert there(logs) == []
    kept.write(b"one")
    kept.write(b"two")
    [name] = there(logs)
    assert re.fullmatch(NAME % os.getpid() + r"\.tmp", name)
    # It can be read all the same.
    assert read(logs / name) == [b"one", b"two"]
    kept.close()
    assert there(logs) == [name.removesuffix(".tmp")]
    assert read_all(logs) == [b"one", b"two"]
    kept.close()


def test_only_who_wrote_it_may_read_it(logs):
    kept = begin(logs)
    kept.write(b"one")
    [name] = there(logs)
    assert (logs / name).stat().st_mode & 0o777 == 0o600
    kept.close()


def test_a_prefix_that_is_no_folder(logs):
    kept = RecordFiles(f"{logs}/requests", "demo")
    kept.write(b"one")
    kept.close()
    [name] = there(logs)
    assert re.fullmatch("requests-" + NAME % os.getpid(), name)


def test_a_large_file_is_followed_by_another(logs):
    kept = begin(logs, most_bytes=100)
    records = [bytes([number]) * 30 for number in range(7)]
    for record in records:
        kept.write(record)
    kept.close()
    # Three records of 46 bytes are more than a hundred.
    assert len(there(logs)) == 3
    assert not any(name.endswith(".tmp") for name in there(logs))
    # Names rise with time.
    assert read_all(logs) == records


def test_two_servers_never_write_the_same_file(logs):
    one, other = begin(logs), begin(logs)
    for number in range(3):
        one.write(b"one %d" % number)
        other.write(b"other %d" % number)
    one.close()
    other.close()
    found = [read(logs / name) for name in there(logs)]
    assert sorted(found) == [
        [b"one 0", b"one 1", b"one 2"],
        [b"other 0", b"other 1", b"other 2"],
    ]


def test_a_killed_process_leaves_whole_records(logs):
    program = (
        "import sys, time\n"
        "from transbeam.serving.server.request_logging import tfrecord_files\n"
        "kept = tfrecord_files.RecordFiles(sys.argv[1] + '/', 'demo', 2**40)\n"
        "for number in range(20_000):\n"
        "    kept.write(b'%d ' % number * 1000)\n"
        "    if number == 100:\n"
        "        print('many', flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", program, str(logs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"many\n"
        process.send_signal(signal.SIGKILL)
    [left] = logs.iterdir()
    assert left.name.endswith(".tmp")
    records = []
    # The last one may be cut, and is told to be.
    with suppress(tf.errors.DataLossError):
        read(left, records)
    assert len(records) > 100
    assert records == [b"%d " % number * 1000 for number in range(len(records))]


def test_a_record_that_is_cut_is_found_out(logs):
    kept = begin(logs)
    kept.write(b"one")
    kept.write(b"two")
    [name] = there(logs)
    os.truncate(logs / name, (logs / name).stat().st_size - 1)
    records = []
    with pytest.raises(tf.errors.DataLossError):
        read(logs / name, records)
    assert records == [b"one"]
    kept.close()


@pytest.fixture
def full(monkeypatch):
    """A disk that takes five bytes more, when it is told to be full."""
    write = os.write
    disk = {"full": False}

    def until_full(file, data):
        if disk["full"]:
            if len(data) <= 5:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(file, data[:5])
        return write(file, data)

    monkeypatch.setattr(files.os, "write", until_full)

    def switch(state):
        disk["full"] = state

    return switch


def test_a_full_disk_keeps_what_was_whole(logs, full):
    kept = begin(logs)
    kept.write(b"one")
    full(True)
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            kept.write(b"two")
    # The first has its name; of the second nothing is left.
    assert len(there(logs)) == 1
    assert read_all(logs) == [b"one"]
    full(False)
    kept.write(b"three")
    kept.close()
    assert read_all(logs) == [b"one", b"three"]


def test_a_folder_that_is_gone_is_not_made_again(logs):
    kept = begin(logs)
    kept.write(b"one")
    shutil.rmtree(logs)
    with pytest.raises(FileNotFoundError):
        kept.write(b"two")
    assert not logs.exists()
    logs.mkdir()
    kept.write(b"three")
    kept.close()
    assert read_all(logs) == [b"three"]


def test_a_file_that_was_taken_away_is_whole(logs, tmp_path):
    kept = begin(logs)
    kept.write(b"one")
    [name] = there(logs)
    (logs / name).rename(tmp_path / "taken")
    kept.write(b"two")
    kept.close()
    assert read(tmp_path / "taken") == [b"one"]
    assert read_all(logs) == [b"two"]


def test_a_file_that_another_was_put_in_the_place_of(logs):
    kept = begin(logs)
    kept.write(b"one")
    [name] = there(logs)
    (logs / name).unlink()
    (logs / name).write_bytes(b"")
    kept.write(b"two")
    kept.close()
    assert (logs / name).read_bytes() == b""
    others = [other for other in there(logs) if other != name]
    assert [read(logs / other) for other in others] == [[b"two"]]
