"""A Flink cluster on this machine, for as long as a command runs.

    python -m bench.flink_cluster --jars DIR -- COMMAND...

One job manager, two task managers of two slots with a pool of Python workers each, and
Beam's job server: programs that talk over loopback as they would over a network. They
write their logs into one folder, and are stopped when the command ends, however it
ends. An argument `{options}` of the command becomes what Beam must be told to find the
cluster. `docs/runners.md` says where the jars come from. Linux only: it uses 127.0.1.1
and 127.0.1.2.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

REST, JOBS, ARTIFACTS, POOL = 8081, 8099, 8098, 50000
POOL_NAME = "worker-pool"
TASK_MANAGERS, SLOTS = 2, 2
PATIENCE = 120  # seconds for the cluster to start
# Memory, ports, and what a job needs to outlive a task manager: config.yaml.
SETTINGS = Path(__file__).parent / "flink"


class Unusable(Exception):
    """Something is missing or taken; the message says what and what to do."""


@dataclass(frozen=True)
class Cluster:
    """A running cluster.

    Attributes:
        processes: Its programs by name, for experiments that kill one.
    """

    processes: dict[str, subprocess.Popen[bytes]]

    def options(self) -> list[str]:
        """Beam's options in addition to `--runner=FlinkRunner`.

        With half of the slots, the job still fits when a task manager is lost.
        """
        return [
            f"--job_endpoint=localhost:{JOBS}",
            f"--flink_master=localhost:{REST}",
            "--environment_type=EXTERNAL",
            f"--environment_config={POOL_NAME}:{POOL}",
            "--environment_cache_millis=60000",
            f"--parallelism={SLOTS}",
        ]

    def get(self, path: str) -> dict:
        """Returns the job manager's response to a request such as `jobs/overview`."""
        with urllib.request.urlopen(f"http://localhost:{REST}/{path}", timeout=5) as it:
            return json.load(it)


@contextmanager
def flink_cluster(jars: Path, logs: Path) -> Iterator[Cluster]:
    """Starts the cluster and stops it at the end of the `with` block.

    Args:
        jars: A folder with `flink-dist-*.jar`, its neighbours, and the job server's
            jar, at any depth.
        logs: Where the programs write; made if need be.

    Raises:
        Unusable: Java or a jar is missing, a port is taken, or a program does not
            start.
    """
    logs.mkdir(parents=True, exist_ok=True)
    programs = _programs(jars, logs)
    for port in (REST, JOBS, ARTIFACTS):
        if _listens("localhost", port):
            raise Unusable(f"port {port} is taken; stop what listens there")
    with ExitStack() as stack:
        cluster = Cluster(
            {
                name: stack.enter_context(_running(command, logs / f"{name}.log"))
                for name, command in programs.items()
            }
        )
        _wait_for(cluster, logs)
        yield cluster


def _programs(jars: Path, logs: Path) -> dict[str, list[str]]:
    found = shutil.which("java")
    if found is None:
        raise Unusable("java is not on the path; install Java 17")
    java = [found, f"@{SETTINGS}/java.options"]
    job_server = _only(jars, "*job-server*.jar", "Beam's job server")
    flink = _only(jars, "flink-dist-*.jar", "Flink's class path").parent

    def flink_program(name: str, *properties: str) -> list[str]:
        log_settings = f"-Dlog4j.configurationFile={SETTINGS}/log4j.properties"
        return [
            *(*java, log_settings, *properties, "-cp", f"{flink}/*"),
            *(f"org.apache.flink.runtime.{name}", "--configDir", str(SETTINGS)),
        ]

    programs = {
        "job_manager": flink_program("entrypoint.StandaloneSessionClusterEntrypoint"),
        "job_server": [
            *(*java, "-jar", str(job_server)),
            *("--flink-master", f"localhost:{REST}", "--job-port", str(JOBS)),
            *("--artifact-port", str(ARTIFACTS), "--expansion-port", "0"),
            *("--artifacts-dir", str(logs / "artifacts")),
        ],
    }
    for number in range(1, TASK_MANAGERS + 1):
        # Beam is told one address of the worker pools: a name, which is another
        # loopback address in each task manager, as it is another pod in Kubernetes.
        hosts = logs / f"hosts_{number}"
        hosts.write_text(
            f"127.0.0.1 localhost {socket.gethostname()}\n"
            f"{_pool_address(number)} {POOL_NAME}\n"
        )
        programs[f"task_manager_{number}"] = flink_program(
            "taskexecutor.TaskManagerRunner", f"-Djdk.net.hosts.file={hosts}"
        )
        programs[f"worker_pool_{number}"] = [
            *(sys.executable, str(Path(__file__).parent / "worker_pool.py")),
            f"{_pool_address(number)}:{POOL}",
        ]
    return programs


def _only(folder: Path, pattern: str, what: str) -> Path:
    found = sorted(folder.rglob(pattern))
    if len(found) != 1:
        raise Unusable(
            f"{what}: looked for one {pattern} in {folder} and found {len(found)}; "
            "docs/runners.md says where the jars come from"
        )
    return found[0]


@contextmanager
def _running(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a program in a session of its own, so that its children end with it."""
    # A worker pool starts its workers with whatever `python` is first on the path.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PATH": path},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        for sent in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, sent)
                process.wait(timeout=10)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue


def _wait_for(cluster: Cluster, logs: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not _is_up(cluster):
        dead = [n for n, p in cluster.processes.items() if p.poll() is not None]
        if dead or time.monotonic() > deadline:
            name = (dead or ["the cluster"])[0]
            raise Unusable(f"{name} did not start; the logs are in {logs}")
        time.sleep(0.2)


def _is_up(cluster: Cluster) -> bool:
    pools = [(_pool_address(n), POOL) for n in range(1, TASK_MANAGERS + 1)]
    if not all(_listens(*address) for address in [("localhost", JOBS), *pools]):
        return False
    try:
        return cluster.get("overview")["taskmanagers"] == TASK_MANAGERS
    except OSError:
        return False


def _pool_address(number: int) -> str:
    return f"127.0.1.{number}"


def _listens(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def main(argv: Sequence[str]) -> int:
    """Runs a command with the cluster up; its exit code is the command's."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.flink_cluster", usage="%(prog)s --jars DIR -- COMMAND..."
    )
    parser.add_argument("--jars", type=Path, required=True, metavar="DIR")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="default: a new one")
    split = argv.index("--") if "--" in argv else len(argv)
    arguments = parser.parse_args(argv[:split])
    if split + 1 >= len(argv):
        parser.error("no command: write it after --")
    logs = arguments.logs or Path(tempfile.mkdtemp(prefix="flink-"))
    # So that the programs are stopped too when this one is.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    began = time.monotonic()
    try:
        with flink_cluster(arguments.jars, logs) as cluster:
            print(f"up after {time.monotonic() - began:.0f} s, logs in {logs}")
            command: list[str] = []
            for word in argv[split + 1 :]:
                command += cluster.options() if word == "{options}" else [word]
            print(" ".join(command), flush=True)
            return subprocess.run(command).returncode
    except Unusable as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
