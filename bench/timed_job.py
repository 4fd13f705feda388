"""`transbeam data`, noting when each of its steps is at work.

    python -m bench.timed_job data CONFIG --run DIR --workers=N

Prints a JSON object: of each step, seconds from this program's first line to when it
first began and last ended. Only for jobs in threads and with a tokenizer that is given.
"""

import time

_START = time.perf_counter()

import importlib  # noqa: E402 (the clock runs before anything else is imported)
import json  # noqa: E402
from typing import Any  # noqa: E402

from transbeam.configs.system import quiet_imports as quiet  # noqa: E402

STEPS = (
    (
        "transbeam.pipeline.steps.clean_documents",
        "prepare_unit",
        "reading and cleaning",
    ),
    (
        "transbeam.pipeline.steps.deduplicate_documents",
        "drop_duplicates",
        "exact duplicates",
    ),
    ("transbeam.pipeline.stage", "write_results", "manifest and card"),
)
# Modules that import TensorFlow: looked at when the job has imported it.
LATE_STEPS = (
    (
        "transbeam.pipeline.beam.tokenizer_cache",
        "shared_tokenizer",
        "building the tokenizer",
    ),
    ("transbeam.pipeline.steps.build_records", "build_part", "making records"),
)
_seen: dict[str, tuple[float, float]] = {}


def main() -> int:
    """Runs the command and prints what was seen."""
    from transbeam.pipeline.__main__ import main as command

    for step in STEPS:
        _watch(*step)
    _watch_imports()
    _note("our own modules", 0.0)
    try:
        return command()
    finally:
        _note("all", 0.0)
        print(json.dumps(_seen))


def _watch(module: str, name: str, step: str) -> None:
    home = importlib.import_module(module)
    function = getattr(home, name)

    def timed(*arguments: Any, **options: Any) -> Any:
        began = time.perf_counter() - _START
        result = function(*arguments, **options)
        _note(step, began)
        return result

    setattr(home, name, timed)


def _watch_imports() -> None:
    import_quietly = quiet._import_quietly

    def timed(modules: tuple[str, ...]) -> None:
        began = time.perf_counter() - _START
        import_quietly(modules)
        _note(f"importing {modules[0]}", began)
        if "tensorflow" in modules:
            for step in LATE_STEPS:
                _watch(*step)

    quiet._import_quietly = timed


def _note(step: str, began: float) -> None:
    ended = time.perf_counter() - _START
    first, last = _seen.get(step, (began, ended))
    _seen[step] = (min(first, began), max(last, ended))


if __name__ == "__main__":
    raise SystemExit(main())
