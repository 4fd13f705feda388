"""Texts of a wanted size, and our command as a whole process on them."""

import argparse
import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

PIECES = 30_522
# What is made of a text with each kind of tokenizer.
OBJECTIVES = {"wordpiece": "masked", "byte_bpe": "causal"}
SEPARATORS = {"paragraph": b"\n\n", "line": b"\n"}
THREADS = ("--direct_running_mode=multi_threading", "--direct_num_workers=2")
PROCESSES = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")


def parser_of(
    module: str, description: str | None, megabytes: float | list[float]
) -> argparse.ArgumentParser:
    """The arguments all measurements of the job have; a list: of several sizes."""
    parser = argparse.ArgumentParser(prog=module, description=description)
    parser.add_argument("text", type=Path)
    several = "+" if isinstance(megabytes, list) else None
    parser.add_argument("--megabytes", type=float, nargs=several, default=megabytes)
    parser.add_argument("--pieces", type=int, default=PIECES)
    parser.add_argument("--rounds", type=int, default=3)
    return parser


def megabytes_of(path: Path) -> float:
    """The size of a file, in 10^6 bytes."""
    return path.stat().st_size / 1e6


def text_of(
    source: Path, megabytes: float | None, folder: Path, document: str = "paragraph"
) -> Path:
    """A text of some size, made of whole documents of another.

    Where the source is too short it is there again and again, each document of a copy
    with the copy's number in front, or deduplication would drop it.

    Args:
        source: A text in UTF-8, or such a one compressed by gzip.
        megabytes: 10^6 bytes; None: the source as it is.
        folder: Where the text goes.
        document: What a document of the source is: `paragraph` or `line`.
    """
    path = folder / f"{document}-{megabytes or 'all'}.txt"
    raw = source.read_bytes()
    if source.suffix == ".gz":
        raw = gzip.decompress(raw)
    separator = SEPARATORS[document]
    documents = [one for one in raw.split(separator) if one.strip()]
    wanted = int((megabytes or 0) * 1e6)
    with path.open("wb") as out:
        copy = 0
        while copy == 0 or out.tell() < wanted:
            number = b"%d " % copy if copy else b""
            for one in documents:
                out.write(number + one + separator)
                if 0 < wanted <= out.tell():
                    break
            copy += 1
    return path


@dataclass(frozen=True)
class DataJob:
    """`transbeam data` on a text, anew each time it is called.

    Attributes:
        config: The YAML file.
        run: Where the records go.
        beam: Options for Beam; without any, the command chooses threads or processes.
        module: What is run as a program.
    """

    config: Path
    run: Path
    beam: Sequence[str] = ()
    module: Sequence[str] = ("transbeam", "data")

    @property
    def command(self) -> list[str]:
        """The words of the command."""
        return [
            *(sys.executable, "-m", *self.module, str(self.config), "--quiet"),
            *("--run", str(self.run), "--workers=2", "--", *self.beam),
        ]

    def __call__(self) -> None:
        whole_process(self.command, self.run)


def data_job(
    name: str,
    text: Path,
    kind: str,
    tokenizer: Path | int,
    document: str = "paragraph",
) -> DataJob:
    """Our job on a text, with two workers and its files beside the text.

    Args:
        name: Names the files.
        text: The corpus.
        kind: Of the tokenizer, which decides what records are made.
        tokenizer: One that is there, or how many pieces to learn.
        document: What a document is: `paragraph` or `line`.
    """
    if isinstance(tokenizer, int):
        wanted = {"kind": kind, "vocabulary_size": tokenizer}
    else:
        wanted = {"kind": "pretrained", "path": str(tokenizer)}
    source = {"kind": "text", "path": str(text), "document": document}
    config = {
        "name": name,
        "data": {"source": source},
        "tokenizer": wanted,
        "objective": {"kind": OBJECTIVES[kind]},
    }
    file = text.with_name(f"{name}.yaml")
    file.write_text(yaml.safe_dump(config))
    return DataJob(file, text.with_name(f"run-{name}"))


def learned_tokenizer(text: Path, kind: str, pieces: int) -> Path:
    """The folder of a tokenizer that our job learns from a text."""
    job = data_job(f"learn-{kind}", text, kind, pieces)
    job()
    kept = text.with_name(f"tokenizer-{kind}")
    shutil.move(job.run / "data/tokenizer", kept)
    return kept


def tokenizer_json(tokenizer: Path) -> Path:
    """A tokenizer's folder of ours as a file of the Rust library, beside it."""
    if (tokenizer / "vocab.txt").exists():
        pieces = (tokenizer / "vocab.txt").read_text("utf-8").split("\n")[:-1]
        ids = {piece: i for i, piece in enumerate(pieces)}
        rust = Tokenizer(
            models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100)
        )
        rust.normalizer = normalizers.BertNormalizer()
        rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    else:
        files = (tokenizer / "vocab.json", tokenizer / "merges.txt")
        rust = Tokenizer(models.BPE.from_file(*map(str, files)))
        rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        rust.decoder = decoders.ByteLevel()
    path = tokenizer.with_suffix(".json")
    rust.save(str(path))
    return path


def whole_process(
    command: Sequence[object],
    output: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Runs a program to its end and gives what it printed.

    Args:
        command: The words of it.
        output: A folder it makes, which is removed before.
        environment: Variables it gets besides ours.

    Raises:
        SystemExit: The program fails; shows the end of what it complained of.
    """
    if output:
        shutil.rmtree(output, ignore_errors=True)
    words = [str(word) for word in command]
    variables = {**os.environ, **(environment or {})}
    done = subprocess.run(words, capture_output=True, text=True, env=variables)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}:\n{done.stderr[-2000:]}")
    return done.stdout
