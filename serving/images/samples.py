"""Sample images for warm-up and golden requests."""

import tensorflow as tf

_HEIGHT, _WIDTH = 20, 30


def sample_images() -> list[bytes]:
    r"""Returns a JPEG and a PNG, neither square nor of a single color.

    Example:
    >>> [image[:4] for image in sample_images()]
    [b'\xff\xd8\xff\xe0', b'\x89PNG']
    """
    rows, columns = tf.range(_HEIGHT)[:, tf.newaxis], tf.range(_WIDTH)
    planes = (12 * rows + 0 * columns, 8 * columns + 0 * rows, 13 * (rows - columns))
    pixels = tf.cast(tf.stack(planes, axis=2) % 256, tf.uint8)
    return [
        tf.io.encode_jpeg(pixels, quality=90).numpy(),
        tf.io.encode_png(pixels).numpy(),
    ]
