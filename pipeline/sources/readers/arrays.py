"""Reads images with labels from NumPy's `.npz` archives, image by image.

An archive is a zip file with one `.npy` per array, so the images need not be in memory
all at once. The offset of a document is the index of its image.
"""

import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import numpy as np

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.sources import ArraysSourceConfig
from transbeam.pipeline.documents.document import BrokenFile, Document, Rejected, Span
from transbeam.pipeline.sources.files.file_access import open_seekable

_Header = tuple[tuple[int, ...], bool, np.dtype]  # shape, in Fortran order, dtype
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ValueError,
    NotImplementedError,
)


def read(span: Span, source: ArraysSourceConfig) -> Iterator[Document | Rejected]:
    """Yields a document per image.

    Raises:
        BrokenFile: The archive is damaged or truncated.
        DataError: The arrays are missing, or are not images and their labels.
    """
    with open_seekable(span.file) as stream:
        count = 0
        try:
            archive = zipfile.ZipFile(stream)
            labels = _labels(archive, source, span.file.path)
            with _member(archive, source.images, span.file.path) as member:
                shape = _image_shape(_header(member), labels, source, span.file.path)
                for count, label in enumerate(labels.tolist()):
                    pixels = _exactly(member, int(np.prod(shape)))
                    yield Document(
                        text="",
                        source=span.file.name,
                        offset=count,
                        label=label.decode()
                        if isinstance(label, bytes)
                        else f"{label}",
                        image=pixels,
                        image_shape=shape,
                    )
        except _DAMAGE as error:
            raise BrokenFile("damaged .npz archive", str(error), count) from error


def _labels(
    archive: zipfile.ZipFile, source: ArraysSourceConfig, path: str
) -> np.ndarray:
    with _member(archive, source.labels, path) as member:
        labels = np.lib.format.read_array(member, allow_pickle=False)
    if labels.ndim != 1 or labels.dtype.kind not in "biuSU":
        raise DataError(
            f"{path}: array {source.labels!r} is {labels.dtype} of shape "
            f"{labels.shape}. Expected one whole number or name for each image; fix "
            "the file or data.source.labels"
        )
    return labels


def _image_shape(
    header: _Header, labels: np.ndarray, source: ArraysSourceConfig, path: str
) -> tuple[int, ...]:
    """Returns height, width and channels of each image."""
    shape, fortran_order, dtype = header
    if dtype != np.uint8 or len(shape) not in (3, 4) or fortran_order:
        raise DataError(
            f"{path}: array {source.images!r} is {dtype} of shape {shape}"
            f"{' in Fortran order' if fortran_order else ''}. Expected uint8 of shape "
            "(count, height, width) or (count, height, width, channels) in C order; "
            "convert the array"
        )
    if shape[0] != len(labels):
        raise DataError(
            f"{path}: {shape[0]} images in {source.images!r}, but {len(labels)} labels "
            f"in {source.labels!r}. Each image needs its label"
        )
    return shape[1:] if len(shape) == 4 else (*shape[1:], 1)


def _member(archive: zipfile.ZipFile, name: str, path: str) -> BinaryIO:
    members = archive.namelist()
    known = [m.removesuffix(".npy") for m in members if m.endswith(".npy")]
    if name not in known:
        raise DataError(
            f"{path}: no array {name!r}; it holds {', '.join(known) or 'nothing'}. Set "
            "data.source.images and data.source.labels to the arrays' names"
        )
    return cast(BinaryIO, archive.open(f"{name}.npy"))


def _header(member: Any) -> _Header:
    version = np.lib.format.read_magic(member)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(member)
    return np.lib.format.read_array_header_2_0(member)


def _exactly(member: BinaryIO, size: int) -> bytes:
    raw = member.read(size)
    if len(raw) < size:
        raise EOFError("it ends inside an image")
    return raw
