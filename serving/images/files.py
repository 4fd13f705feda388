"""Reads image files."""

from pathlib import Path

from transbeam.configs.base.errors import DataError


def read_image(file: str | Path) -> bytes:
    """Reads an image file without a check; the exported model checks its contents.

    Raises:
        DataError: The file cannot be read.
    """
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as error:  # a path with a NUL is no OSError
        raise DataError(
            f"{str(file)!r}: cannot be read: {error}. The model reads images: give "
            "the path of a JPEG or PNG file"
        ) from None
