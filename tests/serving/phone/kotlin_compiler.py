"""Kotlin, compiled and run on the Java that is there, with what Maven brings."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

# A JVM that compiles a page does not run long enough to optimise itself.
JVM = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xss8m"]
_POM = Path(__file__).parent / "tokenizer/kotlin/pom.xml"
_COMPILER = "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler"


def class_path(folder: Path) -> str:
    """The compiler, its library and org.json; skips the test where no Java is.

    Args:
        folder: For a file.
    """
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}, with which Kotlin is compiled and run")
    listed = folder / "classpath"
    maven(_POM, "dependency:build-classpath", f"-Dmdep.outputFile={listed}")
    return listed.read_text().strip()


def maven(pom: Path, *arguments: str) -> None:
    """Asks Maven, which loads what it does not have yet."""
    run(["mvn", "-q", "-B", "-f", str(pom), *arguments])


def compile_kotlin(sources: Sequence[Path], classes: Path, path: str) -> None:
    """Compiles files; a warning is an error.

    Args:
        sources: The files.
        classes: The folder to compile into.
        path: Where their classes are looked for, and the compiler itself.
    """
    options = ["-no-stdlib", "-no-reflect", "-Werror", "-cp", path, "-d", str(classes)]
    run([*JVM, "-cp", path, _COMPILER, *options, *map(str, sources)])


def run(command: Sequence[str]) -> str:
    """What a program prints, which has to end well."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return result.stdout
