"""A TFLite file takes a text itself and has the ids of the model's graph."""

import random

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import InterpreterWithCustomOps
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow_text.core.pybinds import tflite_registrar

from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.pipeline.tokenizers.sentencepiece_models import SENTENCES
from tests.serving.phone.tokenizer.sample_tokenizers import (
    NAMES,
    data,
    engine,
    random_texts,
)
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)
from transbeam.serving.phone.tokenizer.bert_normalizer_table import double_array
from transbeam.serving.phone.tokenizer.tflite_wordpiece import (
    CUSTOM_OPS,
    GraphWordPiece,
)
from transbeam.serving.text_ops.text_encoder import TextEncoder

LENGTH = 40
# Its accents stay; one that loses them, too, is asked below.
QUICK = ("wordpiece (True, False)",)
WORDPIECE = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.thorough)
    for name in NAMES
    if name.startswith("wordpiece")
]


def marks_that_stay():
    """Those that are kept when accents are dropped, by their place on a letter."""
    order = data("wordpiece (True, True)")["characters"]["order"]
    groups = zip(order[::3], order[1::3], order[2::3], strict=True)
    places = {chr(c): at for first, last, at in groups for c in range(first, last + 1)}
    return sorted(places, key=places.__getitem__)


def convert(own, folder):
    tokenizer = GraphWordPiece(own)

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([1], tf.string, name="text")])
        def text(self, text):
            return tokenizer.row(text, LENGTH)

    model = Model()
    model.tokenizer = tokenizer
    tf.saved_model.save(model, folder, signatures={"text": model.text})
    converter = tf.lite.TFLiteConverter.from_saved_model(
        str(folder), signature_keys=["text"]
    )
    converter.allow_custom_ops = True
    return converter.convert()


def asking(content):
    """Runs a file on a text."""
    interpreter = InterpreterWithCustomOps(
        custom_op_registerers=tflite_registrar.SELECT_TFTEXT_OPS, model_content=content
    )
    runner = interpreter.get_signature_runner("text")

    def ask(text):
        row = runner(text=np.array([text.encode()], object))
        return row["token_ids"][0].tolist(), row["padding_mask"][0].tolist()

    return ask


@pytest.fixture(scope="module", params=WORDPIECE)
def converted(request, tmp_path_factory):
    """A tokenizer of a graph, and the file made of it."""
    own = engine(request.param)
    return own, convert(own, tmp_path_factory.mktemp("in_graph"))


def test_texts_have_the_rows_of_the_graph(converted):
    own, content = converted
    marks = set(marks_that_stay())
    every = [*HOSTILE_TEXTS, *SENTENCES, *random_texts(300, seed="in graph")]
    texts = [text for text in every if sum(c in marks for c in text) < 2]
    assert len(texts) > 0.9 * len(every)
    encoded = TextEncoder(own, LENGTH).text(own.tokenize(tf.constant(texts)))
    expected = zip(
        encoded.token_ids.numpy().tolist(),
        encoded.padding_mask.numpy().tolist(),
        strict=True,
    )
    assert list(map(asking(content), texts)) == list(expected)


def test_two_marks_that_stay_are_left_out_of_order(tmp_path):
    first, *_, last = marks_that_stay()
    pieces = [*SPECIAL_PIECES, "x", f"##{first}", f"##{last}"]
    own = WordPieceTokenizer(pieces)
    texts = [f"x{first}{last}", f"x{last}{first}"]
    assert own.tokenize(texts).to_list() == [[5, 6, 7], [5, 6, 7]]
    ask = asking(convert(own, tmp_path))
    assert [ask(text)[0][1:4] for text in texts] == [[5, 6, 7], [5, 7, 6]]


def test_the_file_has_the_ops_that_are_named(converted):
    _, content = converted
    model = schema.Model.GetRootAsModel(content, 0)
    codes = [model.OperatorCodes(i) for i in range(model.OperatorCodesLength())]
    custom = {code.CustomCode().decode() for code in codes if code.CustomCode()}
    assert custom == CUSTOM_OPS
    assert len(content) < 2_000_000


def test_any_keys_are_found_and_no_others():
    chance = random.Random(3)
    keys = {chr(chance.randrange(1, 0xD800)).encode(): i for i in range(4000)}
    trie = double_array(keys).tolist()

    def look_up(key):
        place = trie[0] >> 10
        for byte in key:
            place ^= byte
            if trie[place] & 0x800000FF != byte:
                return None
            has_leaf = trie[place] >> 8 & 1
            place ^= trie[place] >> 10
        return trie[place] & 0x7FFFFFFF if has_leaf else None

    for c in range(1, 0xD800):
        key = chr(c).encode()
        assert look_up(key) == keys.get(key)
