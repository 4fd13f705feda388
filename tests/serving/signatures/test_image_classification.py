"""Classifiers of images, from files, examples and pixels."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from tests.serving.conftest import TINY, invocation_of
from tests.serving.images.image_files import file_of, held, picture
from tests.serving.native.c_client import require_same
from tests.serving.record_files import write_records
from tests.serving.session import session_on
from tests.serving.signatures.parity_scenario import (
    Scene,
    judged_by_another,
    remembered,
    rows_of,
)
from tests.serving.untrained import write_signatures
from transbeam.configs.base.errors import ArtifactError, ConfigError, DataError
from transbeam.configs.schema.model import PatchesConfig, PoolerConfig
from transbeam.configs.schema.objectives.supervised import ImageClassificationConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.sources.decoding.image_decoding import decode_image
from transbeam.serving.base.golden_requests import read_golden, write_golden
from transbeam.serving.client.interface import ServerError
from transbeam.serving.client.saved_model_client import LocalClient
from transbeam.serving.export.saved_model_writer import list_ops
from transbeam.serving.export.stored_requests import (
    make_golden_requests,
    sample_images,
    write_warm_up,
)
from transbeam.serving.export_stage import export
from transbeam.serving.parity.export_parity import require_passed
from transbeam.serving.parity.image import ImageParityChecker
from transbeam.serving.parity.server_clients import our_server
from transbeam.serving.predict.formatting import classification
from transbeam.serving.predict.prediction import describe, predict, predict_images
from transbeam.serving.runtimes.saved_model import load_saved_model_function
from transbeam.serving.server.models.warmup_requests import read_warm_up
from transbeam.serving.signatures.task_factory import make_signature_task
from transbeam.trainer.evaluation.evaluate_export import outputs_by

LABELS = ("cat", "dog", "bird")
SIZE = 16


def config_of(channels: int, **export_keys) -> RunConfig:
    objective = ImageClassificationConfig(
        labels=LABELS, image_size=SIZE, channels=channels
    )
    patches = PatchesConfig(image_size=SIZE, patch_size=4, num_channels=channels)
    return replace(
        TINY,
        objective=objective,
        model=replace(
            TINY.model,
            num_layers=1,
            max_sequence_length=patches.sequence_length,
            patches=patches,
            pooler=PoolerConfig(kind="first", projection=False),
        ),
        export=replace(TINY.export, **{"examples": (), **export_keys}),
    )


def make(folder, config: RunConfig) -> Scene:
    """A run of untrained weights, with records."""
    scene = Scene.of(folder, config)
    chance = np.random.default_rng(0)
    shape = (5, SIZE, SIZE, config.objective.channels)
    images = chance.integers(0, 256, shape, np.uint8)
    write_records(folder, "validation", [{"image": one.tobytes()} for one in images])
    return scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return make(tmp_path_factory.mktemp("images") / "run", config_of(channels=3))


@pytest.fixture(scope="module")
def version(scene):
    """A version folder, with what a server asks and some signatures."""
    folder = scene.folder / "export/saved_model/1"
    task = make_signature_task(scene.trained)
    names = ("serving_default", "pixels", "classify", "classify_pixels")
    write_signatures(scene.trained, folder, *names)
    write_warm_up(folder, task)
    write_golden(folder, list(make_golden_requests(task)))
    return folder


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


def keras_logits(scene, pixels) -> np.ndarray:
    """Of each image alone."""
    model = scene.trained.model
    rows = [
        model({"image": one[np.newaxis]}, training=False)["logits"] for one in pixels
    ]
    return np.concatenate([np.asarray(row) for row in rows])


@pytest.mark.thorough(
    instead="test_the_gate_finds_one_pixel_and_one_number, "
    "test_the_gate_passes_files_of_images_and_no_others, "
    "test_an_exported_model_answers_as_its_functions, "
    "test_a_bad_file_hurts_no_neighbour"
)
def test_all_forms_passed_the_gate_and_need_no_python(tmp_path, native):
    config = config_of(channels=3)
    folder = make(tmp_path / "run", config).folder
    result = export(invocation_of(folder, config))
    parity = result["parity"]
    assert len({row["form"] for row in parity}) == 7
    assert len(parity) == 3 * 3 + 2 * 1 + 2 * 2
    assert all(row["passed"] for row in parity)
    assert "ms an image" in result["summary"]
    left = {path.name for path in (folder / "export/tflite").iterdir()}
    assert left == {"model_float32.tflite", "model_dynamic_int8.tflite"}
    path = folder / "export/saved_model/1"
    assert not list((path / "assets").glob("*"))
    native(path, load_saved_model_function(path))


def test_the_gate_passes_files_of_images_and_no_others(scene):
    for variant, count in (("float32", 1), ("dynamic_int8", 2)):
        phone = scene.phone(variant)
        rows = scene.judge.phone_rows("file", variant, phone)
        require_passed(rows)
        assert len(rows) == count
        other = judged_by_another(scene, partial(rows_of, variant, phone))
        assert other[0] == "log-probability"
    left = {path.name for path in (scene.folder / "tflite").iterdir()}
    assert left == {"model_float32.tflite", "model_dynamic_int8.tflite"}


def test_an_exported_model_answers_as_its_functions(scene, version, files):
    with session_on(version) as ask:
        for name in ("serving_default", "pixels"):
            given = {"image_bytes": files}
            require_same(ask(name, given), scene.ask(name, given))
        empty = ask("serving_default", {"image_bytes": []})
    assert {len(value) for value in empty.values()} == {0}


def test_the_gate_finds_one_pixel_and_one_number(scene):
    ask, judge = remembered(scene.ask), scene.judge
    assert judge.size == 5 + 5
    require_passed(judge.saved_model_rows("functions", ask))

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


def test_answers_to_files_are_keras_s(scene, files):
    expected = keras_logits(scene, pixels_of(files))
    pixels = scene.ask("pixels", {"image_bytes": files})["image"]
    found = scene.ask("serving_default", {"image_bytes": files})
    empty = scene.ask("serving_default", {"image_bytes": []})
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


def test_classify_takes_examples(scene, files):
    ask = scene.ask
    assert make_signature_task(scene.trained).methods == {"classify": "classify"}
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


def test_answers_to_pixels_are_keras_s_also_on_phones(scene, files):
    pixels = pixels_of(files)
    expected = keras_logits(scene, pixels)
    found = scene.ask("classify_pixels", {"image": pixels})["logits"]
    np.testing.assert_allclose(found, expected, atol=2e-5)
    phone = scene.phone()
    for one, logits in zip(pixels, expected, strict=True):
        found = phone.ask("classify_pixels", image=one)["logits"]
        np.testing.assert_allclose(found, logits, atol=2e-5)


@pytest.mark.parametrize(
    "form",
    ["export/saved_model/1", "tflite/model_float32.tflite"],
    ids=["SavedModel", "TFLite"],
)
def test_it_is_judged_on_records(scene, version, files, form):
    """As `transbeam evaluate --model` does."""
    pixels = pixels_of(files)
    assert scene.files
    assert version.is_dir()
    outputs = outputs_by(scene.folder / form, scene.trained.config, 1)
    found = outputs({"image": pixels, "label": np.zeros(4, np.int32)})["logits"]
    np.testing.assert_allclose(found, keras_logits(scene, pixels), atol=2e-5)
    with pytest.raises(ArtifactError, match="another"):
        outputs({"token_ids": np.ones((1, 4), np.int32)})


def test_what_a_server_asks_before_it_lets_anybody_in(scene, version):
    ask = scene.ask
    pixels, scores = read_golden(version)
    assert (pixels.signature, list(pixels.outputs)) == ("pixels", ["image"])
    assert pixels.outputs["image"].dtype == np.uint8
    assert (scores.signature, list(scores.outputs)) == ("serving_default", ["scores"])
    for golden in (pixels, scores):
        assert golden.inputs["image_bytes"].tolist() == sample_images()
        assert golden.difference(ask(golden.signature, golden.inputs)) is None
    changed = dict(pixels.outputs, image=pixels.outputs["image"] ^ 1)
    assert "image" in str(pixels.difference(changed))
    requests = list(read_warm_up(version))
    names = ["serving_default", "classify", "classify_pixels", "pixels"]
    assert [name for name, _ in requests] == 2 * names
    for name, inputs in requests:
        ask(name, inputs)


def test_a_vocabulary_is_not_part_of_it(version):
    assert not {op for op in list_ops(version) if "HashTable" in op}
    assert not list((version / "assets").glob("*"))


def test_a_bad_file_hurts_no_neighbour(scene, version, files):
    expected = scene.ask("serving_default", {"image_bytes": files})["scores"]
    bad = (b"", b"no image", files[0][:-40])
    with our_server(version) as served, ThreadPoolExecutor(8) as pool:
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


def test_predict_reads_files(version, scene, files, tmp_path):
    ask = scene.ask
    paths = [tmp_path / name for name in ("a.jpg", "b.png")]
    for path, content in zip(paths, files, strict=False):
        path.write_bytes(content)
    client = LocalClient(version)
    found = predict(client, paths)
    expected = ask("serving_default", {"image_bytes": files[:2]})
    assert [one["image"] for one in found] == [str(path) for path in paths]
    assert [one["label"].encode() for one in found] == expected["label"].tolist()
    best = expected["scores"][0].max()
    assert found[0]["classes"][0]["score"] == pytest.approx(best, rel=1e-5)
    assert describe(found[0]).splitlines()[0] == str(paths[0])
    # As lines of --input and examples are.
    assert predict(client, [str(path) for path in paths]) == found
    with pytest.raises(DataError, match=r"'a dog': cannot be read: .* JPEG or PNG"):
        predict(client, ["a dog"])
    with pytest.raises(ConfigError, match="2 second texts; expected 0"):
        predict(client, paths, ["a dog", "a cat"])
    (tmp_path / "b.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"b\.png: the model refuses it: INVALID.* \[8"):
        predict_images(client, paths, classification)


def test_grey_images_and_examples_by_path(tmp_path):
    """A model of grey images makes colour ones grey."""
    (tmp_path / "colour.jpg").write_bytes(file_of(picture(40, 33), "JPEG"))
    examples = (str(tmp_path / "colour.jpg"),)
    scene = make(tmp_path / "run", config_of(channels=1, examples=examples))
    judge = scene.judge
    assert judge.size == 1 + 5 + 5
    assert judge.expected[0].inputs["image"].shape == (SIZE, SIZE, 1)
    require_passed(judge.saved_model_rows("functions", scene.ask))


@pytest.mark.thorough(instead="test_grey_images_and_examples_by_path")
def test_models_of_grey_images_are_exported(tmp_path):
    config = config_of(channels=1, tflite=())
    folder = make(tmp_path / "run", config).folder
    assert all(row["passed"] for row in export(invocation_of(folder, config))["parity"])


def test_an_example_that_is_no_image(scene, tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"no image")
    for path, said in (("a.jpg", "no image"), ("b.jpg", "cannot be read")):
        config = scene.trained.config
        examples = (str(tmp_path / path),)
        changed = replace(config, export=replace(config.export, examples=examples))
        with pytest.raises(DataError, match=said):
            ImageParityChecker.from_run(
                replace(scene.trained, config=changed), scene.folder
            )
