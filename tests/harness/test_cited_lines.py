"""Tests of TF Serving's contract say where their cases are from, and truly."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.harness.cited_lines import (
    TESTS,
    VARIABLE,
    Citation,
    citations,
    commit,
    missing_tests,
    rows_without_citation,
    wrong_lines,
)

SHORT = "tensorflow/serving: "


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A repository with a file of three lines, and two files of one name."""
    folder = tmp_path_factory.mktemp("serving")
    for name in ("util/json.cc", "util/same.cc", "core/same.cc"):
        file = folder / "tensorflow_serving" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("first\nTEST(Json, Nested) {\nlast\n")
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for arguments in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "all"]):
        subprocess.run(["git", "-C", folder, *arguments], check=True)
    return folder


@pytest.mark.parametrize(
    ("file", "line", "word", "message"),
    [
        ("util/json.cc", 2, "Nested", None),
        ("json.cc", 2, "Nest", None),
        ("json.cc", 3, "Nested", "json.cc:3: expected 'Nested', found 'last'"),
        ("json.cc", 4, "Nested", "json.cc:4: the file has 3 lines"),
        ("same.cc", 1, "first", "same.cc: 2 files of that name at HEAD"),
        ("core/same.cc", 1, "first", None),
        ("on.cc", 1, "first", "on.cc: 0 files of that name at HEAD"),
    ],
)
def test_lines_are_looked_up(sources, file, line, word, message):
    cited = Citation(Path("test_a.py"), 7, file, line, word)
    expected = [] if message is None else [f"test_a.py:7: {message}"]
    assert wrong_lines([cited], sources, "HEAD") == expected


def test_citations_have_one_form(tmp_path):
    file = tmp_path / "test_a.py"
    file.write_text(f"# {SHORT}util/json.cc:2 Nested\n")
    assert citations(file) == [Citation(file, 1, "util/json.cc", 2, "Nested")]
    for text in ("util/json.cc:2", "util/json.cc Nested", "util/json.cc:2 two words"):
        file.write_text(f"# {SHORT}{text}\n")
        with pytest.raises(ValueError, match=r"test_a\.py:1: expected"):
            citations(file)


def test_each_case_of_the_table_has_a_test_that_says_where_it_is_from():
    assert missing_tests() == []
    assert rows_without_citation() == []


@pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} is not set")
def test_the_lines_are_there():
    cited = [one for file in sorted(TESTS.rglob("*.py")) for one in citations(file)]
    assert wrong_lines(cited, Path(os.environ[VARIABLE]), commit()) == []
