"""Rows of arrays come one by one with their labels; what does not fit is told."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.sources import ArraysSourceConfig
from transbeam.pipeline.documents.document import BrokenFile, SourceFile, Span
from transbeam.pipeline.sources.readers.arrays import read

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 3, 4, 3), np.uint8)


def read_all(path: Path, **keys):
    file = SourceFile.at(path, path.name)
    return list(read(Span(file, 0, file.size), ArraysSourceConfig(path="*", **keys)))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    "labels", [np.array([3, 1, 4, 1, 5]), np.array(list("abcde")), np.array([b"x"] * 5)]
)
def test_rows(tmp_path: Path, save, labels: np.ndarray) -> None:
    save(tmp_path / "a.npz", x=IMAGES, y=labels)
    found = read_all(tmp_path / "a.npz", images="x", labels="y")
    assert [item.offset for item in found] == [0, 1, 2, 3, 4]
    expected = [str(np.asarray(label).astype(str)) for label in labels]
    assert [item.label for item in found] == expected
    assert {item.image_shape for item in found} == {(3, 4, 3)}
    assert b"".join(item.image for item in found) == IMAGES.tobytes()


def test_grey_images_have_one_channel(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=IMAGES[..., 0], labels=np.arange(5))
    assert read_all(tmp_path / "a.npz")[0].image_shape == (3, 4, 1)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": IMAGES, "labels": np.arange(5)}, "no array 'images'; it holds x, lab"),
        ({"images": IMAGES}, "no array 'labels'; it holds images"),
        ({"images": IMAGES / 255, "labels": np.arange(5)}, "is float64 of shape"),
        ({"images": IMAGES.T, "labels": np.arange(3)}, "in Fortran order"),
        ({"images": IMAGES, "labels": np.arange(4)}, "5 images in .* but 4 labels"),
        ({"images": IMAGES, "labels": np.ones(5)}, "is float64 of shape"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path: Path, arrays, message: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=message):
        read_all(tmp_path / "a.npz")


def test_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, labels=np.arange(5), images=IMAGES)
    whole = path.read_bytes()
    spoiled = bytearray(whole)
    spoiled[whole.rindex(b"images.npy", 0, len(whole) // 2) + 100] ^= 0xFF
    for raw in (b"", whole[:-40], bytes(spoiled)):
        path.write_bytes(raw)
        with pytest.raises(BrokenFile) as caught:
            read_all(path)
        assert caught.value.damage[-1].reason == "damaged .npz archive"


def test_a_member_of_the_name_that_is_no_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=IMAGES)
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("labels", b"none")
    with pytest.raises(DataError, match="no array 'labels'; it holds images"):
        read_all(tmp_path / "a.npz")
