"""Gaps in texts, and what answers have for them."""

import numpy as np
import pytest
import tensorflow as tf

from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.serving.conftest import CORPUS
from transbeam.configs.schema.tokenizer import (
    ByteBPEConfig,
    UnigramConfig,
    WordPieceConfig,
)
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    load_tokenizer,
    save_tokenizer,
)
from transbeam.pipeline.tokenizers.training.train_tokenizer import learn_model
from transbeam.serving.predict.formatting.span_corruption import (
    check,
    fill,
    lines,
    read,
)
from transbeam.serving.text_ops.sentinels import (
    sentinel_literals,
    sentinel_texts,
    tokenize_with_gaps,
)

KINDS = {
    "unigram": UnigramConfig(vocabulary_size=80, num_sentinels=12),
    "roberta": ByteBPEConfig(vocabulary_size=320, specials="roberta", num_sentinels=12),
    "wordpiece": WordPieceConfig(vocabulary_size=140, num_sentinels=12),
}


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gaps") / "tokenizer"
    counts = dict.fromkeys(CORPUS.split(), 2)
    save_tokenizer(folder, learn_model(counts, KINDS[request.param]))
    return load_tokenizer(folder)


def ids_of(tokenizer, *parts):
    """Texts, and the numbers of sentinels between them, by hand."""
    ids = []
    for part in parts:
        if isinstance(part, int):
            ids.append(tokenizer.special.sentinels[part])
        else:
            ids += tokenizer.tokenize([part]).to_list()[0]
    return ids


def test_gaps_stand_where_they_are_written(tokenizer):
    texts = {
        "the <extra_id_0> of a <extra_id_1>": ("the", 0, " of a", 1),
        "<extra_id_0>": (0,),
        "<extra_id_10><extra_id_1><extra_id_1>": (10, 1, 1),
        "a list": ("a list",),
        "": (),
        # Not among the sentinels, or not spelled like one.
        "a  <extra_id_3>  <extra_id_12> <extra_id_01>": (
            "a",
            3,
            "  <extra_id_12> <extra_id_01>",
        ),
        "<extra_<extra_id_2>id_0>": ("<extra_", 2, "id_0>"),
        "a\n<extra_id_0>\n": ("a\n", 0, "\n"),
    }
    found = tokenize_with_gaps(tokenizer, tf.constant(list(texts)))
    assert found.to_list() == [ids_of(tokenizer, *parts) for parts in texts.values()]
    nothing = tokenize_with_gaps(tokenizer, tf.constant([], tf.string))
    assert nothing.to_list() == []


def test_without_gaps_a_text_is_as_always(tokenizer):
    texts = list(HOSTILE_TEXTS)
    found = tokenize_with_gaps(tokenizer, tf.constant(texts))
    assert found.to_list() == tokenizer.tokenize(texts).to_list()
    bad = [b"\xff\x00<extra_id_1>\xe6"]
    (row,) = tokenize_with_gaps(tokenizer, tf.constant(bad)).to_list()
    assert row.count(tokenizer.special.sentinels[1]) == 1


def test_what_stood_in_a_gap_is_cut_out_as_in_training(tokenizer):
    """The tokens of a document, some of them replaced."""
    (whole,) = tokenizer.tokenize(["returns a tensor of the list"]).to_list()
    cut = len(tokenizer.tokenize(["returns a"]).to_list()[0])
    rest = len(ids_of(tokenizer, " of the list"))
    gap = tokenizer.special.sentinels[0]
    (found,) = tokenize_with_gaps(
        tokenizer, tf.constant(["returns a <extra_id_0> of the list"])
    ).to_list()
    assert found == [*whole[:cut], gap, *whole[-rest:]]
    answer = [gap, *whole[cut:-rest], tokenizer.special.end]
    fills = sentinel_texts(
        tokenizer,
        tf.constant([found]),
        tf.constant([answer]),
        tf.constant([len(answer)]),
    )
    assert fills.numpy().tolist() == [[b"tensor"]]


def test_fills_are_in_the_order_of_the_gaps(tokenizer):
    special = tokenizer.special
    a, b, c = (ids_of(tokenizer, text) for text in (" a list", " the name", " 0"))
    zero, one, two = special.sentinels[:3]
    pairs = [
        ([zero, one], [zero, *a, one, *b, special.end], ["a list", "the name"]),
        # Answered in another order; one is not asked for, and one not answered.
        ([one, zero, two], [two, *c, one, *b], ["the name", "", "0"]),
        ([zero], [*a, zero, *b, one, *c, zero, *a], ["the name"]),  # said twice
        ([zero, zero], [zero, *a], ["a list", "a list"]),  # asked twice
        ([], [zero, *a], []),
        ([zero, one], [zero, one, *b], ["", "the name"]),
        ([zero], [special.end], [""]),
    ]
    asked = padded([row for row, _, _ in pairs], special.pad)
    answers = padded([row for _, row, _ in pairs], one)  # what follows does not count
    lengths = [len(row) for _, row, _ in pairs]
    found = sentinel_texts(tokenizer, asked, answers, tf.constant(lengths)).numpy()
    assert found.shape == (len(pairs), 3)
    for row, (_, _, expected) in zip(found.tolist(), pairs, strict=True):
        told = [text.encode() for text in expected]
        assert row == told + [b""] * (3 - len(told))


def test_gaps_are_named_as_they_are_written(tokenizer):
    special = tokenizer.special
    other = ids_of(tokenizer, " a list")[0]
    zero, one, two = special.sentinels[:3]
    rows = [[two, other, zero], [other], [one, one, other]]
    found = sentinel_literals(tokenizer, padded(rows, special.pad)).numpy().tolist()
    assert found == [
        [b"<extra_id_2>", b"<extra_id_0>"],
        [b"", b""],
        [b"<extra_id_1>", b"<extra_id_1>"],
    ]


def padded(rows, value):
    return tf.ragged.constant(rows, dtype=tf.int32).to_tensor(value)


def test_an_empty_batch_has_no_fills(tokenizer):
    nothing = tf.zeros([0, 16], tf.int32)
    found = sentinel_texts(tokenizer, nothing, nothing[:, :4], tf.zeros([0], tf.int32))
    assert found.shape[0] == 0


def test_fills_are_put_into_their_text():
    answer = {
        "gaps": np.array([b"<extra_id_0>", b"<extra_id_1>", b""], object),
        "fills": np.array([b"list", b"", b""], object),
        "generated_text": b"<extra_id_0> list",
        "length": 2,
        "finished": True,
    }
    found = read("A <extra_id_0> of <extra_id_1>.", answer)
    assert found["fills"] == ["list", ""]
    assert found["gaps"] == ["<extra_id_0>", "<extra_id_1>"]
    assert found["filled"] == "A list of <extra_id_1>."
    assert lines({**found, "text": "…"}) == [
        "  <extra_id_0>  list",
        "  <extra_id_1>  (nothing)",
    ]
    swapped = [("<extra_id_0>", "<extra_id_1>"), ("<extra_id_1>", "b")]
    assert fill("<extra_id_0> <extra_id_1>", swapped) == "<extra_id_1> b"
    # The tokenizer has no such piece, so the model saw ordinary text.
    pairs = [("<extra_id_0>", "a"), ("<extra_id_0>", "b")]
    text = "<extra_id_999> <extra_id_0> <extra_id_0> <extra_id_0>"
    assert fill(text, pairs) == "<extra_id_999> a b <extra_id_0>"
    check(["a <extra_id_0>"])
    with pytest.raises(Exception, match="there is no <extra_id_0> to fill"):
        check(["a <extra_id_0>", "a [MASK]"])
