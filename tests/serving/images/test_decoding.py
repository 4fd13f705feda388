"""Files to pixels in the graph: bit for bit what the data job makes of them."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests.serving.images.image_files import (
    XMP,
    file_of,
    held,
    picture,
    png,
    wide_png,
)
from transbeam.configs.schema.sources import ImagesSourceConfig
from transbeam.pipeline.documents.document import Document, SourceFile, Span
from transbeam.pipeline.sources.decoding.image_decoding import decode_image
from transbeam.pipeline.sources.readers.images import read
from transbeam.serving.export.stored_requests import sample_images
from transbeam.serving.images.decoding import decode_images

SIZE = 16
SIZES = ((1, 1), (2, 2), (17, 23), (64, 48), (5, 100), (101, 3), (16, 16), (220, 2))


@cache
def decoder(channels: int = 3):
    """The graph, which is traced once for files of all kinds."""
    files = tf.TensorSpec([None], tf.string)
    return tf.function(
        lambda c: decode_images(c, SIZE, channels)
    ).get_concrete_function(files)


def in_graph(*files: bytes, channels: int = 3) -> np.ndarray:
    return decoder(channels)(tf.constant(files, tf.string)).numpy()


def recorded(content: bytes, folder: Path) -> np.ndarray:
    """As the data job reads a file."""
    file = folder / "a"
    file.write_bytes(content)
    source = ImagesSourceConfig(path="*", image_size=SIZE)
    (item,) = read(Span(SourceFile.at(file, "a"), 0, len(content)), source)
    assert isinstance(item, Document), item.error
    return np.frombuffer(item.image, np.uint8).reshape(SIZE, SIZE, 3)


def jpegs():
    for number, size in enumerate(SIZES):
        image = picture(*size, seed=number)
        for subsampling in (0, 1, 2, "4:1:1"):
            options = {"subsampling": subsampling, "quality": 30 + 20 * number % 70}
            yield file_of(image, "JPEG", **options)
            yield file_of(image, "JPEG", progressive=True, **options)
        yield file_of(image.convert("L"), "JPEG")
        yield file_of(image, "JPEG", keep_rgb=True)


def pngs():
    for number, size in enumerate(SIZES):
        image = picture(*size, seed=number)
        for mode in ("RGB", "L", "1", "P", "LA", "RGBA"):
            yield file_of(image.convert(mode), "PNG")
        transparent = image.copy()
        transparent.putalpha(image.convert("L"))
        yield file_of(transparent, "PNG")
        yield file_of(image.convert("P"), "PNG", transparency=3)
        yield file_of(image.convert("L"), "PNG", transparency=9)
        for bits in (1, 2, 4):
            yield file_of(image.quantize(2**bits), "PNG", bits=bits)


def deep_pngs():
    """Of 16 bits a channel, of which the upper eight are taken."""
    values = np.random.default_rng(0).integers(0, 2**16, (9, 7, 4))
    for color, channels in ((2, 3), (4, 2), (6, 4)):
        yield png(values[..., :channels], color)


def held_images():
    for kind in ("JPEG", "PNG"):
        for orientation in range(10):  # 0 and 9 mean nothing
            for endian in "<>":
                exif = held(orientation, endian)
                yield file_of(picture(30, 44), kind, exif=exif)


@pytest.mark.parametrize("files", [jpegs, pngs, deep_pngs, held_images])
def test_pixels_are_those_of_the_records(files, tmp_path: Path):
    contents = list(files())
    expected = [recorded(content, tmp_path) for content in contents]
    found = in_graph(*contents)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, expected)
    assert len({one.tobytes() for one in found}) > len(found) // 4  # not all the same


def test_orientations_differ():
    """Otherwise the comparison with Pillow would not look at them."""
    files = [file_of(picture(30, 44), "PNG", exif=held(n)) for n in range(1, 9)]
    assert len({one.tobytes() for one in in_graph(*files)}) == 8


def test_grey():
    files = [*sample_images(), file_of(picture(16, 16).convert("L"), "PNG")]
    expected = [decode_image(file, SIZE, 1) for file in files]
    found = in_graph(*files, channels=1)
    assert found.shape == (3, SIZE, SIZE, 1)
    assert [one.tobytes() for one in found] == expected


def test_pixels_of_the_right_size_stay_as_they_are():
    image = picture(SIZE, SIZE)
    (found,) = in_graph(file_of(image, "PNG"))
    np.testing.assert_array_equal(found, np.array(image))


def test_what_a_camera_writes_between():
    """A long comment, a preview in EXIF, bytes that fill: the walk goes past them."""
    plain = file_of(picture(30, 44), "JPEG", exif=held(6), comment=b"x" * 60_000)
    assert plain[2:4] == b"\xff\xe0"
    filled = plain[:2] + b"\xff\xff\xff" + plain[2:]
    comment = b"\xff\xfe" + (8).to_bytes(2, "big") + b"Exif\0\0"  # looks like EXIF
    fooling = plain[:2] + comment + plain[2:]
    expected = decode_image(plain, SIZE)
    for one in in_graph(plain, filled, fooling):
        assert one.tobytes() == expected


def test_exif_counts_more_than_xmp():
    both = file_of(picture(30, 44), "JPEG", exif=held(3), xmp=XMP)
    assert in_graph(both)[0].tobytes() == decode_image(both, SIZE)
    upright = file_of(picture(30, 44), "JPEG", xmp=XMP.replace(b"6", b"1"))
    assert in_graph(upright)[0].tobytes() == decode_image(upright, SIZE)


def animated() -> bytes:
    frames = [picture(9, 9, seed=seed) for seed in range(3)]
    return file_of(frames[0], "GIF", save_all=True, append_images=frames[1:])


JPEG, PNG = sample_images()
NEITHER = "begin neither as a JPEG nor as a PNG does"
REFUSED = {
    "nothing": (b"", NEITHER),
    "no image": (b"no image", NEITHER),
    "GIF, animated": (animated(), NEITHER),
    "GIF": (file_of(picture(9, 9), "GIF"), NEITHER),
    "WebP": (file_of(picture(9, 9), "WEBP"), NEITHER),
    "half a JPEG": (JPEG[: len(JPEG) // 2], "Invalid JPEG data"),
    "a JPEG without its end": (JPEG[:-2], "Invalid JPEG data"),
    "half a PNG": (PNG[: len(PNG) // 2], "Invalid PNG data"),
    "the first bytes of a JPEG": (JPEG[:3], "found] [0] [components"),
    "the first bytes of a PNG": (PNG[:8], "pixels wide and high"),
    "noise behind": (b"\xff\xd8\xff" + bytes(range(256)), "found] [0] [components"),
    "more noise": (PNG[:8] + b"\xff" * 99, "pixels wide and high"),
    "a JPEG for print": (
        file_of(picture(9, 9).convert("CMYK"), "JPEG"),
        "found] [4] [components, in a JPEG",
    ),
    "16 bits of grey": (png(np.full((4, 4, 1), 1000), 0), "16] [bits a pixel"),
    "far too large": (wide_png(60_000, 60_000), "60000 60000] [pixels wide and high"),
    "one row too long": (wide_png(70_000, 1), "70000 1] [pixels wide and high"),
    "turned by XMP": (file_of(picture(9, 9), "JPEG", xmp=XMP), "rotated by XMP"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str):
    content, said = REFUSED[name]
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        in_graph(JPEG, content, PNG)
    assert said in caught.value.message


def test_every_beginning_is_refused_or_whole():
    """A file that was cut off anywhere ends the call and not the process."""
    whole = {file: in_graph(file)[0].tobytes() for file in (JPEG, PNG)}
    for file, pixels in whole.items():
        for length in range(0, len(file), 7):
            try:
                (found,) = in_graph(file[:length])
            except tf.errors.InvalidArgumentError:
                continue
            assert found.tobytes() == pixels


def test_damaged_exif_is_no_exif():
    """Places far behind the end, tables without an end."""
    image = file_of(picture(30, 44), "JPEG", exif=held(6))
    plain = file_of(picture(30, 44), "JPEG")
    at = image.index(b"Exif\0\0") + 6
    for wrong in (b"\xff" * 4, b"\0\0\0\0", b"\x7f\xff\xff\xff"):
        damaged = image[: at + 4] + wrong + image[at + 8 :]
        np.testing.assert_array_equal(in_graph(damaged), in_graph(plain))


def test_rows_do_not_see_each_other():
    together = in_graph(JPEG, PNG, JPEG)
    np.testing.assert_array_equal(together[:1], in_graph(JPEG))
    np.testing.assert_array_equal(together[1:2], in_graph(PNG))
    np.testing.assert_array_equal(together[0], together[2])
    assert in_graph().shape == (0, SIZE, SIZE, 3)


def test_it_is_one_graph():
    """However large images are, nothing is traced anew."""
    traces = []

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def traced(files):
        traces.append(1)
        return decode_images(files, 2, 3)

    for size in ((1, 1), (9, 50)):
        traced(tf.constant([file_of(Image.new("RGB", size), "PNG")]))
    assert len(traces) == 1
