"""Images are decoded, resized and labelled by their folder; damage is told."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from transbeam.configs.schema.sources import ImagesSourceConfig
from transbeam.pipeline.documents.document import Document, SourceFile, Span
from transbeam.pipeline.sources.readers.images import read


def read_one(path: Path, size: int = 2):
    file = SourceFile.at(path, f"{path.parent.name}/{path.name}")
    source = ImagesSourceConfig(path="*/*", image_size=size)
    (item,) = read(Span(file, 0, file.size), source)
    return item


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cat").mkdir()
    return tmp_path / "cat"


def test_pixels_and_label(folder: Path) -> None:
    pixels = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [9, 8, 7]]], np.uint8)
    Image.fromarray(pixels).save(folder / "a.png")
    assert read_one(folder / "a.png") == Document(
        "",
        "cat/a.png",
        0,
        label="cat",
        image=pixels.tobytes(),
        image_shape=(2, 2, 3),
    )
    # By hand: half-size, each pixel the mean of four that are alike.
    Image.fromarray(pixels.repeat(2, 0).repeat(2, 1)).save(folder / "large.png")
    shrunk = np.frombuffer(read_one(folder / "large.png", 1).image, np.uint8)
    mean = pixels.reshape(4, 3).mean(0)
    np.testing.assert_allclose(shrunk, mean, atol=1)  # rounded


@pytest.mark.parametrize("mode", ["L", "1", "P", "RGBA", "CMYK", "LA"])
def test_every_mode_becomes_rgb(folder: Path, mode: str) -> None:
    white = Image.new("RGB", (3, 5), "white").convert(mode)
    white.save(folder / "a.tiff")
    assert read_one(folder / "a.tiff").image == b"\xff" * 12


def test_camera_held_sideways(folder: Path) -> None:
    image = Image.fromarray(np.array([[[255] * 3], [[0] * 3]], np.uint8))  # 2 high
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    image.save(folder / "a.png", exif=exif)
    turned = np.frombuffer(read_one(folder / "a.png").image, np.uint8)
    assert turned.reshape(2, 2, 3)[0, :, 0].tolist() == [0, 255]


def test_damage(folder: Path) -> None:
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 255, (40, 40, 3), np.uint8)
    Image.fromarray(noise).save(buffer, "JPEG")
    deep = io.BytesIO()
    Image.fromarray(np.full((4, 4), 1000, np.uint16)).save(deep, "PNG")
    for raw in (b"", b"no image", buffer.getvalue()[:500], deep.getvalue()):
        (folder / "a.jpg").write_bytes(raw)
        entry = read_one(folder / "a.jpg")
        assert entry.reason == "not an image that can be read"
        assert " at 0x" not in entry.excerpt  # another one in each process
