"""Kotlin, compiled and run on the Java that is there, with what Maven brings.

What tests of more than one file need is compiled once: the tokenizer, a program that
asks it, and the class that stands in for Android's interpreter.
"""

import hashlib
import os
import shutil
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness.stages import stage
from transbeam.serving.phone.tokenizer.sources import tokenizer

# A JVM that compiles a page does not run long enough to optimise itself.
JVM = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xss8m"]
HERE = Path(__file__).parent / "kotlin"
_POM = HERE / "pom.xml"
_COMPILER = "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler"
_OURS = [HERE / "Interpreter.kt", HERE.with_name("tokenizer") / "kotlin/Main.kt"]


@dataclass(frozen=True)
class Kotlin:
    """Contents of the folder that is made once."""

    folder: Path

    @property
    def path(self) -> str:
        """The compiler, its library and org.json."""
        return (self.folder / "class_path").read_text("utf-8").strip()

    @property
    def tokenizer(self) -> Path:
        """The classes of Tokenizer.kt, and of the program that asks it."""
        return self.folder / "tokenizer"

    @property
    def interpreter(self) -> Path:
        """The class that stands in for the one that runs on Android alone."""
        return self.folder / "interpreter"

    @property
    def api(self) -> Path:
        """The common API of this class and the real one."""
        (found,) = self.folder.glob("tensorflow-lite-api-*.jar")
        return found

    @property
    def real(self) -> str:
        """The classes that apps are compiled against."""
        return ":".join(map(str, sorted(self.folder.glob("*.jar"))))


def kotlin() -> Kotlin:
    """Skips the test where no Java is."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}, with which Kotlin is compiled and run")
    # Of the tests' files only Python's are in the key of all stages.
    total = hashlib.sha256(b"".join(file.read_bytes() for file in [_POM, *_OURS]))
    made = Kotlin(stage(f"kotlin-{total.hexdigest()[:8]}", _make))
    if not all(Path(part).exists() for part in made.path.split(":")):
        maven("dependency:resolve")  # somebody has emptied Maven's own folder
    return made


def _make(folder: Path) -> None:
    listed = f"-Dmdep.outputFile={folder / 'class_path'}"
    copied = f"-DoutputDirectory={folder}"
    maven("dependency:build-classpath", "dependency:copy", listed, copied)
    for archive in folder.glob("*.aar"):
        with zipfile.ZipFile(archive) as content:
            jar = archive.with_suffix(".jar")
            jar.write_bytes(content.read("classes.jar"))
    made = Kotlin(folder)
    sources = [Path(tokenizer.__file__).with_name("Tokenizer.kt"), *_OURS]
    compile_kotlin(sources, made.tokenizer, f"{made.path}:{made.api}")
    # Apart: programs are compiled against the real class, and run with this one.
    made.interpreter.mkdir()
    shutil.move(made.tokenizer / "org", made.interpreter)


def maven(*arguments: str) -> None:
    """Asks Maven, which loads what it does not have yet."""
    options = {"MAVEN_OPTS": " ".join(JVM[1:])}
    run(["mvn", "-q", "-B", "-f", str(_POM), *arguments], options)


def compile_kotlin(sources: Sequence[Path], classes: Path, path: str) -> None:
    """Compiles files; a warning is an error.

    Args:
        sources: The files.
        classes: The folder to compile into.
        path: Where their classes are looked for, and the compiler itself.
    """
    options = ["-no-stdlib", "-no-reflect", "-Werror", "-cp", path, "-d", str(classes)]
    run([*JVM, "-cp", path, _COMPILER, *options, *map(str, sources)])


def run(command: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """Returns the output of a program, which must succeed."""
    result = subprocess.run(
        command, env={**os.environ, **(variables or {})}, capture_output=True, text=True
    )
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return result.stdout
