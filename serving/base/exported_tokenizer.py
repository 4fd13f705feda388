"""The tokenizer and the chat template that lie beside an exported SavedModel.

A SavedModel tokenizes in its graph. A server also needs the text of single tokens, the
special tokens by name, and the chat template.
"""

from pathlib import Path

from transbeam.configs.base.atomic_files import write_atomically, writing
from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.base.framing import CHAT_TEMPLATE_FILE
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    METADATA_FILE,
    read_tokenizer,
    save_tokenizer,
)
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel

_EXTRA = "assets.extra"  # TF Serving's folder for files that are not part of the graph
FOLDER = f"{_EXTRA}/tokenizer"
CHAT_TEMPLATE = f"{_EXTRA}/{CHAT_TEMPLATE_FILE}"


def write_exported_tokenizer(version: Path, model: TokenizerModel) -> None:
    """Writes the tokenizer, and its chat template if it has one.

    Args:
        version: The version folder.
        model: The tokenizer of the run.

    Raises:
        ArtifactError: A file cannot be written.
    """
    with writing(version / FOLDER):
        save_tokenizer(version / FOLDER, model)
    for name, content in model.framing.files().items():
        write_atomically(version / _EXTRA / name, content)


def read_exported_tokenizer(version: Path) -> TokenizerModel | None:
    """Reads the tokenizer of a version; None if it has none, as older exports.

    Args:
        version: The version folder.

    Raises:
        ArtifactError: A file is modified or truncated.
    """
    folder = version / FOLDER
    if not (folder / METADATA_FILE).exists():
        return None
    return read_tokenizer(folder).model


def read_chat_template(version: Path) -> str | None:
    """Reads the chat template of a version; None if it has none.

    Args:
        version: The version folder.

    Raises:
        ArtifactError: The file cannot be read, or is not UTF-8.
    """
    path = version / CHAT_TEMPLATE
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(
            f"{path}: cannot be read as UTF-8 text ({error}). Export the model again"
        ) from None
