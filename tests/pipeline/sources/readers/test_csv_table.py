"""CSV as real files have it: every row is one document or one rejection."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.sources.readers.read_one_file import (
    notes_while,
    read_file,
    reasons,
    texts,
)
from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.columns import ColumnsConfig
from transbeam.configs.schema.table_sources import CsvSourceConfig
from transbeam.pipeline.documents.document import BrokenFile, Document, Rejected
from transbeam.pipeline.sources.corpus_files import list_files
from transbeam.pipeline.sources.readers import csv_table
from transbeam.pipeline.sources.work_units import plan_units, read_unit

LABELLED = ColumnsConfig(label="label")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("csv") / "a.csv"


def read(path, content: bytes, **options):
    path.write_bytes(content)
    return read_file(csv_table, CsvSourceConfig(path=str(path), **options))


fields = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8) | st.text(
    st.sampled_from('a",\n\r\t '), max_size=8
)


@given(
    st.lists(st.tuples(fields, fields)),
    st.sampled_from([",", "\t", ";"]),
    # With "\n" at line ends Python's writer leaves a bare "\r" without quotes.
    st.sampled_from(
        [
            ("\r\n", csv.QUOTE_MINIMAL),
            ("\r\n", csv.QUOTE_ALL),
            ("\n", csv.QUOTE_ALL),
        ]
    ),
)
def test_what_csv_writes_is_read_back(scratch, rows, delimiter, style):
    newline, quoting = style
    written = io.StringIO()
    writer = csv.writer(
        written, delimiter=delimiter, lineterminator=newline, quoting=quoting
    )
    writer.writerow(["other", "text"])
    writer.writerows(rows)
    found = read(scratch, written.getvalue().encode(), delimiter=delimiter)
    assert texts(found) == [text for _, text in rows]


@given(
    st.lists(st.tuples(*[st.text(st.sampled_from("aé\"' ,"), min_size=1)] * 2)),
    st.booleans(),
    st.integers(1, 40),
)
def test_without_quoting_in_any_spans(scratch, rows, header, step):
    lines = ["other\ttext"] * header + ["\t".join(row) for row in rows]
    scratch.write_bytes("\n".join(lines).encode())
    source = CsvSourceConfig(
        path=str(scratch),
        delimiter="\t",
        quoting="none",
        header=header,
        columns=ColumnsConfig(text="text" if header else "1"),
    )
    assert texts(read_file(csv_table, source, step)) == [text for _, text in rows]


def test_by_hand(tmp_path):
    found = read(
        tmp_path / "a.csv",
        b'\xef\xbb\xbftext,label\r\nplain,1\r\n"with, comma",2\r\n'
        b'"a ""quoted"" word",3\r\n\r\n"two\r\nlines",4\r\n5" pipe,5',
        columns=LABELLED,
    )
    assert found == [
        Document("plain", "a.csv", 15, label="1"),
        Document("with, comma", "a.csv", 24, label="2"),
        Document('a "quoted" word', "a.csv", 41, label="3"),
        Document("two\r\nlines", "a.csv", 66, label="4"),
        Document('5" pipe', "a.csv", 82, label="5"),
    ]


def test_unclosed_quote_does_not_swallow_the_rest(tmp_path):
    found = read(
        tmp_path / "a.csv",
        b'text,label\none,1\n"never closed,2\nthree,3\nfour,4\n',
        columns=LABELLED,
    )
    assert reasons(found) == [(17, "broken quotes: never closed")]
    documents = [item for item in found if isinstance(item, Document)]
    assert [d.text for d in documents] == ["one", "three", "four"]
    assert [d.offset for d in documents] == [11, 33, 41]


def test_unclosed_quote_that_meets_another(tmp_path):
    found = read(
        tmp_path / "a.csv",
        b'text,label\n"never closed,1\ntwo,2\n"quoted",3\nfour,4\n',
        columns=LABELLED,
    )
    assert reasons(found) == [(11, "broken quotes: text after a closed one")]
    documents = [item.text for item in found if isinstance(item, Document)]
    assert documents == ["two", "quoted", "four"]


@pytest.fixture
def short_fields(monkeypatch):
    monkeypatch.setattr(csv_table, "_LONGEST_FIELD", 1000)
    before = csv.field_size_limit(1000)
    yield
    csv.field_size_limit(before)


@pytest.mark.usefixtures("short_fields")
def test_a_field_without_an_end_does_not_fill_the_memory(tmp_path):
    found = read(tmp_path / "a.csv", b'text\n"open\n' + b"a row\n" * 1000)
    assert reasons(found) == [(5, "broken quotes: not closed for long")]
    assert len(found) == 1001


def test_a_field_longer_than_the_limit_of_python(tmp_path):
    found = read(tmp_path / "a.csv", b'text\n"' + b"word\n" * 100_000 + b'"\n')
    assert [len(text) for text in texts(found)] == [500_000]


def test_rows_of_another_length(tmp_path):
    found = read(
        tmp_path / "a.csv", b"text,label\none,1,more\ntwo\nthree,3\n", columns=LABELLED
    )
    why = "not as many fields as the header"
    assert reasons(found) == [(11, why), (22, why)]
    assert isinstance(found[0], Rejected)
    assert found[0].excerpt == "3, not 2: one,1,more"
    assert len(found) == 3
    found = read(
        tmp_path / "b.csv", b"a,b\nc\n", header=False, columns=ColumnsConfig(text="1")
    )
    assert reasons(found) == [(4, "not as many fields as the first row")]


def test_undecodable_row_is_the_only_one_lost(tmp_path):
    content = b'text,label\n"caf\xe9\nnoir",1\ntwo,2\n'
    found = read(tmp_path / "a.csv", content, columns=LABELLED)
    assert reasons(found) == [(15, "not UTF-8")]
    assert len(found) == 2
    found = read(tmp_path / "b.csv", content, columns=LABELLED, encoding="cp1252")
    assert texts(found) == ["café\nnoir", "two"]


def test_utf_16(tmp_path):
    content = "text\tlabel\n\u0a0a\tja\n".encode("utf-16")
    found = read(
        tmp_path / "a.tsv",
        content,
        delimiter="\t",
        columns=LABELLED,
        encoding="utf-16",
        quoting="none",
    )
    assert [(d.text, d.label) for d in found if isinstance(d, Document)] == [
        ("\u0a0a", "ja")
    ]


def test_empty_file_and_header_alone(tmp_path):
    assert read(tmp_path / "a.csv", b"") == []
    assert read(tmp_path / "b.csv", b"text,label\n") == []


def test_wrong_columns_are_said_at_once(tmp_path):
    with pytest.raises(DataError, match=r"a.csv: no column 'text'.* Did you mean 'txt"):
        read(tmp_path / "a.csv", b"txt,label\none,1\n")
    with pytest.raises(DataError, match=r"two columns 'text'.* text. Rename one of"):
        read(tmp_path / "a.csv", b"text,text\none,1\n")
    with pytest.raises(DataError, match=r"c.csv: is a zip archive, as workbooks of E"):
        read(tmp_path / "c.csv", b"PK\x03\x04\x14\x00\x06\x00a\n")
    with pytest.raises(DataError, match=r"no column '2'.* columns here: 0, 1\."):
        read(
            tmp_path / "a.csv",
            b"one,1\n",
            header=False,
            columns=ColumnsConfig(text="2"),
        )


@pytest.mark.parametrize(
    ("content", "options", "hint"),
    [
        (b"text;label\n1;a\n", {}, "The header has ';' in it: {}: \";\""),
        (b"a: b|text\n", {}, "The header has '|' in it: {}: \"|\""),
        (b"txt;label\n", {}, "The header has ';' in it: {}: \";\""),
        (b"text,label\n", {"delimiter": ";"}, "The header has ',' in it: {}: \",\""),
        (
            b"1;a,b\n",
            {"header": False, "columns": ColumnsConfig(text="1"), "delimiter": "|"},
            "The first row has ',' in it: {}: \",\"",
        ),
    ],
)
def test_another_delimiter_is_named(tmp_path, content, options, hint):
    with pytest.raises(DataError) as told:
        read(tmp_path / "a.csv", content, **options)
    assert str(told.value).endswith(hint.format("write data.source.delimiter"))


def test_another_delimiter_between_quoted_names(tmp_path):
    with pytest.raises(BrokenFile) as told:
        read(tmp_path / "a.csv", b'"text"\t"label"\n')
    assert told.value.damage[-1].detail.endswith('write data.source.delimiter: "\\t"')


def test_no_delimiter_is_named_where_none_would_help(tmp_path):
    with pytest.raises(DataError, match=r"columns here: a, b;c\.$"):
        read(tmp_path / "a.csv", b"a,b;c\n")


def test_utf_16_without_a_mark_is_named(tmp_path):
    with pytest.raises(BrokenFile, match=r"binary.*data\.source\.encoding: utf-16"):
        read(tmp_path / "a.csv", "text,label\n1,a\n".encode("utf-16-le"))


def test_header_that_cannot_be_read(tmp_path):
    with pytest.raises(BrokenFile, match="header: broken quotes: never closed"):
        read(tmp_path / "a.csv", b'"text\none\n')


@pytest.mark.parametrize(("quoting", "units"), [("none", 6), ("auto", 1)])
def test_a_file_is_cut_only_where_a_row_is_a_line(tmp_path, quoting, units):
    (tmp_path / "a.csv").write_text("text,label\n" + "a row,1\n" * 73)
    source = CsvSourceConfig(
        path=f"{tmp_path}/*.csv", quoting=quoting, columns=LABELLED
    )
    planned = plan_units(list_files(source), source, 100)
    assert len(planned) == units
    found = [item for unit in planned for item in read_unit(unit, source)]
    assert [item.offset for item in found] == list(range(11, 11 + 73 * 8, 8))


def test_rows_that_stray_quotes_join_are_noted(tmp_path):
    rows = ["text\tlabel", "one\ta", '"Open here\tb', "two\ta", 'Ends here"\tb', "3\ta"]
    path = tmp_path / "a.tsv"
    path.write_text("\n".join(rows))
    columns = ColumnsConfig(text="text", label="label")
    source = CsvSourceConfig(path=str(path), delimiter="\t", columns=columns)
    ((kind, file, detail),) = notes_while(lambda: read_file(csv_table, source))
    assert (kind, file) == ("rows that quotes have joined", "a.tsv")
    assert "data.source.quoting=none" in detail


@pytest.mark.parametrize(
    "lines",
    [
        ("text\tlabel", '"Open here\ta', "row\ta", 'Ends here"\tb'),
        ("label\ttext", 'a\t"Open here', "a\trow", 'b\tEnds here"'),
        ("label\ttext", 'a\t"Open here', 'b\tEnds here"'),
        ("id\ttext\tlabel", '1\t"Open\tb', "2\trow\ta", '3\tEnds"\tb'),
    ],
)
def test_joined_rows_are_noted_in_any_column(tmp_path, lines):
    content = "\n".join(lines).encode() + b"\n"
    path = tmp_path / "a.tsv"
    assert notes_while(lambda: read(path, content, delimiter="\t", columns=LABELLED))


def test_prose_of_several_lines_is_not_noted(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"Dear Ann, hello\n\nand thanks, bye",a\n"x\ny",b\n')
    columns = ColumnsConfig(text="text", label="label")
    source = CsvSourceConfig(path=str(path), columns=columns)
    assert notes_while(lambda: read_file(csv_table, source)) == {}
    prose = b'label,text\nb,"paid\n1,000"\n'
    assert notes_while(lambda: read(path, prose, columns=columns)) == {}


@pytest.mark.parametrize("quoting", ["auto", "none"])
def test_a_last_row_that_ends_early_shows_a_cut(tmp_path, quoting):
    for content, cut in [
        (b"text,label\none,1\ntw", True),
        (b"text,label\none,1\ntw\n", False),
        (b"text,label\none,1\ntwo,2,3", False),
    ]:
        _, last = read(tmp_path / "a.csv", content, columns=LABELLED, quoting=quoting)
        assert isinstance(last, Rejected)
        assert (last.doubtful, last.reason == "truncated row") == (cut, cut)


def test_a_file_that_ends_in_quotes_is_cut(tmp_path):
    for end, cut in ((b"", True), (b"\n", False)):
        content = b'text,label\none,1\n"two, and' + end
        _, last = read(tmp_path / "a.csv", content, columns=LABELLED)
        assert isinstance(last, Rejected)
        assert (last.doubtful, last.reason == "truncated row") == (cut, cut)


@pytest.mark.parametrize("quoting", ["auto", "none"])
def test_a_control_character_may_be_the_delimiter(tmp_path, quoting):
    content = "\x1f".join("abcdefghi").encode() + b"\n"
    (document,) = read(
        tmp_path / "a.csv",
        content,
        delimiter="\x1f",
        quoting=quoting,
        header=False,
        columns=ColumnsConfig(text="8"),
    )
    assert document == Document("i", "a.csv", 0)
