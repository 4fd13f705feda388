"""One corpus, one configuration, one digest: whoever works on it, and how many."""

from pathlib import Path

import pytest

from tests.harness.stages import stage
from tests.small_run import invocations, write_corpus
from transbeam.pipeline.stage import data

NEAR = "data.deduplication={near: {similarity: 0.95}}"
IN_MEMORY, THREADS, PROCESSES = "in_memory", "multi_threading", "multi_processing"


@pytest.mark.parametrize(
    ("mode", "workers"),
    [
        (THREADS, 1),
        (THREADS, 2),
        (THREADS, 3),
        (PROCESSES, 2),
        pytest.param(PROCESSES, 3, marks=pytest.mark.thorough),
        pytest.param("BundleBasedDirectRunner", 1, marks=pytest.mark.thorough),
    ],
)
def test_same_bytes(tmp_path: Path, mode: str, workers: int) -> None:
    alone = stage("data-in-memory", in_memory)
    if mode.endswith("Runner"):
        how = {"runner": mode}
    else:
        how = {"beam_options": (f"--direct_running_mode={mode}",)}
    # Over the same corpus, whose place is in the manifest.
    invoke = invocations(tmp_path, alone / "corpus")
    result = data(invoke("run", NEAR, workers=workers, **how))
    assert result["counts"]["filtered"]["near duplicate"] > 0
    assert contents(tmp_path / "run/data") == contents(alone / "run/data")


def in_memory(folder: Path) -> None:
    corpus = write_corpus(folder / "corpus")
    data(invocations(folder, corpus)("run", NEAR))


def contents(folder: Path) -> dict[str, bytes]:
    """Everything that is a function of the corpus."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("stage.json", "run.yaml", "job.log")
    }
