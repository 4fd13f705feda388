"""An error shows what it speaks of: an entry for each of the most frequent reasons."""

from transbeam.pipeline.accounting.document_accounting import examples
from transbeam.pipeline.documents.document import Rejected
from transbeam.pipeline.steps.clean_documents import write_quarantine


def test_one_example_of_each_of_the_most_frequent_reasons(tmp_path):
    write_quarantine(
        tmp_path,
        "00000",
        [
            Rejected("not UTF-8", "b.txt", 7, "caf\\xe9"),
            Rejected("no field 'text'", "a.jsonl", 0, "the fields here: txt.\n{}"),
            Rejected("no field 'text'", "a.jsonl", 9, "another"),
        ],
    )
    write_quarantine(tmp_path, "00001", [Rejected("a", "c", 1, "\x1b[2J"), *_rare()])
    counts = {"rare": 1, "a": 2, "not UTF-8": 3, "no field 'text'": 4}
    assert examples(tmp_path, counts) == (
        "\n  a.jsonl, offset 0: no field 'text': the fields here: txt. {}"
        "\n  b.txt, offset 7: not UTF-8: caf\\xe9"
        "\n  c, offset 1: a: \\x1b[2J"
    )


def _rare():
    return [Rejected("rare", "d", 2, "d")]


def test_nothing_in_quarantine(tmp_path):
    assert examples(tmp_path, {}) == ""
