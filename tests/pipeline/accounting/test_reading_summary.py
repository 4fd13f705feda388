"""Every job that reads a source says what readers noticed, guessed and dropped."""

import pytest

from transbeam.configs.base.errors import DataError
from transbeam.configs.cli.console import Console
from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.pipeline.accounting.reading_summary import (
    check_reading,
    not_read,
    show_reading,
    sum_reading,
)

UNREAD = {"name": "a.gz", "size": 900, "unread": 70, "documents": 4}
STATES = [
    {
        "unread": [{**UNREAD, "doubtful": False, "reasons": ["damaged gzip stream"]}],
        "noted": [{"kind": "markup", "source": "a.en", "detail": "…", "times": 2}],
        "encodings": {"b.txt": ["cp1251", 0.66], "c.txt": ["utf-8", 1.0]},
        "page_encodings": {"koi8-r": 1_200},
        "dropped": {f"{{{{{i}}}}}": 9 - i for i in range(6)},
    },
    {
        "unread": [{**UNREAD, "doubtful": True, "reasons": ["truncated gzip stream"]}],
        "noted": [{"kind": "markup", "source": "a.en", "detail": "…", "times": 1}],
        "encodings": {"d.txt": ["cp1251", 0.9]},
    },
]


def test_what_is_said(capsys) -> None:
    reading = sum_reading(STATES)
    show_reading(Console(), reading)
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "detected encodings: cp1251 (2 files; b.txt with a confidence of 0.66), utf-8 "
        "(1 file), koi8-r (1,200 web pages)",
        "39 templates and formulas dropped inside sentences: 9 × {{0}}, 8 × {{1}}, "
        "7 × {{2}}, 6 × {{3}}, 5 × {{4}}, …",
    ]
    assert said.err == "warning: a.en: markup (3 times): …\n"
    told = "; not read: 140 of 900 bytes of a.gz and an unknown rest"
    assert not_read(reading) == told


def test_nothing_to_say(capsys) -> None:
    for reading in (sum_reading([{"unread": [], "noted": []}]), {}):
        show_reading(Console(), reading)
        assert not_read(reading) == ""
        check_reading(DataConfig(source=TextSourceConfig(path="x")), reading)
    assert capsys.readouterr() == ("", "")


def test_a_file_that_is_not_whole() -> None:
    data = DataConfig(source=TextSourceConfig(path="x"))
    with pytest.raises(DataError, match=r"a\.gz ends after 900 bytes, 8 documents; "):
        check_reading(data, sum_reading(STATES))
    accepting = DataConfig(
        source=TextSourceConfig(path="x"), accept_incomplete_files=True
    )
    check_reading(accepting, sum_reading(STATES))
    check_reading(data, sum_reading(STATES[:1]))
