"""Corpora elsewhere: an S3 server on loopback, and what others than S3 may raise."""

import glob
import gzip
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import moto.settings
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto.server import ThreadedMotoServer

from transbeam.configs.base.errors import DataError
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.schema.sources import SingleSource, TextSourceConfig
from transbeam.configs.schema.table_sources import (
    JsonlSourceConfig,
    ParquetSourceConfig,
)
from transbeam.pipeline.records.manifest import read_manifest
from transbeam.pipeline.sources.corpus_files import corpus_fingerprint, list_files
from transbeam.pipeline.sources.files import remote_files as remote
from transbeam.pipeline.sources.files.file_access import (
    matching_files,
    open_file,
    size_now,
)
from transbeam.pipeline.sources.files.remote_files import is_match, use_options
from transbeam.pipeline.sources.work_units import plan_units, read_unit
from transbeam.pipeline.stage import data

LINES = [f"Line {i} has a läne's worth of words.\n" for i in range(300)]
TEXT = "".join(LINES).encode()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="module")
def client(server: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=server,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )


@pytest.fixture
def s3(
    server: str, client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Any]:
    """A client of a server with an empty bucket; the environment knows neither."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    use_options(options(server))
    client.create_bucket(Bucket="bucket")
    yield client
    for entry in client.list_objects_v2(Bucket="bucket").get("Contents", []):
        client.delete_object(Bucket="bucket", Key=entry["Key"])
    client.delete_bucket(Bucket="bucket")
    use_options(())


def options(server: str) -> tuple[str, ...]:
    return (
        f"--s3_endpoint_url={server}",
        "--s3_region_name=us-east-1",
        "--s3_access_key_id=key",
        "--s3_secret_access_key=secret",
    )


def put(s3: Any, name: str, content: bytes = b"x") -> None:
    s3.put_object(Bucket="bucket", Key=name, Body=content)


def names(pattern: str) -> list[str]:
    return sorted(file.name for file in matching_files(pattern))


NAMES = st.text("ab.*[", min_size=1, max_size=3).filter(lambda n: n.strip("."))
PATHS = st.lists(NAMES, min_size=1, max_size=3)
PATTERNS = st.lists(
    st.one_of(st.just("**"), st.text("ab.*?[]!", min_size=1, max_size=3)),
    min_size=1,
    max_size=4,
).filter(lambda parts: not any(part in (".", "..") for part in parts))


@given(paths=st.lists(PATHS, max_size=6), pattern=PATTERNS)
def test_matches_are_those_of_local_globs(tmp_path_factory, paths, pattern) -> None:
    root = tmp_path_factory.mktemp("tree")
    made = []
    for path in paths:
        file = root.joinpath(*path)
        if any(parent.is_file() for parent in file.parents) or file.is_dir():
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        made.append(path)
    found = glob.glob("/".join(pattern), root_dir=root, recursive=True)
    # Of a file `a`, `glob` finds `a/` for `a/**`, which is no file.
    files = {name for name in found if os.path.isfile(os.path.join(root, name))}
    assert {"/".join(path) for path in made if is_match(path, pattern)} == files


def test_listing(s3, monkeypatch) -> None:
    for name in ("c/", "c/a.txt", "c/d/", "c/d/b.txt", "c/d/e/ä+ #1%20.txt"):
        put(s3, name)
    for name in ("c/.hidden.txt", "c/.git/a.txt", "c/d.md", "cc/a.txt"):
        put(s3, name)
    everywhere = ["a.txt", "d/b.txt", "d/e/ä+ #1%20.txt"]
    with monkeypatch.context() as pages:
        pages.setattr(moto.settings, "get_s3_default_max_keys", lambda: 2)
        assert names("s3://bucket/c/**/*.txt") == everywhere
    assert names("s3://bucket/c/*") == ["a.txt", "d.md"]
    assert names("s3://bucket/c/d/*/*1*") == ["e/ä+ #1%20.txt"]
    assert names("s3://bucket/c?/[ab].txt") == ["cc/a.txt"]
    assert names("s3://bucket/c/d/b.txt") == ["b.txt"]
    assert names("s3://bucket/c/d") == names("s3://bucket/c/d/") == []
    (file,) = matching_files("s3://bucket/c/d.md")
    assert (file.path, file.size) == ("s3://bucket/c/d.md", 1)
    assert (
        abs(
            file.modified / 1e9
            - s3.head_object(Bucket="bucket", Key="c/d.md")["LastModified"].timestamp()
        )
        < 1
    )


def parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": LINES}), sink, row_group_size=50)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.txt", TEXT, TextSourceConfig),
        ("a.txt.gz", gzip.compress(TEXT), TextSourceConfig),
        (
            "a.jsonl",
            "".join(json.dumps({"text": line}) + "\n" for line in LINES).encode(),
            JsonlSourceConfig,
        ),
        ("a.parquet", parquet(), ParquetSourceConfig),
    ],
)
def test_reads_as_if_it_were_here(s3, tmp_path: Path, name, content, kind) -> None:
    put(s3, f"corpus/{name}", content)
    (tmp_path / name).write_bytes(content)

    def read(source: SingleSource) -> tuple[int, list[Any]]:
        units = plan_units(list_files(source), source, unit_bytes=1000)
        return len(units), [item for unit in units for item in read_unit(unit, source)]

    units, there = read(kind(path=f"s3://bucket/corpus/{name}"))
    assert (units, there) == read(kind(path=f"{tmp_path}/{name}"))
    assert len(there) == len(LINES) or kind is TextSourceConfig
    assert (units > 1) == (name in ("a.txt", "a.jsonl"))


def test_files_share_a_connection_but_not_their_place(s3) -> None:
    put(s3, "a", bytes(200_000) + b"a")
    put(s3, "b", b"b")
    one, two = (remote._s3() for _ in range(2))
    assert one.client is not two.client
    assert one.client.client is two.client.client
    for file in matching_files("s3://bucket/?"):
        with open_file(file) as stream:
            stream.seek(-1, io.SEEK_END)
            assert stream.tell() == file.size - 1
            assert stream.read() == file.name.encode()


def test_same_records_as_from_here(s3, server, invoke, corpus: Path) -> None:
    for file in corpus.iterdir():
        put(s3, f"corpus/{file.name}", file.read_bytes())
    use_options(())  # the invocation's are to count
    there = "data.source.path=s3://bucket/corpus/*.txt"
    from_there: Invocation = invoke("there", there, beam_options=options(server))
    from_here: Invocation = invoke("here")
    results = [data(invocation) for invocation in (from_there, from_here)]
    assert results[0]["counts"] == results[1]["counts"]
    made = [read_manifest(i.run_folder / "data") for i in (from_there, from_here)]
    assert made[0].shards == made[1].shards
    assert data(from_there)["skipped"]


def test_change_and_loss_after_listing(s3) -> None:
    put(s3, "a.txt", b"one\n")
    source = TextSourceConfig(path="s3://bucket/*.txt")
    files = list_files(source)
    (unit,) = plan_units(files, source, 1000)
    put(s3, "a.txt", b"one\ntwo\n")
    with pytest.raises(DataError, match=r"a\.txt: changed while .* listed, 8 now"):
        list(read_unit(unit, source))
    assert corpus_fingerprint(list_files(source)) != corpus_fingerprint(files)
    s3.delete_object(Bucket="bucket", Key="a.txt")
    with pytest.raises(
        DataError, match=r"a\.txt: cannot be read: it is not there \(HT"
    ):
        list(read_unit(unit, source))
    for look in (size_now, lambda file: open_file(file).__enter__()):
        with pytest.raises(DataError, match=r"^s3://bucket/a\.txt: cannot be read"):
            look(files[0])


@pytest.mark.parametrize(
    ("path", "changed", "told"),
    [
        ("s3://none/*.txt", (), "specified bucket does not exist"),
        ("s3://Not_A_Name!/*.txt", (), "Invalid bucket name"),
        ("s3://buck*/a.txt", (), "must be in the form s3://<bucket>/<object>"),
        ("s3://bucket", (), "must be in the form s3://<bucket>/<object>"),
        ("s3://bucket/*", ("access_key_id", "secret_access_key"), "locate credentials"),
        ("s3://bucket/a", ("access_key_id", "secret_access_key"), "locate credentials"),
        ("s3://bucket/*", ("endpoint_url=nowhere",), "Invalid endpoint: nowhere"),
    ],
)
def test_what_s3_refuses_is_told_at_once(s3, server, path, changed, told) -> None:
    keys = [f"--s3_{key.partition('=')[0]}" for key in changed]
    kept = [o for o in options(server) if o.partition("=")[0] not in keys]
    use_options([*kept, *(f"--s3_{key}" for key in changed if "=" in key)])
    with pytest.raises(DataError) as caught:
        matching_files(path)
    assert str(caught.value).startswith(f"data.source: {path!r} cannot be listed: ")
    assert told in str(caught.value)


def test_refused_rights(s3, server, monkeypatch) -> None:
    put(s3, "a.txt")
    files = matching_files("s3://bucket/*.txt")
    with monkeypatch.context() as stern:
        stern.setattr(moto.settings, "INITIAL_NO_AUTH_ACTION_COUNT", 0.0)
        for look, told in [
            (lambda: matching_files("s3://bucket/*.txt"), "cannot be listed"),
            (lambda: matching_files("s3://bucket/a.txt"), "cannot be listed"),
            (lambda: size_now(files[0]), "cannot be read"),
            (open_file(files[0]).__enter__, "cannot be read"),
        ]:
            with pytest.raises(DataError, match=rf"{told}: .* \(HTTP 403\)\. Fix"):
                look()


@pytest.mark.parametrize(
    ("path", "module", "advice"),
    [
        ("gs://b/*.txt", "google.cloud.storage", "pip install 'transbeam[gcp]'"),
        ("gs://b/*.txt", "google_auth_httplib2", "pip install 'transbeam[gcp]'"),
        ("s3://b/*.txt", "boto3", "pip install 'transbeam[aws]'"),
        ("azfs://a/b/*.txt", "azure.storage.blob", "pip install 'apache-beam[azure]'"),
        ("hdfs://b/*.txt", "hdfs", "pip install 'apache-beam[hadoop]'"),
        ("tape://x", "tape", "Beam reads gs://, s3://"),
    ],
)
def test_file_system_that_is_not_installed(monkeypatch, path, module, advice) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DataError) as caught:
        matching_files(path)
    scheme = path.partition(":")[0]
    assert f"{path}: nothing installed here reads {scheme}://" in str(caught.value)
    assert advice in str(caught.value)


class Torn(io.RawIOBase):
    """A file over a connection that breaks after some hundred bytes."""

    def __init__(self, content: bytes) -> None:
        self.content = io.BytesIO(content)
        self.reads = 0

    def read(self, size: int = -1) -> bytes:
        self.reads += 1
        if self.reads > 3:
            raise RuntimeError("the other side\nhung up.")
        return self.content.read(min(size, 200))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self.content.seek(offset, whence)

    def tell(self) -> int:
        return self.content.tell()


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.txt", TEXT, TextSourceConfig),
        ("a.txt.gz", gzip.compress(TEXT), TextSourceConfig),
        ("a.parquet", parquet(), ParquetSourceConfig),
    ],
)
def test_broken_connection_is_no_damaged_file(s3, monkeypatch, name, content, kind):
    put(s3, name, content)
    source = kind(path=f"s3://bucket/{name}")
    (unit,) = plan_units(list_files(source), source, 10**6)
    opened: list[Torn] = []

    def torn(self: Any, path: str, read_buffer_size: int) -> Torn:
        opened.append(Torn(content))
        return opened[-1]

    monkeypatch.setattr("apache_beam.io.aws.s3io.S3IO.open", torn)
    with pytest.raises(
        DataError, match=rf"{name}: cannot be read: the other side hung up\. Fix"
    ):
        list(read_unit(unit, source))
    assert opened
