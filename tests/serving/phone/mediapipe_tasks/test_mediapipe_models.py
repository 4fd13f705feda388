"""MediaPipe's own clients read as we say, and answer as Keras does.

The clients run in the interpreter that TRANSBEAM_PHONE_PYTHON names: one of an
environment of its own, `pip install mediapipe==1.2.2`, which is large. MediaPipe tries
to tell Google of its use; nothing here needs a network.
"""

import json
import os
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.serving.phone.sample_models import LABELS, model_of, unigram, wordpiece
from tests.serving.phone.tflite_format.metadata_reader import read_metadata
from transbeam.configs.base.version import VERSION
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.phone.conversion.tflite_converter import convert
from transbeam.serving.phone.mediapipe_tasks.mediapipe_check import MediaPipeReading
from transbeam.serving.phone.mediapipe_tasks.mediapipe_models import (
    write_mediapipe,
)
from transbeam.serving.phone.tflite_format.tflite_metadata import (
    TextModelMetadata,
    with_metadata,
)
from transbeam.serving.signatures.base.interface import Endpoint, ids_spec
from transbeam.serving.signatures.task_factory import make_signature_task
from transbeam.serving.text_ops.text_encoder import TextEncoder

PYTHON = os.environ.get("TRANSBEAM_PHONE_PYTHON")
needs_client = pytest.mark.skipif(
    PYTHON is None,
    reason="TRANSBEAM_PHONE_PYTHON names no interpreter that has mediapipe",
)
TOKENIZERS = {
    "wordpiece": wordpiece,
    "padding last": lambda: wordpiece(first_special=1),
    "unigram": unigram,
}
CLIENT = Path(__file__).parents[1] / "mediapipe_client.py"
VARIANTS = ("float32", "dynamic_int8")
TEXTS = (
    "The film was very GOOD, and so was the book!",
    "not what we had in mind",
    "",
    "long " * 80,  # is cut
    "à l'école",
    "漢 [MASK] 7",
)
# White space, controls, marks, case, scripts and lengths at which tokenizers differ.
HOSTILE = (
    *TEXTS,
    "naïve École, ÀÉ. Привет μ",
    "a\u00a0b a\u3000b a\u2028b a\x85b",
    "a\x01b a\u200bb \ufeffthe a\ufffdb",
    "tab\tline\nreturn\rform\x0cvertical\x0bend",
    "e\u0301 \u0301 I\u0307 İ ﬁ ½ ①",
    "x" * 100 + " " + "x" * 101,
    "é" * 50 + " " + "é" * 51 + " " + "漢" * 40,
    "$5 + 3 = 8 ^ | ~ ` € ± × “so” – … ¡good!",
    "[CLS] [SEP] [PAD] ## ##a 😀 good😀",
    "\U0002b820\U0002b921\U00030000 가나",
)


def ask_client(client, file, texts):
    """Scores by label, or a vector, of each text."""
    asked = {"client": client, "file": str(file), "texts": list(texts)}
    done = subprocess.run(
        [str(PYTHON), str(CLIENT)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ask_keras(trained, signature, texts):
    function = make_signature_task(trained).endpoints()[signature].function
    return function(tf.constant(list(texts)))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model of a tiny configuration for a tokenizer, and its files by variant."""

    @cache
    def make(name, tokenizer):
        folder = tmp_path_factory.mktemp(name)
        trained = model_of(name, TOKENIZERS[tokenizer](), folder / "data/tokenizer")
        files = write_mediapipe(trained, folder, folder / "phone")
        assert {variant: file.name for variant, file in files.items()} == {
            variant: f"mediapipe_{variant}.tflite" for variant in VARIANTS
        }
        return trained, files

    return make


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_a_text_of_nothing_is_its_frame_whatever_fills_it_up(made, tokenizer):
    """As the client asks, which fills up with 0."""
    trained, files = made("classifier_small", tokenizer)
    special = trained.tokenizer.special
    assert (special.pad == 0) == (tokenizer != "padding last")
    expected = ask_keras(trained, "serving_default", [""])["scores"].numpy()[0]
    for resized in (True, False):
        model = TFLiteRunner(files["float32"], resized=resized)
        ids = np.array([special.begin, special.end])
        rows = {"ids": ids, "mask": np.ones_like(ids), "segment_ids": 0 * ids}
        found = model.ask("TextClassifier", **rows)
        np.testing.assert_allclose(found["probability"], expected, atol=2e-6, rtol=0)


def test_files_say_what_made_them(made):
    _, files = made("classifier_small", "wordpiece")
    for file in files.values():
        description = read_metadata(file.read_bytes())["description"]
        made_with = f"made with Transbeam {VERSION}."
        assert description == f"Which of 3 classes a text is of; {made_with}"


@needs_client
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_classifies_as_keras_does(made, tokenizer):
    trained, files = made("classifier_small", tokenizer)
    expected = ask_keras(trained, "serving_default", TEXTS)
    scores = expected["scores"].numpy()
    assert np.ptp(scores, axis=0).max() > 0.5  # the texts are told apart

    answers = ask_client("TextClassifier", files["float32"], TEXTS)
    np.testing.assert_allclose(in_order(answers), scores, atol=2e-6, rtol=0)
    chosen = [max(answer, key=answer.get) for answer in answers]
    assert chosen == [label.decode() for label in expected["label"].numpy()]

    answers = ask_client("TextClassifier", files["dynamic_int8"], TEXTS)
    assert rms(in_order(answers) - scores) < 0.1


def in_order(answers):
    return np.array([[answer[label] for label in LABELS] for answer in answers])


@needs_client
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_embeds_as_keras_does(made, tokenizer):
    trained, files = made("masked", tokenizer)
    expected = ask_keras(trained, "embed", TEXTS)["embedding"].numpy()
    found = np.array(ask_client("TextEmbedder", files["float32"], TEXTS))
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)
    found = np.array(ask_client("TextEmbedder", files["dynamic_int8"], TEXTS))
    assert rms(found - expected) < 0.1 * rms(expected)


def rms(values):
    return np.sqrt(np.mean(np.square(values)))


@needs_client
@pytest.mark.parametrize("tokenizer", [*TOKENIZERS, "without accents"])
def test_reads_as_we_say_it_does(tokenizer, tmp_path):
    """By a model that gives its ids away."""
    length = 64
    model = {**TOKENIZERS, "without accents": lambda: wordpiece(strip_accents=True)}[
        tokenizer
    ]()
    endpoint = Endpoint(
        lambda ids, mask, segment_ids: {
            "ids": tf.cast(ids * mask + 1000 * segment_ids - (1 - mask), tf.float32)
        },
        [ids_spec(name, 1, length) for name in ("ids", "mask", "segment_ids")],
    )
    content = convert({"read": endpoint}, length, tmp_path)
    (file,) = model.files().items()
    metadata = TextModelMetadata(
        name="ids",
        description="",
        version="1",
        inputs={spec.name: "" for spec in endpoint.inputs},
        output=("ids", ""),
        tokenizer=model.kind,
        tokenizer_file=file,
    )
    (tmp_path / "ids.tflite").write_bytes(with_metadata(content, metadata))
    found = ask_client("TextEmbedder", tmp_path / "ids.tflite", HOSTILE)

    reading = MediaPipeReading(model.build())
    encoded = TextEncoder(reading, length).text(reading.tokenize(tf.constant(HOSTILE)))
    lengths = encoded.lengths.numpy()
    expected = np.full((len(HOSTILE), length), -1)
    for row, ids, end in zip(expected, encoded.token_ids.numpy(), lengths, strict=True):
        row[:end] = ids[:end]
    np.testing.assert_array_equal(found, expected)
