"""Encoded images to the pixels of a record.

The graph of an exported model does the same with TensorFlow's ops; the export compares.
"""

import io

from PIL import Image, ImageOps

# Not all that Pillow knows: some formats are programs, run by other programs.
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")


def decode_image(raw: bytes, size: int, channels: int = 3) -> bytes:
    """A file's image (of several frames, the first), turned as its camera was held.

    All of it is shown in a square, whatever its proportions.

    Args:
        raw: The file.
        size: Height and width.
        channels: 1 for grey, 3 for RGB.

    Returns:
        Pixels in row order, a byte a channel.

    Raises:
        Exception: Of Pillow's, many; or ValueError: it has more than 8 bits a channel.
    """
    image = Image.open(io.BytesIO(raw), formats=_FORMATS)
    if image.mode[0] in "IF":
        raise ValueError(f"more than 8 bits per channel (mode {image.mode})")
    image = ImageOps.exif_transpose(image).convert("L" if channels == 1 else "RGB")
    resized = image.resize((size, size), Image.Resampling.BILINEAR)
    return resized.tobytes()
