"""Image files in one folder per class: decoded, resized, and labelled by the folder."""

import io
import struct
from collections.abc import Iterator
from pathlib import PurePath

from PIL import Image, ImageOps

from configs.sources import ImagesSource
from pipeline.documents import Document, Rejected
from pipeline.readers.files import open_file
from pipeline.spans import Span

# Not all that Pillow knows: some formats are programs, run by other programs.
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
_DAMAGE = (
    OSError,  # also "cannot identify image file"
    SyntaxError,
    ValueError,
    EOFError,
    struct.error,
    Image.DecompressionBombError,
)


def read(span: Span, source: ImagesSource) -> Iterator[Document | Rejected]:
    """The image of a file (of several frames, the first), as RGB."""
    name = span.file.name
    with open_file(span.file) as stream:
        raw = stream.read()
    label = PurePath(span.file.path).parent.name
    try:
        pixels = _decoded(raw, source.image_size)
    except _DAMAGE as error:
        yield Rejected("not an image that can be read", name, 0, str(error))
        return
    shape = (source.image_size, source.image_size, 3)
    yield Document("", name, 0, label=label, image=pixels, image_shape=shape)


def _decoded(raw: bytes, size: int) -> bytes:
    """Pixels in row order. The whole image is shown, whatever its proportions."""
    image = Image.open(io.BytesIO(raw), formats=_FORMATS)
    if image.mode[0] in "IF":
        raise ValueError(f"more than 8 bits per channel (mode {image.mode})")
    image = ImageOps.exif_transpose(image).convert("RGB")
    resized = image.resize((size, size), Image.Resampling.BILINEAR)
    return resized.tobytes()
