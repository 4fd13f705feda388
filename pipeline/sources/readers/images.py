"""Reads image files in one folder per class; the folder's name is the label."""

import re
import struct
from collections.abc import Iterator
from pathlib import PurePath

from PIL import Image

from transbeam.configs.schema.sources import ImagesSourceConfig
from transbeam.pipeline.documents.document import Document, Rejected, Span
from transbeam.pipeline.sources.decoding.image_decoding import decode_image
from transbeam.pipeline.sources.files.file_access import open_file

_ADDRESS = re.compile(r" ?<[\w.]+ object at 0x[0-9a-f]+>")
_DAMAGE = (
    OSError,  # also "cannot identify image file"
    SyntaxError,
    ValueError,
    EOFError,
    struct.error,
    Image.DecompressionBombError,
)


def read(span: Span, source: ImagesSourceConfig) -> Iterator[Document | Rejected]:
    """Yields the first frame of an image file, resized, as RGB."""
    name = span.file.name
    with open_file(span.file) as stream:
        raw = stream.read()
    label = PurePath(span.file.path).parent.name
    try:
        pixels = decode_image(raw, source.image_size)
    except _DAMAGE as error:
        # Pillow's message contains the stream's address, which differs between
        # processes.
        why = _ADDRESS.sub("", str(error))
        yield Rejected("not an image that can be read", name, 0, why, len(raw))
        return
    shape = (source.image_size, source.image_size, 3)
    yield Document("", name, 0, label=label, image=pixels, image_shape=shape)
