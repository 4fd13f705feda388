"""Records of heads on decoders: their special tokens, by hand, and in the graph."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.objectives.record_checks import records_of
from tests.pipeline.objectives.word_tokenizer import (
    CLS,
    PAD,
    SEP,
    UNK,
    WordTokenizer,
    letters,
    run_of,
)
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.model import DecoderConfig, EncoderConfig, PoolerConfig
from transbeam.configs.schema.objectives.contrastive import ContrastivePairsConfig
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    PairClassificationConfig,
    TokenClassificationConfig,
)
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.objectives import (
    classification,
    contrastive_pairs,
    pair_classification,
    token_classification,
)
from transbeam.pipeline.stage import data_inputs
from transbeam.pipeline.tokenizers.base.interface import SpecialIds
from transbeam.pipeline.tokenizers.base.text_frame import (
    embedding_frame,
    frame_of_run,
)
from transbeam.serving.parity.base.framing import frame_texts
from transbeam.serving.text_ops.text_encoder import TextEncoder

ONE = ClassificationConfig(labels=("bad", "good"))
TWO = PairClassificationConfig(labels=("bad", "good"))
VECTORS = ContrastivePairsConfig(hard_negatives=True)
TAGS = TokenClassificationConfig(labels=("O", "B"))
WORDS = "a b c d e f g h"
# One token that ends documents and pads rows, as in GPT-2; and a begin token beside it.
ENDS = WordTokenizer(WORDS, SpecialIds(pad=SEP, unknown=UNK, begin=SEP, end=SEP))
BEGINS = WordTokenizer(WORDS, SpecialIds(pad=PAD, unknown=UNK, begin=CLS, end=SEP))


def on_decoder(objective, length: int, pooler: str | None = None):
    pooler = None if pooler is None else PoolerConfig(kind=pooler)
    return replace(run_of(objective, length), model=DecoderConfig(pooler=pooler))


@pytest.mark.parametrize(
    ("tokenizer", "pooler", "one", "two"),
    [
        (ENDS, None, "abc", "abc>de"),
        (ENDS, "mean", "abc", "abc>de"),
        (ENDS, "end_token", "abc>", "abc>de>"),
        (BEGINS, "last", "<abc", "<abc>de"),
        (BEGINS, "end_token", "<abc>", "<abc>de>"),
    ],
)
def test_rows_by_hand(tokenizer, pooler, one, two):
    document = Document("a b c", "x", 0, second_text="d e", label="good")
    found = []
    for module, objective in ((classification, ONE), (pair_classification, TWO)):
        run = on_decoder(objective, 8, pooler)
        records = records_of(module, run, [document], tokenizer)
        (size,) = records.lengths.tolist()
        row = records.arrays["token_ids"][0]
        assert row[size:].tolist() == [tokenizer.special.pad] * (8 - size)
        real = records.arrays["document_ids"][0].tolist()
        assert real == [1] * size + [0] * (8 - size)
        found.append(letters(row[:size]))
    assert found == [one, two]
    segments = records.arrays["segment_ids"][0].tolist()
    assert segments == [0] * (two.rindex(">d") + 1) + [1] * (
        len(two) - two.rindex(">d") - 1
    ) + [0] * (8 - len(two))


@pytest.mark.parametrize(
    ("tokenizer", "pooler", "rows"),
    [
        (ENDS, None, ["abc", "de", ""]),
        (ENDS, "mean", ["abc", "de", ""]),
        (ENDS, "end_token", ["abc>", "de>", ">"]),
        (BEGINS, "last", ["<abc", "<de", "<"]),
        (BEGINS, "end_token", ["<abc>", "<de>", "<>"]),
    ],
)
def test_texts_of_vectors_by_hand(tokenizer, pooler, rows):
    """In records, where the hard negative is missing, and in the exported graph."""
    document = Document("a b c", "x", 0, second_text="d e")
    run = on_decoder(VECTORS, 5, pooler)
    records = records_of(contrastive_pairs, run, [document], tokenizer)
    arrays, pad = records.arrays, tokenizer.special.pad
    frame = embedding_frame(run, tokenizer.special)
    encoder = TextEncoder(tokenizer, 5, frame)
    for number, row in enumerate(rows):
        ids, size = arrays["token_ids"][0, number], len(row)
        assert letters(ids[:size]) == row
        assert ids[size:].tolist() == [pad] * (5 - size)
        real = arrays["document_ids"][0, number].tolist()
        assert real == [number + 1] * size + [0] * (5 - size)
    encoded = encoder.text(tokenizer.tokenize(["a b c", "d e"]))
    found = encoded.token_ids.numpy()
    longest = found.shape[1]
    assert found.tolist() == arrays["token_ids"][0, :2, :longest].tolist()
    assert arrays["text_hashes"][0].any(axis=1).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("pooler", "row"), [("last", "abcdefgh"), ("end_token", "abcdefg>")]
)
def test_a_text_of_a_vector_fills_its_row(pooler, row):
    document = Document(WORDS, "x", 0, second_text="a")
    run = on_decoder(VECTORS, 8, pooler)
    records = records_of(contrastive_pairs, run, [document], ENDS)
    assert letters(records.arrays["token_ids"][0, 0]) == row
    assert records.counts["truncated_tokens"] == (pooler == "end_token")


@pytest.mark.parametrize(
    ("tokenizer", "rows"), [(ENDS, [[4, 5, 6]]), (BEGINS, [[CLS, 4, 5, 6]])]
)
def test_tags_by_hand(tokenizer, rows):
    document = Document("a b c", "x", 0, words=("a", "b", "c"), tags=("O", "B", "O"))
    records = records_of(
        token_classification, on_decoder(TAGS, 4), [document], tokenizer
    )
    arrays, before = records.arrays, len(rows[0]) - 3
    assert [row[: len(rows[0])].tolist() for row in arrays["token_ids"]] == rows
    assert arrays["label_ids"][0, before : before + 3].tolist() == [0, 1, 0]
    assert arrays["label_weights"].sum() == 3


def test_a_text_fills_a_record():
    document = Document(WORDS, "x", 0, label="good")
    records = records_of(classification, on_decoder(ONE, 8), [document], ENDS)
    assert letters(records.arrays["token_ids"][0]) == "abcdefgh"
    assert records.counts["truncated_tokens"] == 0


@given(
    lengths=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    pooler=st.sampled_from(["last", "end_token"]),
    tokenizer=st.sampled_from([ENDS, BEGINS]),
    is_pair=st.booleans(),
)
def test_the_graph_frames_as_the_records_do(lengths, pooler, tokenizer, is_pair):
    texts = [" ".join(WORDS.split()[:length]) for length in lengths]
    document = Document(texts[0], "x", 0, second_text=texts[1], label="bad")
    module = pair_classification if is_pair else classification
    run = on_decoder(TWO if is_pair else ONE, 8, pooler)
    records = records_of(module, run, [document], tokenizer)
    (size,) = records.lengths.tolist()
    row = records.arrays["token_ids"][0, :size].tolist()
    frame = frame_of_run(run, tokenizer.special)
    encoder = TextEncoder(tokenizer, 8, frame)
    tokens = [tokenizer.tokenize([text]) for text in texts]
    encoded = encoder.pair(*tokens) if is_pair else encoder.text(tokens[0])
    assert encoded.lengths.numpy().tolist() == [size]
    assert encoded.token_ids.numpy()[0, :size].tolist() == row
    parts = [tokenizer.ids(text) for text in texts[: 1 + is_pair]]
    if sum(map(len, parts)) + frame.size(1 + is_pair) <= 8:
        assert frame_texts(*parts, frame=frame).tolist() == row


def test_an_empty_request_is_the_end_token():
    frame = frame_of_run(on_decoder(ONE, 8), ENDS.special)
    encoded = TextEncoder(ENDS, 8, frame).text(ENDS.tokenize(["", "a"]))
    assert encoded.lengths.numpy().tolist() == [1, 1]
    assert encoded.token_ids.numpy()[:, 0].tolist() == [SEP, 4]


def test_without_an_end_token_it_is_refused():
    tokenizer = WordTokenizer(WORDS, SpecialIds(pad=PAD, unknown=UNK, begin=CLS))
    document = Document("a", "x", 0, label="good")
    with pytest.raises(ConfigError, match="needs a piece that stands after a text"):
        records_of(classification, on_decoder(ONE, 8), [document], tokenizer)


@pytest.mark.parametrize("objective", [ONE, VECTORS], ids=lambda of: of.kind)
def test_the_records_depend_on_what_frames_them(objective):
    def keys(pooler: str | None) -> dict:
        inputs = data_inputs(on_decoder(objective, 8, pooler))
        return {key: x for key, x in inputs.items() if key.startswith("model.")}

    assert keys(None) == keys("last") == keys("mean") == {"model.kind": "decoder"}
    assert keys("end_token") == {
        "model.kind": "decoder",
        "model.pooler.kind": "end_token",
    }
    encoder = data_inputs(replace(run_of(objective, 8), model=EncoderConfig()))
    assert not [key for key in encoder if key.startswith("model.")]
