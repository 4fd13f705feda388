"""Puts beside a model's file all that an application needs to feed it text."""

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
        folder: Made if it is not there.

    Returns:
        The files.

    Raises:
        ArtifactError: The tokenizer's folder is damaged, it is of a kind that phones
            cannot have, or the disk refuses.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    written = [write_data(tokenizer, folder), write_golden_ids(tokenizer, folder)]
    for name in SOURCES:
        source = files("transbeam.serving.phone.tokenizer") / "sources" / name
        write_atomically(folder / name, source.read_bytes())
        written.append(folder / name)
    return written
