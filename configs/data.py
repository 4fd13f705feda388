"""`data`: where the text comes from and how it becomes records."""

from dataclasses import dataclass
from typing import Literal

from configs.fields import option


@dataclass(frozen=True, kw_only=True)
class TextSource:
    """Plain text files."""

    kind: Literal["text"] = "text"
    path: str = option("Glob of the files, such as `corpus/**/*.txt`.")
    document: Literal["line", "paragraph", "file"] = option(
        "What one document is: a line, a run of lines up to a blank one, or a file.",
        default="paragraph",
    )


@dataclass(frozen=True, kw_only=True)
class PythonDocsSource:
    """The docstrings of installed Python packages, read from their source files.

    The packages are parsed, never imported. Useful as a real corpus that every
    machine with Transbeam on it already has.
    """

    kind: Literal["python_docs"] = "python_docs"
    packages: tuple[str, ...] = option("Top-level packages to read, such as `numpy`.")


Source = TextSource | PythonDocsSource


@dataclass(frozen=True, kw_only=True)
class CleaningConfig:
    """Which documents are worth keeping. What is dropped is counted by its reason."""

    minimum_characters: int = option(
        "Shorter documents are dropped.", default=1, minimum=1
    )
    maximum_characters: int = option(
        "Longer documents go to quarantine.", default=10_000_000, minimum=1
    )


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """From the corpus to packed records of a fixed length."""

    source: Source = option("Where the text comes from.")
    cleaning: CleaningConfig = option(
        "Which documents to keep.", default=CleaningConfig
    )
    validation_fraction: float = option(
        "Share of the documents, by hash of their text, held out for validation.",
        default=0.05,
        minimum=0.0,
        maximum=0.5,
    )
    sequence_length: int = option("Tokens per record.", default=128, minimum=8)
    shard_megabytes: float = option(
        "Source megabytes (10^6 bytes) that make one shard.",
        default=4.0,
        minimum=0.001,
    )
    maximum_quarantine_fraction: float = option(
        "The job stops when more than this share of the input is quarantined.",
        default=0.01,
        minimum=0.0,
        maximum=1.0,
    )
