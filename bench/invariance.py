"""One corpus, one digest: the same data job on every engine, undisturbed and killed.

    python -m bench.invariance CONFIG [--jars DIR]

Prints a table of the digest of `manifest.json`, which holds the checksum of every
shard, the counts and the tokenizer's fingerprint. With `--jars` the job also runs on a
Flink cluster (see `docs/runners.md`), once with a task manager killed in mid-run.
"""

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

LOCAL = {
    "in memory, 1 worker": ["--workers=1"],
    **{
        f"{mode.replace('_', '-')}, {workers} workers": [
            f"--workers={workers}",
            "--",
            f"--direct_running_mode={mode}",
        ]
        for mode in ("multi_threading", "multi_processing")
        for workers in (1, 2, 3)
    },
    "BundleBasedDirectRunner": ["--runner=BundleBasedDirectRunner"],
}


def main() -> int:
    arguments = _parser().parse_args()
    digests = set()
    with tempfile.TemporaryDirectory() as folder:
        ways = _ways(arguments.config, arguments.jars)
        for number, (name, way) in enumerate(ways.items()):
            began = time.perf_counter()
            run = Path(folder, str(number))
            way(run)
            digest = hashlib.sha256((run / "data/manifest.json").read_bytes())
            digests.add(digest.hexdigest())
            seconds = time.perf_counter() - began
            print(
                f"| {name} | {seconds:.0f} s | {digest.hexdigest()[:16]} |", flush=True
            )
    print(f"{len(digests)} digest" + ("" if len(digests) == 1 else "s: NOT THE SAME"))
    return 0 if len(digests) == 1 else 1


def _ways(config: Path, jars: Path | None) -> dict[str, Callable[[Path], None]]:
    def local(options: list[str]) -> Callable[[Path], None]:
        return lambda run: _finish(_started(config, run, options))

    def killed(step: str) -> Callable[[Path], None]:
        def way(run: Path) -> None:
            job = _started(config, run, ["--workers=2"])
            _wait_for_markers(job, run, step)
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            _finish(_started(config, run, ["--workers=2"]))

        return way

    ways = {name: local(options) for name, options in LOCAL.items()}
    ways["killed while reading, run again"] = killed("documents")
    ways["killed while building, run again"] = killed("records")
    if jars:
        from bench.flink_cluster import flink_cluster

        def on_flink(kill: bool) -> Callable[[Path], None]:
            def way(run: Path) -> None:
                with flink_cluster(jars, run.with_suffix(".logs")) as cluster:
                    options = ["--runner=FlinkRunner", "--", *cluster.options()]
                    job = _started(config, run, options)
                    if kill:
                        _wait_for_markers(job, run, "records")
                        cluster.processes["task_manager_1"].kill()
                    _finish(job)

            return way

        ways["Flink, two task managers"] = on_flink(kill=False)
        ways["Flink, one of them killed"] = on_flink(kill=True)
    return ways


def _started(config: Path, run: Path, options: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "transbeam", "data", str(config), f"--run={run}"]
    return subprocess.Popen([*command, "--quiet", *options], start_new_session=True)


def _wait_for_markers(job: subprocess.Popen[bytes], run: Path, step: str) -> None:
    while job.poll() is None and not list((run / "data/state").glob(f"{step}-*.json")):
        time.sleep(0.02)
    if job.poll() is not None:
        raise SystemExit(f"{run}: the job ended before it could be disturbed")


def _finish(job: subprocess.Popen[bytes]) -> None:
    if job.wait():
        raise SystemExit(f"{job.args} ended with {job.returncode}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.invariance", description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("--jars", type=Path)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
