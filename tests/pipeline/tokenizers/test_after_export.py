"""Exported tokenizers give the same ids in another process without our code."""

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

from tests.pipeline.tokenizers.hostile_text_tokenizers import (
    HOSTILE,
    byte_bpe,
    wordpiece,
)
from tests.pipeline.tokenizers.sentencepiece_models import train
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_tokenizer import (
    SentencePieceTokenizer,
)

T5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}

# Loaded in both ways there are: Python's, and the one of the C++ servers.
RELOAD = """
import json, sys
# What TensorFlow would import if it is there, which takes as long as TensorFlow itself.
sys.modules |= dict.fromkeys(("jax", "matplotlib", "sklearn"))
import tensorflow as tf

texts = [bytes.fromhex(text) for text in json.load(sys.stdin)]

def plain(outputs):
    values = {name: value.tolist() for name, value in outputs.items()}
    if "texts" in values:
        values["texts"] = [text.hex() for text in values["texts"]]
    return values

def loaded(folder, names):
    model = tf.saved_model.load(folder)
    for name in names:
        outputs = getattr(model, name)(tf.constant(texts))
        yield name, plain({key: tensor.numpy() for key, tensor in outputs.items()})

def in_a_session(folder, names):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        model = tf.compat.v1.saved_model.load(session, ["serve"], folder)
        for name in names:
            signature = model.signature_def[name]
            outputs = {key: info.name for key, info in signature.outputs.items()}
            feed = {signature.inputs["texts"].name: texts}
            yield name, plain(session.run(outputs, feed))

def foreign(*packages):
    return [name for name in sys.modules if name.split(".")[0] in packages]

alone, both = ("alone", ["byte_bpe"]), ("both", ["wordpiece", "sentence_piece"])
results = [dict(load(*alone)) for load in (loaded, in_a_session)]
assert not foreign("pipeline", "tensorflow_text")
import tensorflow_text
results[0].update(loaded(*both))
results[1].update(in_a_session(*both))
assert not foreign("pipeline")
print(json.dumps(results))
"""


@cache
def sentence_piece() -> SentencePieceTokenizer:
    return SentencePieceTokenizer(train(**T5), num_sentinels=2)


def ids_of_byte_bpe(texts: tf.Tensor) -> dict[str, tf.Tensor]:
    ids = byte_bpe().tokenize(texts)
    return {"values": ids.values, "row_splits": ids.row_splits}


def ids_of_wordpiece(texts: tf.Tensor) -> dict[str, tf.Tensor]:
    ids = wordpiece(True, False).tokenize(texts)
    return {"values": ids.values, "row_splits": ids.row_splits}


def round_trip(texts: tf.Tensor) -> dict[str, tf.Tensor]:
    tokenizer = sentence_piece()
    ids = tokenizer.tokenize(texts)
    sentinel = tf.fill([ids.nrows(), 1], tokenizer.special.sentinels[0])
    ids = tf.concat([ids, sentinel], axis=1)
    return {"values": ids.values, "texts": tokenizer.detokenize(ids)}


FUNCTIONS = {
    "byte_bpe": ids_of_byte_bpe,
    "wordpiece": ids_of_wordpiece,
    "sentence_piece": round_trip,
}


@cache
def reloaded() -> list[dict[str, Any]]:
    """The answers of another process, in both ways, under a Turkish locale."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "alone", ["byte_bpe"], byte_bpe())
        others = [wordpiece(True, False), sentence_piece()]
        write(Path(folder) / "both", ["wordpiece", "sentence_piece"], *others)
        result = subprocess.run(
            [sys.executable, "-c", RELOAD],
            input=json.dumps([text.hex() for text in HOSTILE]),
            env=os.environ | {"LC_ALL": "tr_TR.UTF-8"},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def write(folder: Path, names: list[str], *tokenizers: tf.Module) -> None:
    archive = keras.export.ExportArchive()
    for tokenizer in tokenizers:
        archive.track(tokenizer)
    spec = tf.TensorSpec([None], tf.string, name="texts")
    for name in names:
        archive.add_endpoint(name, FUNCTIONS[name], input_signature=[spec])
    archive.write_out(str(folder), verbose=False)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_same_ids_and_texts_after_export_in_another_process(name):
    here = {
        key: tensor.numpy().tolist()
        for key, tensor in FUNCTIONS[name](tf.constant(HOSTILE)).items()
    }
    if "texts" in here:
        here["texts"] = [text.hex() for text in here["texts"]]
    loaded, in_a_session = reloaded()
    assert loaded[name] == here
    assert in_a_session[name] == here
