"""Lines with a label before the text: every line is one document or one rejection."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.sources.readers.read_one_file import read_file, reasons
from transbeam.configs.schema.table_sources import LabeledLinesSourceConfig
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.sources.corpus_files import list_files
from transbeam.pipeline.sources.readers import labeled_lines
from transbeam.pipeline.sources.work_units import plan_units, read_unit


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("labeled") / "a.txt"


def read(path, content: bytes, step: int = 0, **options):
    path.write_bytes(content)
    source = LabeledLinesSourceConfig(path=str(path), **options)
    return read_file(labeled_lines, source, step)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["0", "very-good", "größe"]),
            st.sampled_from(["\t", " ", " \t "]),
            st.text(st.sampled_from('aé:,"\u00a0'), min_size=1),
        )
    ),
    st.integers(1, 40),
)
def test_round_trip_in_any_spans(scratch, rows, step):
    found = read(scratch, "\n".join(map("".join, rows)).encode(), step)
    documents = [(i.label, i.text) for i in found if isinstance(i, Document)]
    assert documents == [(label, text) for label, _, text in rows]


def test_by_hand(tmp_path):
    found = read(tmp_path / "a.txt", b"\xef\xbb\xbf1\tgood film\r\n\n 0 bad\tfilm \n")
    assert found == [
        Document("good film", "a.txt", 0, label="1"),
        Document("bad\tfilm", "a.txt", 17, label="0"),
    ]


def test_bad_lines_are_rejected_one_by_one(tmp_path):
    content = b"1\n0 caf\xe9\n1 a\n"
    found = read(tmp_path / "a.txt", content)
    assert reasons(found) == [(0, "no text after the label"), (7, "not UTF-8")]
    assert len(found) == 3
    assert [item.size for item in found[:2]] == [1, 7]


def test_the_prefix_of_labels(tmp_path):
    content = b"__label__a one\n__label__ two\nb three\n__label__a __label__b four\n"
    found = read(tmp_path / "a.txt", content, prefix="__label__")
    assert found[0] == Document("one", "a.txt", 0, label="a")
    assert [why for _, why in reasons(found)] == [
        "no label",
        "a line that does not begin with '__label__'",
        "more than one label",
    ]


def test_a_large_file_is_cut(tmp_path):
    (tmp_path / "a.txt").write_text("1 a row\n" * 100)
    source = LabeledLinesSourceConfig(path=f"{tmp_path}/*.txt")
    units = plan_units(list_files(source), source, 100)
    assert len(units) == 8
    found = [item for unit in units for item in read_unit(unit, source)]
    assert [item.offset for item in found] == list(range(0, 800, 8))
