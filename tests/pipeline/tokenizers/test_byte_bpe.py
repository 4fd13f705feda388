"""The ids are those of the Rust library, eagerly, in tf.data and after a reload."""

import ast
import json
import random
import subprocess
import sys
import sysconfig
from collections import Counter
from functools import cache
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.errors import ArtifactError
from pipeline.tokenizers.byte_bpe import ByteBPETokenizer
from pipeline.tokenizers.byte_bpe_vocabulary import ALPHABET
from pipeline.tokenizers.learning_byte_bpe import learn_byte_bpe
from tests.data.hostile_strings import HOSTILE_BYTES, HOSTILE_TEXTS
from tests.pipeline.tokenizers.rust_byte_bpe import rust_byte_bpe, rust_byte_bpe_ids

HOSTILE = [text.encode() for text in HOSTILE_TEXTS] + HOSTILE_BYTES

# What makes words begin or end, and what looks like it.
SNIPPETS = [
    *[" ", "  ", "\n", "\t", "\r\n", "\xa0", "\u3000", "\x0b", "\x85", "\u2028", "\0"],
    *[
        "'",
        "''",
        "'s",
        "'S",
        "'re",
        "'ll",
        "'ve",
        "'t",
        "'m",
        "'d",
        "'l",
        "ve",
        "\u2019s",
    ],
    *["a", "A", "the", "ing", "é", "\u0301", "漢字", "\u01c5", "\U00010400", "한"],
    *["1", "12", "\u0661", "\xbd", "\u2163", "!", "...", "---", "=", "\U0001f600"],
    *["\u200d", "\u200b", "\ufffd", "\U0010ffff", "<|endoftext|>", "x" * 30, "-" * 40],
]


@cache
def docstrings():
    texts = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("[a-c]*.py")):
        texts.extend(
            ast.get_docstring(node, clean=False) or ""
            for node in ast.walk(ast.parse(path.read_bytes()))
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        )
    return texts


@cache
def learned():
    splitter = ByteBPETokenizer(ALPHABET, [], special_pieces=[])
    words = splitter.words([*docstrings(), *HOSTILE_TEXTS * 2]).flat_values.numpy()
    return learn_byte_bpe(Counter(words.tolist()), 1500)


@cache
def tokenizer(add_prefix_space=False):
    return ByteBPETokenizer(*learned(), add_prefix_space=add_prefix_space)


@cache
def rust(add_prefix_space=False):
    return rust_byte_bpe(*learned(), add_prefix_space=add_prefix_space)


def test_ids_by_hand():
    pieces = [*ALPHABET, "Ġa", "nd", "Ġand", "<|endoftext|>"]
    merges = [("Ġ", "a"), ("n", "d"), ("Ġa", "nd")]
    by_hand = ByteBPETokenizer(pieces, merges)
    ids = by_hand.tokenize(["band and", "", "  a", "<|"])
    expected = [[98, 97, 257, 258], [], [32, 256], [60, 124]]
    assert ids.to_list() == expected
    assert ids.dtype == tf.int32
    assert by_hand.vocabulary_size == 260


@pytest.mark.parametrize("add_prefix_space", [False, True])
def test_hostile_texts_have_the_ids_of_the_rust_library(add_prefix_space):
    ids = tokenizer(add_prefix_space).tokenize(HOSTILE).to_list()
    assert ids == rust_byte_bpe_ids(rust(add_prefix_space), HOSTILE)


def generated_texts(seed, count):
    rng = random.Random(seed)
    corpus = "".join(docstrings())
    for _ in range(count // 4):
        yield "".join(rng.choices(SNIPPETS, k=rng.randint(1, 25)))
        code_points = (rng.randrange(2 ** rng.randint(3, 20)) for _ in range(20))
        yield "".join(chr(c) for c in code_points if not 0xD800 <= c < 0xE000)
        yield "".join(rng.choices("etaoinshrdlucmfwyp", k=rng.randint(1, 60)))
        start = rng.randrange(len(corpus))
        snippet = rng.choice(SNIPPETS)
        yield corpus[start : start + 40] + snippet + corpus[start + 40 : start + 80]


def test_generated_texts_have_the_ids_of_the_rust_library():
    texts = list(generated_texts(seed=0, count=8000))
    assert tokenizer().tokenize(texts).to_list() == rust_byte_bpe_ids(rust(), texts)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.lists(
            st.sampled_from(SNIPPETS) | st.characters(exclude_categories=["Cs"]),
            max_size=20,
        ).map("".join)
        | st.binary(max_size=20),
        max_size=6,
    )
)
def test_any_text_has_the_ids_of_the_rust_library_and_comes_back(texts):
    encoded = [t if isinstance(t, bytes) else t.encode() for t in texts]
    ids = tokenizer().tokenize(tf.constant(encoded, tf.string, [len(encoded)]))
    assert ids.to_list() == rust_byte_bpe_ids(rust(), encoded)
    expected = [text.decode("utf-8", "replace").encode() for text in encoded]
    assert tokenizer().detokenize(ids).numpy().tolist() == expected


@pytest.mark.parametrize(
    "word",
    ["a" * 100_000, "ab" * 50_000, "-=-" * 30_000, "漢字" * 20_000, " " * 99_999],
)
def test_a_very_long_word_among_short_ones(word):
    texts = ["short words", word, f"a {word} b"]
    assert tokenizer().tokenize(texts).to_list() == rust_byte_bpe_ids(rust(), texts)


def test_a_very_long_word_of_random_letters():
    texts = ["".join(random.Random(0).choices("etaoinshrdlu", k=100_000))]
    assert tokenizer().tokenize(texts).to_list() == rust_byte_bpe_ids(rust(), texts)


def test_a_text_is_its_words_put_together():
    rows = tokenizer().words(HOSTILE).to_list()
    joined = [b"".join(row) for row in rows]
    assert joined == [t.decode("utf-8", "replace").encode() for t in HOSTILE]
    assert tokenizer().words(["It's  so\n"]).to_list() == [
        [b"It", b"'s", b" ", b" so", b"\n"]
    ]


def test_no_texts_give_no_rows():
    none = tf.zeros([0], tf.string)
    assert tokenizer().tokenize(none).to_list() == []
    assert tokenizer().words(none).to_list() == []
    assert tokenizer().detokenize(tokenizer().tokenize(none)).shape == (0,)
    assert tokenizer(add_prefix_space=True).tokenize([""]).to_list() == [[]]


def test_detokenize_gives_bytes_and_special_pieces():
    pieces = ["<pad>", *ALPHABET, "Ġa", "naïve piece"]
    special = ["<pad>", "naïve piece"]
    by_hand = ByteBPETokenizer(pieces, [("Ġ", "a")], special_pieces=special)
    ids = tf.ragged.constant([[257, 0, 258], [], [0xE9 + 1]], dtype=tf.int32)
    expected = [" a<pad>naïve piece".encode(), b"", b"\xe9"]
    assert by_hand.detokenize(ids).numpy().tolist() == expected


@pytest.mark.parametrize("wrong", [1500, -1, 10**6])
def test_detokenize_refuses_an_id_outside_the_vocabulary(wrong):
    ids = tf.ragged.constant([[5, wrong]], dtype=tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in"):
        tokenizer().detokenize(ids)


def test_pieces_that_start_words_and_ordinary_ones():
    pieces = [*ALPHABET, "Ġa", "<|endoftext|>"]
    by_hand = ByteBPETokenizer(pieces, [("Ġ", "a")])
    assert np.flatnonzero(by_hand.starts_word).tolist() == [32, 256, 257]
    assert by_hand.ordinary_ids.tolist() == list(range(257))
    assert by_hand.special.begin == by_hand.special.end == by_hand.special.pad == 257
    # A word alone and inside a sentence.
    alone = by_hand.tokenize([by_hand.word_prefix + "a"]).to_list()
    assert alone == [[256]] == [by_hand.tokenize(["b a"]).to_list()[0][1:]]


def test_a_faulty_vocabulary_is_refused():
    with pytest.raises(ArtifactError, match=r"vocabulary: merge 0.*'ab'"):
        ByteBPETokenizer([*ALPHABET, "<|endoftext|>"], [("a", "b")])


def test_same_ids_inside_tf_data():
    dataset = tf.data.Dataset.from_tensor_slices(HOSTILE).batch(7)
    rows = [row for ids in dataset.map(tokenizer().tokenize) for row in ids.to_list()]
    assert rows == tokenizer().tokenize(HOSTILE).to_list()


# Loaded in both ways there are: Python's, and the one of the C++ servers.
RELOAD = """
import json, sys
import tensorflow as tf
folder = sys.argv[1]
texts = tf.constant([bytes.fromhex(text) for text in json.load(sys.stdin)])
ids = tf.saved_model.load(folder).tokenize(texts)
graph = tf.Graph()
with graph.as_default(), tf.compat.v1.Session() as session:
    model = tf.compat.v1.saved_model.load(session, ["serve"], folder)
    signature = model.signature_def["tokenize"]
    outputs = {name: info.name for name, info in signature.outputs.items()}
    feed = {signature.inputs["texts"].name: [text for text in texts.numpy()]}
    values = session.run(outputs, feed)
foreign = {"pipeline", "tensorflow_text"}
assert not [name for name in sys.modules if name.split(".")[0] in foreign]
print(json.dumps([ids["values"].numpy().tolist(), values["values"].tolist()]))
"""


def test_same_ids_after_export_with_tensorflow_alone(tmp_path):
    def tokenize(texts):
        ids = tokenizer().tokenize(texts)
        return {"values": ids.values, "row_splits": ids.row_splits}

    archive = keras.export.ExportArchive()
    archive.track(tokenizer())
    spec = tf.TensorSpec([None], tf.string, name="texts")
    archive.add_endpoint("tokenize", tokenize, input_signature=[spec])
    archive.write_out(str(tmp_path / "model"), verbose=False)
    result = subprocess.run(
        [sys.executable, "-c", RELOAD, str(tmp_path / "model")],
        input=json.dumps([text.hex() for text in HOSTILE]),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    loaded, session = json.loads(result.stdout)
    assert loaded == session == tokenizer().tokenize(HOSTILE).values.numpy().tolist()
