"""One corpus, one configuration, one digest: whoever works on it, and how many."""

from pathlib import Path

import pytest

from pipeline.stage import data

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
def test_same_bytes(invoke, mode: str, workers: int) -> None:
    near = "data.deduplication={near: {similarity: 0.95}}"
    expected = contents(invoke("alone", near))
    if mode.endswith("Runner"):
        how = {"runner": mode}
    else:
        how = {"beam_options": (f"--direct_running_mode={mode}",)}
    assert contents(invoke("other", near, workers=workers, **how)) == expected


def contents(invocation) -> dict[str, bytes]:
    """Makes the records and reads everything that is a function of the corpus."""
    result = data(invocation)
    assert result["counts"]["filtered"]["near duplicate"] > 0
    folder: Path = invocation.run_folder / "data"
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("stage.json", "run.yaml", "job.log")
    }
