"""Writes the tokenizer files that an app needs beside a model's file."""

import json
from importlib.resources import files
from pathlib import Path

from transbeam.configs.base.atomic_files import write_atomically, writing
from transbeam.pipeline.tokenizers.base.text_frame import TextFrame
from transbeam.pipeline.tokenizers.files.tokenizer_folder import read_tokenizer
from transbeam.serving.phone.tokenizer import golden_ids, tokenizer_data

SOURCES = ("tokenizer.py", "Tokenizer.kt", "Tokenizer.swift")


def write_tokenizer(
    tokenizer: Path, folder: Path, frame: TextFrame | None = None
) -> None:
    """Writes a tokenizer for phones: its data, golden ids, and the three sources.

    Args:
        tokenizer: The run's tokenizer folder.
        folder: The output folder; created if it does not exist.
        frame: The special tokens of texts; left out, those of an encoder.

    Raises:
        ArtifactError: The tokenizer folder is damaged, the tokenizer's kind is not
            supported on phones, or a file cannot be written.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    saved = read_tokenizer(tokenizer)
    data = tokenizer_data.make_tokenizer_data(saved.model)
    data = {"fingerprint": saved.fingerprint, **data}
    if frame is not None:
        data["frame"] = frame._asdict()
    # On one line: indentation would double the size of a vocabulary.
    content = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    write_atomically(folder / tokenizer_data.FILE, content)
    golden = golden_ids.golden_ids(saved.model.build(), frame)
    lines = ",\n".join(json.dumps(case) for case in golden["cases"])
    sizes = f'"length": {golden["length"]}, "prompt": {golden["prompt"]}'
    # One case per line, in ASCII, so that invisible characters show.
    content = f'{{{sizes}, "cases": [\n{lines}\n]}}\n'
    write_atomically(folder / golden_ids.FILE, content)
    for name in SOURCES:
        source = files("transbeam.serving.phone.tokenizer") / "sources" / name
        write_atomically(folder / name, source.read_bytes())
