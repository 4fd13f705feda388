"""CoNLL columns: every sentence once, with one tag for each word."""

import pytest

from tests.pipeline.sources.readers.read_one_file import read_file, reasons
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.table_sources import ConllSourceConfig
from transbeam.pipeline.documents.document import Document, Rejected
from transbeam.pipeline.sources.readers import conll


def read(tmp_path, content: bytes, **options):
    (tmp_path / "a.conll").write_bytes(content)
    return read_file(
        conll, ConllSourceConfig(path=str(tmp_path / "a.conll"), **options)
    )


def test_tabs_blank_lines_and_odd_words(tmp_path):
    found = read(
        tmp_path,
        "\ufeffNew York\tB-place\n\u00a0!\tO\r\n\t\n\n\nHi\tO\n".encode(),
    )
    assert found == [
        Document(
            "New York \u00a0!",
            "a.conll",
            0,
            words=("New York", "\u00a0!"),
            tags=("B-place", "O"),
        ),
        Document("Hi", "a.conll", 31, words=("Hi",), tags=("O",)),
    ]


def test_the_columns_of_2003(tmp_path):
    content = (
        b"-DOCSTART- -X- -X- O\n\n"
        b"EU NNP B-NP B-ORG\nrejects  VBZ B-VP O\n\n"
        b"-DOCSTART- -X- -X- O\nPeter NNP B-NP B-PER\n"
    )
    found = read(tmp_path, content)
    assert [(d.words, d.tags) for d in found if isinstance(d, Document)] == [
        (("EU", "rejects"), ("B-ORG", "O")),
        (("Peter",), ("B-PER",)),
    ]
    tagged = read(tmp_path, content, tag_column=1)[0]
    assert isinstance(tagged, Document)
    assert tagged.tags == ("NNP", "VBZ")


def test_bad_sentences_are_rejected_one_by_one(tmp_path):
    found = read(
        tmp_path,
        b"fine\tO\n\nno tag\nhere\tO\n\ncaf\xe9\tO\n\n\tO\n\nempty\t\n\nlast\tO",
    )
    assert reasons(found) == [
        (8, "not as many columns as the first line"),
        (26, "not UTF-8"),
        (31, "an empty word"),
        (35, "an empty tag"),
    ]
    assert len(found) == 6


def test_the_entry_shows_the_line_that_says_how_many_columns(tmp_path):
    (entry,) = read(tmp_path, b"# sentence 1\nAda  B-name\nran O\n")
    assert isinstance(entry, Rejected)
    assert entry.offset == 13
    assert entry.excerpt == (
        "2 in 'Ada  B-name', 3 in the first line, '# sentence 1'; lines that are no "
        "words are left out with data.source.comment"
    )


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        ("#", [("Ada",)]),
        ("#\t", [("Ada",), ("#tag",)]),  # a word may begin with what a comment does
    ],
)
def test_lines_of_comment_are_left_out(tmp_path, comment, words):
    content = b"#\tsentence\t1\nAda\tB-name\n\n#\tsentence\t2\n#tag\tO\n\n#\tthe end\n"
    found = read(tmp_path, content, comment=comment)
    assert [item.words for item in found if isinstance(item, Document)] == words
    assert reasons(found) == []


def test_a_comment_begins_with_something(tmp_path):
    with pytest.raises(ConfigError, match="comment='': every line begins"):
        read(tmp_path, b"a\tO\n", comment="")


@pytest.mark.parametrize("column", [2, -3])
def test_a_column_that_is_not_there(tmp_path, column):
    found = read(tmp_path, b"a\tO\n", tag_column=column)
    why = f"2 columns, which are not enough for 0 and {column}"
    assert reasons(found) == [(0, why)]


def test_a_last_line_of_fewer_columns_shows_a_cut(tmp_path):
    for end, cut in ((b"", True), (b"\n", False)):
        _, last = read(tmp_path, b"Ann\tO\n\nruns\tO\nto" + end)
        assert isinstance(last, Rejected)
        assert (last.doubtful, last.reason == "truncated sentence") == (cut, cut)


def test_a_word_is_not_its_own_tag(tmp_path):
    (entry,) = read(tmp_path, b"Ann\nruns\n\n")
    assert isinstance(entry, Rejected)
    assert entry.reason == "one column, which is the word and the tag"
    (entry,) = read(tmp_path, b"Ann O\nruns O\n\n", word_column=1)
    assert isinstance(entry, Rejected)
