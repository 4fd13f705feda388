"""The job's last line says what is lost."""

from typing import Any

from transbeam.pipeline.manifest_writer import describe

COUNTS: dict[str, Any] = {
    "records": {"train": 60},
    "tokens": {"train": 1_800},
    "read": 61,
    "characters": 1_234_567,
    "filtered": {},
    "quarantined": {"damaged gzip stream": 1},
}
RESULT: dict[str, Any] = {
    "manifest": "run/data/manifest.json",
    "counts": COUNTS,
    "leaks_prevented": 0,
    "padding_fraction": {"train": 0.001},
    "truncated": {"documents": 0, "tokens": 0},
    "unread": {"bytes": 0, "files": []},
}
BEGIN = (
    "60 training and 0 validation records of 1,800 tokens from 61 documents (1.2 MB of "
    "text; 0 filtered, 1 quarantined, see run/data/quarantine); 0.1% padding"
)


def test_nothing_more_to_say() -> None:
    assert describe(RESULT) == BEGIN


def test_what_is_cut_off_and_what_is_not_read() -> None:
    unread = {
        "name": "a.warc.gz",
        "size": 2_000,
        "unread": 675,
        "documents": 60,
        "doubtful": False,
        "reasons": ["damaged gzip stream"],
    }
    result = {
        **RESULT,
        "truncated": {"documents": 1, "tokens": 36_022},
        "unread": {"bytes": 675, "files": [unread]},
    }
    assert describe(result) == (
        f"{BEGIN}; 1 document cut, 36,022 of 37,822 tokens left out; not read: 675 of "
        "2,000 bytes of a.warc.gz"
    )
    sentences = {"documents": 0, "tokens": 200}
    told = "; 200 of 2,000 tokens left out"
    assert describe({**RESULT, "truncated": sentences}) == BEGIN + told
