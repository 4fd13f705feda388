"""The tables of Unicode are complete: each code point is seen as the graph sees it."""

from itertools import product

import pytest
import tensorflow as tf

from tests.serving.phone.tokenizer.sample_tokenizers import (
    NAMES,
    data,
    engine,
    model,
    reference,
)
from transbeam.pipeline.tokenizers.wordpiece import bert_normalization
from transbeam.serving.phone.tokenizer.sources.tokenizer import _ByteBPE, _WordPiece
from transbeam.serving.phone.tokenizer.unicode_tables import edges

# All where Unicode has characters or plans any, and some of the rest.
CODE_POINTS = [
    *range(0xD800),
    *range(0xE000, 0x40000),
    *range(0x40000, 0xE0000, 97),
    *range(0xE0000, 0xE1000),
    *range(0xE1000, 0x110000, 97),
]
BERT = [name for name in NAMES if name.startswith("wordpiece")]


def words_of(name, texts):
    """Of the graph, and of the phone."""
    graph = engine(name).words(tf.constant(texts)).to_list()
    own = reference(name)._engine
    assert isinstance(own, _WordPiece | _ByteBPE)
    return graph, [[word.encode() for word in own._words(text)] for text in texts]


@pytest.mark.parametrize(
    "name", [pytest.param(BERT[0], marks=pytest.mark.thorough), BERT[-1]]
)
def test_every_code_point_alone(name):
    # Joined, as a million texts take their time. Nothing crosses a space.
    texts = [
        " ".join(f"a{chr(c)}b" for c in CODE_POINTS[i : i + 4096])
        for i in range(0, len(CODE_POINTS), 4096)
    ]
    graph, phone = words_of(name, texts)
    assert phone == graph
    assert sum(map(len, phone)) > len(CODE_POINTS)


@pytest.mark.thorough(
    instead="test_every_code_point_alone test_texts_at_random_have_the_ids_of_the_graph"
)
def test_every_code_point_among_gpt2s_words():
    texts = [
        "".join(f"a{chr(c)}1{chr(c)}!{chr(c)} " for c in CODE_POINTS[i : i + 4096])
        for i in range(0, len(CODE_POINTS), 4096)
    ]
    graph, phone = words_of("byte_bpe", texts)
    assert phone == graph


def test_every_order_of_the_marks_that_are_not_dropped():
    table = data("wordpiece (False, True)")["characters"]
    marks = [
        chr(c)
        for first, last in zip(table["order"][::3], table["order"][1::3], strict=True)
        for c in range(first, last + 1)
    ]
    assert len(marks) > 20
    # Between two of them nothing, one that is dropped, and one that parts them.
    parting = chr(table["hidden"][0])
    between = ["", "\u0301", "\u0334", parting, "\u200b"]
    texts = [
        " ".join(f"x{first}{one}{second}y" for second, one in product(marks, between))
        for first in marks
    ]
    graph, phone = words_of("wordpiece (False, True)", texts)
    assert phone == graph
    # They do change places: the tables are not there for nothing.
    assert len({word for row in phone for word in row}) < len(marks) ** 2 * len(between)


@pytest.mark.parametrize("name", BERT)
def test_only_what_matters_is_written_down(name):
    own = model(name)
    table = data(name)["characters"]
    for group in zip(*[iter(table["shifts"])] * 4, strict=True):
        assert group[3] != 0
    assert all(len(others) > 2 for others in table["replaced"])
    assert bool(table["order"]) == bool(table["hidden"]) == own.strip_accents


def test_edges_of_neighbours_are_one_stretch():
    assert edges([]) == []
    assert edges([3, 1, 2, 9]) == [1, 4, 9, 10]


def test_to_decompose_is_nfd_but_for_what_rust_does_not_know():
    texts = tf.constant(["e\u0301\u0323", "\u1ea1\u0301", "\uac01", "\U000105c9"])
    told = [text.decode() for text in bert_normalization.decompose(texts).numpy()]
    assert told == [
        "e\u0323\u0301",
        "a\u0323\u0301",
        "\u1100\u1161\u11a8",
        "\U000105c9",
    ]
