"""Pairs of texts: the shift of the decoder, the packing, and prefixes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.objectives.record_checks import (
    assert_same_when_shuffled,
    records_of,
)
from tests.pipeline.objectives.word_tokenizer import (
    LETTERS,
    WordTokenizer,
    letters,
    run_of,
)
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.objectives.supervised import (
    Seq2SeqConfig,
    TextToTextConfig,
)
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.objectives import seq2seq, text_to_text
from transbeam.pipeline.records.features import Records
from transbeam.pipeline.tokenizers.base.interface import SpecialIds


def pair(text: str, target: str, offset: int = 0) -> Document:
    return Document(text, "x", offset, target_text=target)


def pairs_of(records: Records) -> list[tuple[str, str]]:
    """The texts of both sides by document number, record by record."""
    arrays = records.arrays
    found = []
    for row in range(len(records)):
        sides = arrays["encoder_document_ids"][row], arrays["decoder_document_ids"][row]
        assert sides[0].max() == sides[1].max()
        for number in range(1, sides[0].max() + 1):
            source = arrays["encoder_token_ids"][row][sides[0] == number]
            target = arrays["target_ids"][row][sides[1] == number]
            found.append((letters(source), letters(target)))
    return found


def test_one_pair() -> None:
    config = Seq2SeqConfig(decoder_length=5, packed=False)
    records = records_of(seq2seq, run_of(config, 8), [pair("a b c", "x y")])
    arrays = records.arrays
    assert letters(arrays["encoder_token_ids"][0]) == "abc>...."
    assert arrays["encoder_document_ids"].tolist() == [[1, 1, 1, 1, 0, 0, 0, 0]]
    assert arrays["encoder_position_ids"].tolist() == [[0, 1, 2, 3, 0, 0, 0, 0]]
    assert letters(arrays["decoder_token_ids"][0]) == "<xy.."
    assert arrays["decoder_document_ids"].tolist() == [[1, 1, 1, 0, 0]]
    assert arrays["decoder_position_ids"].tolist() == [[0, 1, 2, 0, 0]]
    assert letters(arrays["target_ids"][0]) == "xy>.."
    assert arrays["target_weights"].tolist() == [[1, 1, 1, 0, 0]]
    assert records.lengths.tolist() == [7]
    assert records.counts == {
        "tokens": 5,
        "unknown_tokens": 0,
        "truncated_documents": 0,
        "truncated_tokens": 0,
        "padding": 6,
        "encoder_padding": 4,
        "decoder_padding": 2,
        "empty_documents": 0,
    }


def test_two_pairs_in_a_record() -> None:
    run = run_of(Seq2SeqConfig(decoder_length=8), 8)
    records = records_of(seq2seq, run, [pair("f", "u v w"), pair("a b c", "x")])
    arrays = records.arrays
    # Equally large: the shares are 4/8 each. The order is that of the keys.
    assert {letters(row) for row in arrays["encoder_token_ids"]} <= {
        "f>abc>..",
        "abc>f>..",
    }
    shown = pairs_of(records)
    assert sorted(shown) == [("abc>", "x>"), ("f>", "uvw>")]
    first = len(shown[0][1])
    decoder = arrays["decoder_position_ids"][0].tolist()
    assert decoder == [*range(first), *range(6 - first), 0, 0]
    assert arrays["target_weights"].tolist() == [[1, 1, 1, 1, 1, 1, 0, 0]]
    assert records.placement.record.tolist() == [0, 0]
    assert records.lengths.tolist() == [12]


def test_without_a_piece_to_begin_the_decoder_begins_with_padding() -> None:
    tokenizer = WordTokenizer("a b", SpecialIds(pad=0, unknown=1, end=3))
    run = run_of(Seq2SeqConfig(decoder_length=4), 4)
    records = records_of(seq2seq, run, [pair("a", "b")], tokenizer)
    assert records.arrays["decoder_token_ids"].tolist() == [[0, 5, 0, 0]]
    assert records.arrays["target_ids"].tolist() == [[5, 3, 0, 0]]
    assert records.arrays["target_weights"].tolist() == [[1, 1, 0, 0]]


def test_without_a_piece_to_end_nothing_can_be_taught() -> None:
    tokenizer = WordTokenizer("a b", SpecialIds(pad=0, begin=2))
    run = run_of(Seq2SeqConfig(decoder_length=4), 4)
    with pytest.raises(ConfigError, match=r"objective\.kind=seq2seq needs a piece"):
        records_of(seq2seq, run, [pair("a", "b")], tokenizer)


def test_too_long_is_cut() -> None:
    run = run_of(Seq2SeqConfig(decoder_length=4), 5)
    documents = [pair("a b c d e f", "x"), pair("a", "u v w x y z")]
    records = records_of(seq2seq, run, documents)
    assert sorted(pairs_of(records)) == [("a>", "uvw>"), ("abcd>", "x>")]
    assert records.counts["truncated_tokens"] == 2 + 3
    assert records.counts["truncated_documents"] == 2


def test_too_long_is_dropped() -> None:
    run = run_of(Seq2SeqConfig(decoder_length=4, too_long="drop"), 5)
    documents = [
        pair("a b c d e f", "u v w x y z"),
        pair("a", "u v w x", 1),
        pair("a b c d", "u v w", 2),
    ]
    records = records_of(seq2seq, run, documents)
    assert pairs_of(records) == [("abcd>", "uvw>")]
    assert records.rejected == [
        (0, "source longer than data.sequence_length"),
        (1, "target longer than objective.decoder_length"),
    ]
    assert records.counts["truncated_tokens"] == 0


def test_half_a_pair() -> None:
    run = run_of(Seq2SeqConfig(decoder_length=8), 8)
    documents = [Document("a", "x", 0), pair("b", "~", 1), pair("~", "b", 2)]
    records = records_of(seq2seq, run, documents)
    assert len(records) == 0
    assert records.rejected == [(0, "no target_text")]
    assert records.counts["empty_documents"] == 2


texts = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=12).map(" ".join)
many = st.lists(st.tuples(texts, texts), max_size=20, unique=True)


@given(many, st.booleans())
def test_every_pair_once_and_whole_if_it_fits(
    rows: list[tuple[str, str]], packed: bool
) -> None:
    run = run_of(Seq2SeqConfig(decoder_length=9, packed=packed), 8)
    documents = [pair(*row) for row in rows]
    records = records_of(seq2seq, run, documents)
    expected = [
        (a.replace(" ", "")[:7] + ">", b.replace(" ", "")[:8] + ">") for a, b in rows
    ]
    assert sorted(pairs_of(records)) == sorted(expected)
    # The decoder reads what it wrote one place before.
    decoder, target = records.arrays["decoder_token_ids"], records.arrays["target_ids"]
    follows = records.arrays["decoder_position_ids"][:, 1:] > 0
    assert (decoder[:, 1:][follows] == target[:, :-1][follows]).all()
    assert_same_when_shuffled(seq2seq, run, documents, LETTERS)


def test_a_prefix_says_what_to_do() -> None:
    config = TextToTextConfig(
        source="t {text} h {second_text}", target="{label} !", decoder_length=8
    )
    documents = [
        Document("a b", "x", 0, second_text="c", label="y"),
        Document("a b", "x", 1, label="y"),
        Document("a b", "x", 2, second_text="c"),
    ]
    records = records_of(text_to_text, run_of(config, 8), documents)
    assert pairs_of(records) == [("tabhc>", "y?>")]
    assert records.rejected == [(1, "no second_text"), (2, "no label")]


@given(many)
def test_bare_templates_are_seq2seq(rows: list[tuple[str, str]]) -> None:
    documents = [pair(*row) for row in rows]
    run = run_of(TextToTextConfig(source="{text}", decoder_length=6), 8)
    found = records_of(text_to_text, run, documents)
    plain = records_of(seq2seq, run_of(Seq2SeqConfig(decoder_length=6), 8), documents)
    assert found.counts == plain.counts
    for name, array in plain.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array)
