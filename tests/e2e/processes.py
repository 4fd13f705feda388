"""A small run that commands are given on, each as a process of its own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.harness.stages import stage
from tests.small_run import YAML, paragraphs

TRANSBEAM = [sys.executable, "-m", "transbeam"]


def small_run() -> Path:
    """A corpus, a configuration, and a run that went all the way, in a process."""
    return stage("command-line", _whole_way)


def _whole_way(folder: Path) -> None:
    (folder / "corpus.txt").write_text("\n\n".join(paragraphs(300)), "utf-8")
    text = YAML.replace("PATH", "corpus.txt")
    examples = "examples: ['the model reads a [MASK] of']"
    export = f"export: {{tflite: [dynamic_int8], tflite_masks: 2, {examples}}}\n"
    (folder / "small.yaml").write_text(text + export, "utf-8")
    done = transbeam(folder, "run", "small.yaml", "--json", "--workers=2")
    assert done.returncode == 0, done.stderr
    (folder / "first.json").write_text(done.stdout, "utf-8")
    (folder / "first.err").write_text(done.stderr, "utf-8")


def transbeam(
    folder: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """A command that is waited for, with variables of its environment."""
    return subprocess.run(
        [*TRANSBEAM, *arguments],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **variables}


def start(folder: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """A command that goes on meanwhile, in a process group of its own.

    It hears Ctrl-C, even if the tests run in the background of a shell, which lets its
    background commands and their children ignore it.
    """
    return subprocess.Popen(
        [*TRANSBEAM, *arguments],
        cwd=folder,
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def stop(process: subprocess.Popen[str], when: Path) -> None:
    """Presses Ctrl-C as soon as there is a folder, to every process of the group."""
    while process.poll() is None and not when.is_dir():
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert "run the same command again" in stderr
    assert "Traceback" not in stderr
