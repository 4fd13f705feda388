"""Bodies in gzip, unpacked within a limit."""

import gzip
import time

import pytest

from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.rest_api.request_body import unpack

MOST = 100_000


def pack(content):
    return gzip.compress(content, mtime=0)


@pytest.mark.parametrize(
    ("body", "content"),
    [
        (pack(b"abc"), b"abc"),
        (pack(b"ab") + pack(b"c"), b"abc"),
        (pack(b"") + pack(b"abc") + pack(b""), b"abc"),
        (pack(b"abc") + b"\0" * 600, b"abc"),
        (pack(b"abc") + b"\0" * 2**17, b"abc"),
        (pack(b"a" * 60_000) + pack(b"b" * 40_000), b"a" * 60_000 + b"b" * 40_000),
        (pack(b"a") * 1000, b"a" * 1000),
    ],
)
def test_members_are_read_one_after_another(body, content):
    assert unpack(body, MOST) == content


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "cut off"),
        (pack(b"abc")[:-1], "cut off"),
        (pack(b"abc") + pack(b"abc")[:-1], "cut off"),
        (pack(b"abc") + b"abc", "is not gzip, in its member 2"),
        (pack(b"abc") + b"\0" + pack(b"abc"), "goes on behind its gzip"),
        (pack(b"abc") + b"\0" * 2**17 + b"a", "goes on behind its gzip"),
        (b"\0" + pack(b"abc"), "is not gzip"),
        (pack(b"a" * 60_000) + pack(b"b" * 40_001), "larger than the 100,000 bytes"),
        (pack(b"a") * 1001, "more than 1,000 gzip members"),
    ],
)
def test_what_is_no_gzip(body, message):
    with pytest.raises(StatusError) as caught:
        unpack(body, MOST)
    assert message in caught.value.message


def test_many_members_take_no_longer_than_their_bytes():
    began = time.monotonic()
    with pytest.raises(StatusError):
        unpack(pack(b"") * 700_000, 2**24)
    assert time.monotonic() - began < 2
