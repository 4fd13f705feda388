"""CoNLL-U: the syntactic words and their tags, and nothing else."""

import gzip

import pytest

from tests.pipeline.sources.readers.read_one_file import read_file, reasons
from transbeam.configs.schema.table_sources import ConlluSourceConfig
from transbeam.pipeline.documents.document import Document, Rejected
from transbeam.pipeline.sources.readers import conllu

SENTENCE = """\
# sent_id = 1
# text = I don't # know
1	I	I	PRON	PRP	_	4	nsubj	_	_
2-3	don't	_	_	_	_	_	_	_	SpaceAfter=No
2	do	do	AUX	VBP	_	4	aux	_	_
3	n't	not	PART	RB	_	4	advmod	_	_
3.1	_	_	_	_	_	_	_	_	_
4	know	know	VERB	_	_	0	root	_	_

"""


def read(tmp_path, content: str, tags="upos"):
    path = tmp_path / "a.conllu.gz"
    path.write_bytes(gzip.compress(content.encode()))
    return read_file(conllu, ConlluSourceConfig(path=str(path), tags=tags))


def test_multiword_tokens_empty_nodes_and_comments_are_left_out(tmp_path):
    found = read(tmp_path, SENTENCE * 2)
    words = ("I", "do", "n't", "know")
    tags = ("PRON", "AUX", "PART", "VERB")
    text = "I do n't know"
    second = len(SENTENCE) + 38  # behind its comments
    assert found == [
        Document(text, "a.conllu.gz", 38, words=words, tags=tags),
        Document(text, "a.conllu.gz", second, words=words, tags=tags),
    ]


def test_other_tags(tmp_path):
    (found,) = read(tmp_path, SENTENCE, "deprel")
    assert isinstance(found, Document)
    assert found.tags == ("nsubj", "aux", "advmod", "root")
    assert reasons(read(tmp_path, SENTENCE, "xpos")) == [(38, "a word without xpos")]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("3\tn't", "5\tn't", (38, "ids that do not count up from 1")),
        ("1\tI\tI", "2\tI\tI", (38, "ids that do not count up from 1")),
        ("\tnsubj\t_\t_", "\tnsubj", (38, "not the 10 columns of CoNLL-U")),
        ("\tAUX\t", "\t_\t", (38, "a word without upos")),
        ("\tAUX\t", "\t\t", (38, "an empty tag")),
        ("1\tI\t", "1\t\t", (38, "an empty word")),
    ],
)
def test_bad_sentences_are_rejected_one_by_one(tmp_path, old, new, why):
    assert SENTENCE.count(old) == 1
    found = read(tmp_path, SENTENCE.replace(old, new) + SENTENCE)
    assert reasons(found) == [why]
    assert len(found) == 2


def test_comments_alone_are_no_sentence(tmp_path):
    assert read(tmp_path, "# newdoc\n\n# text = nothing\n") == []


def test_a_last_line_of_fewer_columns_shows_a_cut(tmp_path):
    _, last = read(tmp_path, SENTENCE + SENTENCE.rstrip()[:-20])
    assert isinstance(last, Rejected)
    assert (last.doubtful, last.reason) == (True, "truncated sentence")
