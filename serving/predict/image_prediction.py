"""Predictions of an exported image classifier for image files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import DataError
from transbeam.serving.client.interface import Client, ServerError
from transbeam.serving.images.files import read_image
from transbeam.serving.predict.formatting.formatters import Formatter

INPUTS = ("image_bytes",)


def predict_images(
    client: Client, files: Sequence[str | Path], formatter: Formatter
) -> list[dict[str, Any]]:
    """Classifies images.

    Args:
        client: A client of a server, or of a local SavedModel.
        files: Paths of JPEG or PNG files.
        formatter: Reads the outputs.

    Returns:
        For each file `image`, its path, and what the formatter reads.

    Raises:
        DataError: A file cannot be read, or the model cannot decode it.
        ServerError: A server is unreachable, or rejects the request.
    """
    contents = [read_image(file) for file in files]
    try:
        answers = client.ask("serving_default", {"image_bytes": contents})
    except ServerError as error:
        if error.code != "INVALID_ARGUMENT":
            raise
        if len(files) == 1:
            raise DataError(f"{files[0]}: the model refuses it: {error}") from None
        # The error of a batch does not identify the image: retry one by one.
        alone = (predict_images(client, [file], formatter) for file in files)
        return [prediction for (prediction,) in alone]
    found = []
    for row, file in enumerate(files):
        answer = {name: values[row] for name, values in answers.items()}
        found.append({"image": str(file), **formatter.read(str(file), answer)})
    return found
