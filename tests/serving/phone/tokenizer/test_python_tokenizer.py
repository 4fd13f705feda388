"""The Python tokenizer for phones has the ids of the function in the model's graph."""

import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.pipeline.tokenizers.sentencepiece_models import SENTENCES
from tests.serving.phone.tokenizer.sample_tokenizers import (
    NAMES,
    engine,
    engine_ids,
    random_texts,
    reference,
)
from tests.serving.phone.tokenizer.sample_tokenizers import (
    data as phone_data,
)
from transbeam.pipeline.tokenizers.base.text_frame import TextFrame
from transbeam.serving.phone.tokenizer.golden_ids import golden_ids
from transbeam.serving.phone.tokenizer.sources import tokenizer as source
from transbeam.serving.phone.tokenizer.sources.tokenizer import (
    LONGEST,
    BadDataError,
    Tokenizer,
)
from transbeam.serving.text_ops.mask_tokens import tokenize_with_masks
from transbeam.serving.text_ops.prompts import as_utf8, without_special
from transbeam.serving.text_ops.text_encoder import TextEncoder

LONG = ("wordpiece (True, False)", "albert")  # with a piece that hides a token
TEXTS = [*HOSTILE_TEXTS, *SENTENCES]
WITH_MASK = [name for name in NAMES if engine(name).special.mask is not None]
WITH_FRAME = [name for name in NAMES if engine(name).special.begin is not None]


@pytest.mark.parametrize("name", NAMES)
def test_hostile_texts_have_the_ids_of_the_graph(name):
    found = [reference(name).encode(text) for text in TEXTS]
    assert found == engine_ids(name, TEXTS)


@pytest.mark.parametrize("name", NAMES)
def test_texts_at_random_have_the_ids_of_the_graph(name):
    texts = random_texts(200, seed=name)
    assert [reference(name).encode(text) for text in texts] == engine_ids(name, texts)


def awkward_texts():
    characters = st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from("aAbIiß\u0130Σσς'-. \t\n\x00\x0b\x85\u200d\u2028漢字é\ufffd▁Ġ"),
        st.sampled_from("\u0301\u0300\u0323\u0345\u0334\u08d3\u1dfa\u20dd\U00011938"),
        st.sampled_from(
            "\u302e\u1b44\U0001d165\U0001d16d\u0f39\uac01\u1100\u1161\u11a8"
        ),
    )
    words = st.sampled_from(["[MASK]", "<sep>", "##a", "the ", "x" * 100, "Ünï", "'ll"])
    return st.lists(characters | words, max_size=30).map("".join)


@settings(max_examples=25)  # each asks the graph; there are texts at random above
@given(
    texts=st.lists(awkward_texts(), max_size=6),
    name=st.sampled_from(NAMES),
)
def test_any_text_has_the_ids_of_the_graph(texts, name):
    assert [reference(name).encode(text) for text in texts] == engine_ids(name, texts)


@settings(max_examples=25)
@given(data=st.data(), name=st.sampled_from(NAMES))
def test_any_ids_become_the_text_of_the_graph(data, name):
    tokenizer = engine(name)
    ids = st.lists(st.integers(0, tokenizer.vocabulary_size - 1), max_size=20)
    rows = tf.ragged.constant(data.draw(st.lists(ids, min_size=1)), tf.int32, 1)
    told = as_utf8(tokenizer.detokenize(without_special(rows, tokenizer))).numpy()
    found = [reference(name).decode(row) for row in rows.to_list()]
    assert found == [text.decode() for text in told]


@pytest.mark.parametrize("name", WITH_MASK)
def test_masks_have_the_ids_of_the_graph(name):
    texts = [*HOSTILE_TEXTS, *(f"{text}  [MASK] {text}" for text in SENTENCES)]
    found = [reference(name).encode_with_masks(text) for text in texts]
    assert found == tokenize_with_masks(engine(name), tf.constant(texts)).to_list()
    assert sum(row.count(engine(name).special.mask) for row in found) > 10


def test_a_vocabulary_without_a_mask_says_so():
    with pytest.raises(ValueError, match="no piece that hides"):
        reference("unigram").encode_with_masks("a [MASK]")


@settings(max_examples=25)
@given(
    lengths=st.tuples(st.integers(0, 20), st.integers(0, 20)),
    room=st.integers(3, 20),
    name=st.sampled_from(WITH_FRAME),
)
def test_any_row_is_that_of_the_graph(lengths, room, name):
    first, second = ([*range(9, 9 + length)] for length in lengths)
    ragged = [tf.ragged.constant([ids], tf.int32, 1) for ids in (first, second)]
    encoder = TextEncoder(engine(name), room)
    alone = reference(name).frame(first, room)
    paired = reference(name).frame_pair(first, second, room)
    for row, encoded in (
        (alone, encoder.text(ragged[0])),
        (paired, encoder.pair(*ragged)),
    ):
        width = encoded.token_ids.shape[1]
        assert len(row.token_ids) == room >= width
        assert row.token_ids[:width] == encoded.token_ids.numpy().tolist()[0]
        assert row.padding_mask[:width] == encoded.padding_mask.numpy().tolist()[0]
        assert row.segment_ids[:width] == encoded.segment_ids.numpy().tolist()[0]
        assert row.truncated == encoded.truncated.numpy().tolist()[0]
        assert row.token_ids[width:] == [engine(name).special.pad] * (room - width)
        assert not any(row.padding_mask[width:] + row.segment_ids[width:])


FRAMES = [
    TextFrame(None, 7, None, alone=7),
    TextFrame(None, 7, 7, alone=7),
    TextFrame(6, 7, None, alone=7),
    TextFrame(6, 7, 7, alone=7),
]


@pytest.mark.parametrize("frame", FRAMES, ids=str)
@pytest.mark.parametrize("lengths", [(0, 0), (0, 3), (2, 1), (9, 1), (1, 9), (9, 9)])
def test_rows_of_a_decoder_are_those_of_the_graph(lengths, frame):
    tokenizer = Tokenizer(phone_data("byte_bpe") | {"frame": frame._asdict()})
    first, second = ([*range(9, 9 + length)] for length in lengths)
    ragged = [tf.ragged.constant([ids], tf.int32, 1) for ids in (first, second)]
    encoder = TextEncoder(engine("byte_bpe"), 8, frame)
    for row, encoded in (
        (tokenizer.frame(first, 8), encoder.text(ragged[0])),
        (tokenizer.frame_pair(first, second, 8), encoder.pair(*ragged)),
    ):
        size = encoded.lengths.numpy()[0]
        assert row.token_ids[:size] == encoded.token_ids.numpy()[0, :size].tolist()
        assert row.segment_ids[:size] == encoded.segment_ids.numpy()[0, :size].tolist()
        assert sum(row.padding_mask) == size > 0
        assert row.truncated == encoded.truncated.numpy()[0]


def test_a_text_without_pieces_is_a_frame():
    tokenizer = reference("wordpiece (True, True)")
    row = tokenizer.frame(tokenizer.encode(" \u200b\t"), 4)
    assert row == ([2, 3, 0, 0], [1, 1, 0, 0], [0] * 4, False)


def test_rows_for_encoders_before_decoders():
    tokenizer = reference("t5")
    assert tokenizer.source([7, 8], 4) == ([7, 8, 1, 0], [1, 1, 1, 0], [0] * 4, False)
    assert tokenizer.source([7, 8, 9], 3) == ([7, 8, 1], [1] * 3, [0] * 3, True)
    assert tokenizer.source([], 1).token_ids == [1]
    with pytest.raises(ValueError, match="no room"):
        tokenizer.source([7], 0)


def test_prompts():
    own, one, none = map(reference, ("unigram", "byte_bpe", "t5"))
    assert own.prompt([7, 8], 5) == [1, 7, 8]
    assert own.prompt([7, 8], 2) == [7, 8]
    assert own.prompt([], 5) == [1]
    assert one.prompt([7], 5) == [7]
    assert one.prompt([], 5) == [0]
    assert none.prompt([], 5) == [1]


def test_where_the_masks_of_a_row_stand():
    tokenizer = reference("wordpiece (True, True)")
    row = tokenizer.frame(tokenizer.encode_with_masks("[MASK] the [MASK]"), 8)
    places = [i for i, piece in enumerate(row.token_ids) if piece == 4]
    assert len(places) == 2
    assert places[0] == 1
    assert tokenizer.masked_positions(row, 4) == [*places, 0, 0]
    assert tokenizer.masked_positions(row, 1) == places[:1]


def test_a_frame_needs_pieces_and_room():
    with pytest.raises(ValueError, match="no pieces to frame"):
        reference("t5").frame([7], 8)
    with pytest.raises(ValueError, match="a row of 1 has no room for a frame of 2"):
        reference("unigram").frame([7], 1)
    with pytest.raises(ValueError, match="a row of 2 has no room for a frame of 3"):
        reference("unigram").frame_pair([7], [8], 2)


@pytest.mark.parametrize("wrong", [-1, 10**6])
def test_decode_refuses_an_id_outside_the_vocabulary(wrong):
    with pytest.raises(ValueError, match="outside the vocabulary"):
        reference("byte_bpe").decode([5, wrong])


@pytest.mark.parametrize("name", LONG)
def test_texts_up_to_a_length_are_read(name):
    tokenizer = reference(name)
    longest = "é" * (LONGEST // 2)
    for encode in (tokenizer.encode, tokenizer.encode_with_masks):
        assert encode(longest)
        with pytest.raises(ValueError, match="200001 bytes: expected 200000 at most"):
            encode(longest + "a")


def test_a_half_of_a_surrogate_pair_is_no_character():
    tokenizer = reference("byte_bpe")
    assert tokenizer.encode("a\ud83d b\udc00") == tokenizer.encode("a\ufffd b\ufffd")
    assert tokenizer.encode("\ud83d\ude00") == tokenizer.encode("\U0001f600")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "Expecting value"),
        ("[]", "found the format None"),
        ('{"format": "other", "version": 1}', "found the format .'other', 1"),
        ('{"format": "transbeam-phone-tokenizer", "version": 99}', "99"),
        (
            '{"format": "transbeam-phone-tokenizer", "version": 1, "kind": "word"}',
            "found the kind 'word'",
        ),
        (
            '{"format": "transbeam-phone-tokenizer", "version": 1, "kind": "bpe"}',
            "damaged: KeyError.'pieces'",
        ),
    ],
)
def test_bad_data_are_refused(tmp_path, content, message):
    file = tmp_path / "phone_tokenizer.json"
    file.write_text(content)
    with pytest.raises(BadDataError, match=f"phone_tokenizer.json: .*{message}"):
        Tokenizer.load(file)


def test_it_needs_python_alone_and_says_what_disagrees(tmp_path):
    from tests.serving.phone.tokenizer.sample_tokenizers import model
    from transbeam.serving.phone.tokenizer.tokenizer_data import make_tokenizer_data

    name = "wordpiece (True, False)"
    data, golden = tmp_path / "data.json", tmp_path / "golden.json"
    data.write_text(json.dumps(make_tokenizer_data(model(name))))
    cases = golden_ids(engine(name))

    def run():
        golden.write_text(json.dumps(cases))
        # -S and -I: no installed package can be found.
        command = [sys.executable, "-I", "-S", source.__file__, str(data), str(golden)]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONUTF8": "1"},
        )

    good = run()
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout == f"{len(cases['cases'])} texts: all as expected\n"
    cases["cases"][8]["ids"][0] += 1
    bad = run()
    assert bad.returncode == 1
    assert bad.stdout.count("\n") == 1
    assert repr(cases["cases"][8]["text"]) in bad.stdout
