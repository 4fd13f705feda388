"""Decodes image files to the pixels of a record.

The graph of an exported model decodes images with TensorFlow's ops; the export compares
the pixels of both decoders.
"""

import io

from PIL import Image, ImageOps

# A subset of Pillow's formats: some, such as EPS, are programs that others execute.
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")


def decode_image(raw: bytes, size: int, channels: int = 3) -> bytes:
    """Decodes the first frame of an image file; applies the EXIF orientation.

    The whole image is resized to a square, without preserving the aspect ratio.

    Args:
        raw: The content of the file.
        size: The height and width of the result.
        channels: 1 for grayscale, 3 for RGB.

    Returns:
        Pixels in row-major order, one byte per channel.

    Raises:
        Exception: The image cannot be decoded (Pillow raises various types), or has
            more than 8 bits per channel (ValueError).
    """
    image = Image.open(io.BytesIO(raw), formats=_FORMATS)
    if image.mode[0] in "IF":
        raise ValueError(f"more than 8 bits per channel (mode {image.mode})")
    image = ImageOps.exif_transpose(image).convert("L" if channels == 1 else "RGB")
    resized = image.resize((size, size), Image.Resampling.BILINEAR)
    return resized.tobytes()
