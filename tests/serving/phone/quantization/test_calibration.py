"""Calibration inputs for the ranges of `int8`, and the inputs of matrix products."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tests.harness.stages import copy_of
from tests.serving.conftest import LENGTH, TINY
from tests.serving.phone.generative_models import GPT2, PREFIX, T5, shared, some_ids
from tests.serving.record_files import write_records
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.schema.objectives.supervised import ImageClassificationConfig
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.phone.quantization import calibration
from transbeam.serving.phone.quantization.calibration import FEWEST, make_calibration
from transbeam.serving.signatures.base.interface import Endpoint, ids_spec
from transbeam.serving.signatures.task_factory import make_signature_task

DOCUMENTS = 24  # of the training records of the tiny run: 8 records of 3


def asking(trained, number, variants=("int8",)):
    """The same, that wants so many records for these."""
    export = trained.config.export
    export = replace(export, tflite_calibration=number, tflite=variants)
    return replace(trained, config=replace(trained.config, export=export))


@pytest.fixture(scope="module")
def endpoints(trained):
    return make_signature_task(trained).phone_endpoints()


def test_texts_are_asked_as_they_are_and_filled_up_in_turn(
    trained, run_folder, endpoints
):
    found = make_calibration(trained, run_folder, endpoints, b"")
    assert {name: len(rows) for name, rows in found.items()} == {
        "fill_mask": DOCUMENTS,
        "embed": DOCUMENTS,
    }
    for rows in found.values():
        for number, row in enumerate(rows):
            mask, ids = row["padding_mask"][0], row["token_ids"][0]
            real = int(mask.sum())
            assert len(mask) == (LENGTH if number % 2 else real)
            assert mask.tolist() == [1] * real + [0] * (len(mask) - real)
            assert ids[0] == trained.tokenizer.special.begin
            assert ids[real - 1] == trained.tokenizer.special.end
            assert not ids[real:].any()
            assert all(of.dtype == np.int32 for of in row.values())
    special = trained.tokenizer.special.mask
    for row in found["fill_mask"]:
        places = np.flatnonzero(row["token_ids"][0] == special)
        assert len(places)
        asked = [*places[:4], *[0] * (4 - len(places))]
        assert row["masked_positions"].tolist() == [asked]


def test_none_is_filled_up_where_padding_says_nothing(trained, run_folder, endpoints):
    found = make_calibration(trained, run_folder, endpoints, b"", filled=False)
    filled = make_calibration(trained, run_folder, endpoints, b"")
    for name, rows in found.items():
        assert len(rows) == DOCUMENTS
        assert all(row["padding_mask"].all() for row in rows)
        for row, same in zip(rows, filled[name], strict=True):
            (real,) = np.flatnonzero(same["padding_mask"][0]).shape
            assert row["token_ids"].tolist() == [same["token_ids"][0, :real].tolist()]


def test_of_records_without_masks_some_tokens_are_hidden(
    trained, run_folder, endpoints, monkeypatch
):
    """Dynamic masking leaves them to the trainer; guesses have ranges all the same."""
    special = trained.tokenizer.special
    ids = np.array([special.begin, *range(10, 27), special.end], np.int32)
    texts = [(ids, np.zeros_like(ids))] * FEWEST
    monkeypatch.setattr(calibration, "documents", lambda *_, **__: iter(texts))
    found = make_calibration(trained, run_folder, endpoints, b"")["fill_mask"]
    for row in found:
        hidden = ids.copy()
        hidden[[1, 8, 15]] = special.mask
        assert row["token_ids"][0, : len(ids)].tolist() == hidden.tolist()
        assert row["masked_positions"].tolist() == [[1, 8, 15, 0]]


def test_no_more_are_asked_than_are_wanted(trained, run_folder, endpoints):
    found = make_calibration(asking(trained, 17), run_folder, endpoints, b"")
    assert [len(rows) for rows in found.values()] == [17, 17]


def test_inputs_that_have_other_names(trained, run_folder):
    specs = [ids_spec("ids", 1, LENGTH), ids_spec("padding_mask", 1, LENGTH)]
    endpoints = {"client": Endpoint(lambda ids, padding_mask: {}, specs)}
    names = {"ids": "token_ids"}
    (rows,) = make_calibration(trained, run_folder, endpoints, b"", names).values()
    plain = {"embed": make_signature_task(trained).phone_endpoints()["embed"]}
    (expected,) = make_calibration(trained, run_folder, plain, b"").values()
    for row, same in zip(rows, expected, strict=True):
        assert row.keys() == {"ids", "padding_mask"}
        for name, of in (("ids", "token_ids"), ("padding_mask", "padding_mask")):
            alike = np.pad(same[of], ((0, 0), (0, LENGTH - same[of].shape[1])))
            assert row[name].tolist() == alike.tolist()


def test_so_few_as_say_little_are_never_enough(trained, run_folder, endpoints):
    """Whatever is wanted: there are more."""
    found = make_calibration(asking(trained, 3), run_folder, endpoints, b"")
    assert [len(rows) for rows in found.values()] == [FEWEST, FEWEST]


@pytest.mark.parametrize(
    ("wanted", "variants", "named"),
    [
        (3, ("float32", "int8"), "int8"),
        (128, ("dynamic_int4", "dynamic_int8"), "dynamic_int4"),
        (128, ("int8", "weight_int4"), "int8, weight_int4"),
    ],
)
def test_too_few_texts(
    trained, run_folder, tmp_path, endpoints, wanted, variants, named
):
    run = tmp_path / "run"
    copy_of(run_folder / "data", run / "data")
    (train,) = run.glob("data/records/train-*")
    records = list(tf.data.TFRecordDataset(str(train)).take(5).as_numpy_iterator())
    with tf.io.TFRecordWriter(str(train)) as writer:
        for record in records:
            writer.write(record)
    with pytest.raises(ArtifactError) as caught:
        make_calibration(asking(trained, wanted, variants), run, endpoints, b"")
    message = str(caught.value)
    assert f"the training split has 15 to calibrate {named} on" in message
    assert f"leave {named} out of export.tflite" in message
    assert f"expected {FEWEST} at least, better {max(wanted, FEWEST)}" in message
    assert str(run / "data/records") in message


@pytest.mark.parametrize("file_is_there", [True, False])
def test_no_texts_at_all(trained, run_folder, tmp_path, endpoints, file_is_there):
    run = tmp_path / "run"
    copy_of(run_folder / "data", run / "data")
    (train,) = run.glob("data/records/train-*")
    train.unlink()
    if file_is_there:
        train.touch()
    with pytest.raises(ArtifactError, match="has 0 to calibrate int8 on; expected 16"):
        make_calibration(asking(trained, 128), run, endpoints, b"")


def test_images_are_asked_as_they_are(tmp_path):
    size, channels = 4, 3
    objective = ImageClassificationConfig(
        labels=("cat", "dog"), image_size=size, channels=channels
    )
    trained = SimpleNamespace(config=replace(TINY, objective=objective))
    images = np.random.default_rng(0).integers(0, 256, (20, size, size, channels))
    images = images.astype(np.uint8)
    write_records(tmp_path, "train", [{"image": of.tobytes()} for of in images])
    spec = tf.TensorSpec([1, size, size, channels], tf.uint8, name="image")
    endpoints = {"classify_pixels": Endpoint(lambda image: {}, [spec])}
    rows = make_calibration(trained, tmp_path, endpoints, b"")["classify_pixels"]
    assert [row["image"].dtype for row in rows] == [np.uint8] * 20
    found = np.concatenate([row["image"] for row in rows])
    np.testing.assert_array_equal(found, images)


@pytest.mark.parametrize(
    "which",
    [
        GPT2,
        pytest.param(T5, marks=pytest.mark.thorough),
        pytest.param(PREFIX, marks=pytest.mark.thorough),
    ],
)
def test_a_file_that_writes_is_asked_by_its_own_writer(which, tmp_path):
    trained, files = shared(**which)
    rows = [some_ids(trained, 6 + number % 5, seed=number) for number in range(18)]
    has_source = trained.config.model.kind != "decoder"
    sides = ("encoder_", "decoder_") if has_source else ("",)
    run = tmp_path / "tflite-run"
    documents = [
        {
            side + key: values
            for side in sides
            for key, values in {
                "token_ids": row,
                "document_ids": [1] * len(row),
            }.items()
        }
        for row in rows
    ]
    write_records(run, "train", documents)
    content = files["float32"].read_bytes()
    endpoints = make_signature_task(trained).phone_endpoints()
    found = make_calibration(trained, run, endpoints, content)
    assert found.keys() == endpoints.keys()
    model = TFLiteRunner(content)
    for signature, asked in found.items():
        assert asked
        shapes = model.shapes(signature)
        for row in asked:
            assert {key: of.shape for key, of in row.items()} == shapes
    tokens = {int(of["tokens"][0, 0]) for of in found["decode"]}
    assert len(tokens) > 4  # it goes on with what it has written
    if has_source:
        mask = found["encode"][0]["padding_mask"][0]
        assert found["encode"][0]["token_ids"][0, : mask.sum()].tolist() == rows[0]
