"""`data.source`: where documents come from, one kind for each sort of file."""

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


SingleSource = TextSource | PythonDocsSource


@dataclass(frozen=True, kw_only=True)
class MixturePart:
    """One source of several, and how much of it is used."""

    source: SingleSource = option("Any source but another mixture.")
    weight: float = option(
        "How often each training document is used: 2 takes it twice, with other "
        "random choices; 0.5 takes half of the documents, by their hash.",
        default=1.0,
        minimum=0.0,
        maximum=100.0,
    )


@dataclass(frozen=True, kw_only=True)
class MixtureSource:
    """Several sources in one run, each used more or less often."""

    kind: Literal["mixture"] = "mixture"
    parts: tuple[MixturePart, ...] = option(
        "The sources: a list of {source: {kind: ..., ...}, weight: 1.0}."
    )


Source = SingleSource | MixtureSource
