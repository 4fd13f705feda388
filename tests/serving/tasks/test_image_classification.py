"""Classifiers of images, from files, examples and pixels."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from configs.errors import ArtifactError, ConfigError, DataError
from configs.model import Patches, Pooler
from configs.objective import ImageClassificationConfig
from pipeline.pixels import decode_image
from serving.client.interface import ServerError
from serving.export import export
from serving.forms import PhoneModel, ask_saved_model
from serving.gate.images import ImageJudge
from serving.gate.served import our_server
from serving.golden import read_golden
from serving.images.samples import sample_images
from serving.local import LocalClient
from serving.looking import predict_images
from serving.predict import describe, predict
from serving.savedmodel import ops_of
from serving.server.models.warming import read_warm_up
from serving.trained import load_trained
from tests.serving.conftest import TINY, invocation_of, make_run
from tests.serving.images.making import file_of, held, picture
from tests.serving.session import session_on
from trainer.evaluation.exported import outputs_by

LABELS = ("cat", "dog", "bird")
SIZE = 16


def make(folder, channels: int, **export_keys) -> SimpleNamespace:
    """A run of untrained weights, exported."""
    objective = ImageClassificationConfig(
        labels=LABELS, image_size=SIZE, channels=channels
    )
    patches = Patches(image_size=SIZE, patch_size=4, num_channels=channels)
    config = replace(
        TINY,
        objective=objective,
        model=replace(
            TINY.model,
            max_sequence_length=patches.sequence_length,
            patches=patches,
            pooler=Pooler(kind="first", projection=False),
        ),
        export=replace(TINY.export, **{"examples": (), **export_keys}),
    )
    make_run(folder, config)
    rng = np.random.default_rng(0)
    shape = (5, SIZE, SIZE, channels)
    records = rng.integers(0, 256, shape, np.uint8)
    file = folder / "data/records/validation-00000.tfrecord"
    with tf.io.TFRecordWriter(str(file)) as writer:
        for image in records:
            example = tf.train.Example()
            value = example.features.feature["image"].bytes_list.value
            value.append(image.tobytes())
            writer.write(example.SerializeToString())
    result = export(invocation_of(folder, config))
    return SimpleNamespace(
        folder=folder,
        saved_model=folder / "export/saved_model/1",
        trained=load_trained(folder),
        result=result,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make(tmp_path_factory.mktemp("images") / "run", channels=3)


@pytest.fixture(scope="module")
def ask(run):
    return ask_saved_model(run.saved_model)


@pytest.fixture
def files():
    return [
        file_of(picture(30, 44), "JPEG", exif=held(6)),
        file_of(picture(SIZE, SIZE, seed=1), "PNG"),
        file_of(picture(1, 1), "PNG"),
        file_of(picture(90, 7, seed=2).convert("L"), "JPEG"),
    ]


def pixels_of(files) -> np.ndarray:
    """As the data job has them, (N, S, S, 3)."""
    raw = b"".join(decode_image(file, SIZE) for file in files)
    return np.frombuffer(raw, np.uint8).reshape(-1, SIZE, SIZE, 3)


def keras_logits(run, pixels) -> np.ndarray:
    """Of each image alone."""
    model = run.trained.model
    rows = [
        model({"image": one[np.newaxis]}, training=False)["logits"] for one in pixels
    ]
    return np.concatenate([np.asarray(row) for row in rows])


def test_all_forms_passed_the_gate(run):
    parity = run.result["parity"]
    assert len({row["form"] for row in parity}) == 7
    assert len(parity) == 3 * 3 + 2 * 1 + 2 * 2
    assert all(row["passed"] for row in parity)
    assert "ms an image" in run.result["summary"]
    left = {path.name for path in (run.folder / "export/tflite").iterdir()}
    assert left == {"model_float32.tflite", "model_dynamic_int8.tflite"}


def test_the_gate_finds_one_pixel_and_one_number(run, ask):
    judge = ImageJudge.of(run.trained, run.folder)
    assert judge.size == 5 + 5

    def failed(signature: str, output: str, change) -> list[str]:
        def altered(name, files):
            answers = {key: np.array(value) for key, value in ask(name, files).items()}
            if name == signature:
                answers[output][-1] = change(answers[output][-1])
            return answers

        rows = judge.saved_model_rows("altered", altered)
        return [row.check.partition(",")[0] for row in rows if not row.passed]

    def one_lighter(image):
        image[3, 4, 1] ^= 1
        return image

    assert failed("pixels", "image", lambda image: image) == []
    assert failed("pixels", "image", one_lighter) == ["pixels"]
    assert failed("serving_default", "classes", lambda c: c[::-1]) == ["labels"]
    uneven = failed("serving_default", "scores", lambda s: s * [0.999, 1, 1])
    assert uneven == ["log-probability"]


def test_answers_to_files_are_keras_s(run, files):
    expected = keras_logits(run, pixels_of(files))
    with session_on(run.saved_model) as ask:
        pixels = ask("pixels", {"image_bytes": files})["image"]
        found = ask("serving_default", {"image_bytes": files})
        empty = ask("serving_default", {"image_bytes": []})
    np.testing.assert_array_equal(pixels, pixels_of(files))
    assert set(found) == {"label", "classes", "scores"}
    probabilities = np.exp(expected) / np.exp(expected).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found["scores"], probabilities, atol=2e-6)
    assert found["scores"].dtype == np.float32
    assert found["classes"].tolist() == [[one.encode() for one in LABELS]] * 4
    best = [LABELS[place].encode() for place in expected.argmax(axis=1)]
    assert found["label"].tolist() == best
    assert len(set(np.round(found["scores"][:, 0], 4))) == 4  # it has opinions
    assert {len(value) for value in empty.values()} == {0}


def test_classify_takes_examples(run, ask, files):
    examples = []
    for content in files:
        example = tf.train.Example()
        feature = example.features.feature["image_bytes"]
        feature.bytes_list.value.append(content)
        examples.append(example.SerializeToString())
    found = ask("classify", {"inputs": examples})
    expected = ask("serving_default", {"image_bytes": files})
    assert set(found) == {"classes", "scores"}
    np.testing.assert_array_equal(found["scores"], expected["scores"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="image_bytes"):
        ask("classify", {"inputs": [b""]})


def test_answers_to_pixels_are_keras_s_also_on_phones(run, ask, files):
    pixels = pixels_of(files)
    expected = keras_logits(run, pixels)
    found = ask("classify_pixels", {"image": pixels})["logits"]
    np.testing.assert_allclose(found, expected, atol=2e-5)
    phone = PhoneModel(run.folder / "export/tflite/model_float32.tflite")
    for one, logits in zip(pixels, expected, strict=True):
        found = phone.ask("classify_pixels", image=one)["logits"]
        np.testing.assert_allclose(found, logits, atol=2e-5)


@pytest.mark.parametrize(
    "form",
    ["saved_model/1", "tflite/model_float32.tflite"],
    ids=["SavedModel", "TFLite"],
)
def test_it_is_judged_on_records(run, files, form):
    """As `transbeam evaluate --model` does."""
    pixels = pixels_of(files)
    outputs = outputs_by(run.folder / "export" / form, run.trained.config, 1)
    found = outputs({"image": pixels, "label": np.zeros(4, np.int32)})["logits"]
    np.testing.assert_allclose(found, keras_logits(run, pixels), atol=2e-5)
    with pytest.raises(ArtifactError, match="another"):
        outputs({"token_ids": np.ones((1, 4), np.int32)})


def test_what_a_server_asks_before_it_lets_anybody_in(run, ask):
    pixels, scores = read_golden(run.saved_model)
    assert (pixels.signature, list(pixels.outputs)) == ("pixels", ["image"])
    assert pixels.outputs["image"].dtype == np.uint8
    assert (scores.signature, list(scores.outputs)) == ("serving_default", ["scores"])
    for golden in (pixels, scores):
        assert golden.inputs["image_bytes"].tolist() == sample_images()
        assert golden.difference(ask(golden.signature, golden.inputs)) is None
    changed = dict(pixels.outputs, image=pixels.outputs["image"] ^ 1)
    assert "image" in str(pixels.difference(changed))
    requests = list(read_warm_up(run.saved_model))
    names = ["serving_default", "classify", "pixels", "classify_pixels"]
    assert [name for name, _ in requests] == 2 * names
    for name, inputs in requests:
        ask(name, inputs)


def test_a_vocabulary_is_not_part_of_it(run):
    assert not {op for op in ops_of(run.saved_model) if "HashTable" in op}
    assert not list((run.saved_model / "assets").glob("*"))


def test_a_bad_file_hurts_no_neighbour(run, ask, files):
    expected = ask("serving_default", {"image_bytes": files})["scores"]
    bad = (b"", b"no image", files[0][:-40])
    with our_server(run.saved_model) as served, ThreadPoolExecutor(8) as pool:
        rest, rpc = served.asks.values()

        def answer(content: bytes, remote):
            try:
                asked = {"image_bytes": [content]}
                return remote("serving_default", asked)["scores"]
            except ServerError as error:
                return error

        asked = 4 * [*files, *bad]
        answers = list(pool.map(answer, asked, len(asked) // 2 * [rest, rpc]))
    for content, found in zip(asked, answers, strict=True):
        if content in bad:
            assert found.code == "INVALID_ARGUMENT"
            wanted = "image_bytes" if len(content) < 9 else "Invalid JPEG data"
            assert wanted in str(found)
        else:
            row = expected[files.index(content)]
            np.testing.assert_allclose(found[0], row, atol=1e-6)


def test_predict_reads_files(run, ask, files, tmp_path):
    paths = [tmp_path / name for name in ("a.jpg", "b.png")]
    for path, content in zip(paths, files, strict=False):
        path.write_bytes(content)
    client = LocalClient(run.saved_model)
    found = predict(client, paths)
    expected = ask("serving_default", {"image_bytes": files[:2]})
    assert [one["image"] for one in found] == [str(path) for path in paths]
    assert [one["label"].encode() for one in found] == expected["label"].tolist()
    assert found[0]["classes"][0]["score"] == expected["scores"][0].max()
    assert describe(found[0]).splitlines()[0] == str(paths[0])
    # As lines of --input and examples are.
    assert predict(client, [str(path) for path in paths]) == found
    with pytest.raises(DataError, match=r"'a dog': cannot be read: .* JPEG or PNG"):
        predict(client, ["a dog"])
    with pytest.raises(ConfigError, match="2 second texts; expected 0"):
        predict(client, paths, ["a dog", "a cat"])
    (tmp_path / "b.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"b\.png: the model refuses it: INVALID.* \[8"):
        predict_images(client, paths)


@pytest.mark.thorough
def test_grey_images_and_examples_by_path(tmp_path):
    """A model of grey images makes colour ones grey."""
    (tmp_path / "colour.jpg").write_bytes(file_of(picture(40, 33), "JPEG"))
    made = make(
        tmp_path / "run",
        channels=1,
        examples=(str(tmp_path / "colour.jpg"),),
        tflite=(),
    )
    assert all(row["passed"] for row in made.result["parity"])
    judge = ImageJudge.of(made.trained, made.folder)
    assert judge.size == 1 + 5 + 5
    assert judge.expected[0].pixels.shape == (SIZE, SIZE, 1)


@pytest.mark.thorough
def test_an_example_that_is_no_image(run, tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"no image")
    for path, said in (("a.jpg", "no image"), ("b.jpg", "cannot be read")):
        config = run.trained.config
        examples = (str(tmp_path / path),)
        changed = replace(config, export=replace(config.export, examples=examples))
        with pytest.raises(DataError, match=said):
            ImageJudge.of(replace(run.trained, config=changed), run.folder)


@pytest.mark.thorough
def test_it_needs_no_python(run, ask, native):
    native(run.saved_model, ask)
