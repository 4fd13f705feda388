"""Writes the tokenizer files that an app needs beside a model's file."""

from importlib.resources import files
from pathlib import Path

from transbeam.configs.base.atomic_files import write_atomically, writing
from transbeam.serving.phone.tokenizer.golden_ids import write_golden_ids
from transbeam.serving.phone.tokenizer.tokenizer_data import write_data

SOURCES = ("tokenizer.py", "Tokenizer.kt", "Tokenizer.swift")


def write_tokenizer(tokenizer: Path, folder: Path) -> list[Path]:
    """Writes a tokenizer for phones: its data, golden ids, and the three sources.

    Args:
        tokenizer: The run's tokenizer folder.
        folder: Created if it does not exist.

    Returns:
        The files.

    Raises:
        ArtifactError: The tokenizer's folder is damaged, its kind is not supported on
            phones, or a file cannot be written.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    written = [write_data(tokenizer, folder), write_golden_ids(tokenizer, folder)]
    for name in SOURCES:
        source = files("transbeam.serving.phone.tokenizer") / "sources" / name
        write_atomically(folder / name, source.read_bytes())
        written.append(folder / name)
    return written
