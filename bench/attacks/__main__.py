"""A server under attack: `python -m bench.attacks READER WRITER --minutes 10`.

`transbeam serve` on one core; on the other one good clients, who ask a short text of
READER and have one streamed by WRITER at a rate each, and attackers, in a process of
their own. First nobody attacks; then each attack is done alone, so that one sees what
it costs; then all of them for as long as is said. READER and WRITER are folders above
a SavedModel's versions: a tagger and a causal model. Linux, with two cores at least.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from bench.attacks.good import Good, GoodClients
from bench.pairs import heading, row

SECONDS = 20.0  # that an attack is watched alone


@dataclass(frozen=True)
class Found:
    """What became of some time.

    Attributes:
        good: The good requests.
        megabytes: That the server had at most.
        became: What became of each attack.
    """

    good: Good
    megabytes: float
    became: dict[str, dict[str, int]]


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(prog="bench.attacks", description=__doc__)
    parser.add_argument("reader", type=Path)
    parser.add_argument("writer", type=Path)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each alone")
    parser.add_argument("--rate", type=float, default=20, help="good ones a second")
    parser.add_argument("--attacks", nargs="+", help="these alone")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {1})
    with tempfile.TemporaryDirectory() as folder, served(Path(folder), arguments) as at:
        from bench.attacks.attacks import RATES

        known = {attack.__name__: seconds for attack, seconds in RATES.items()}
        chosen = arguments.attacks or list(known)
        watch = Watch(at, arguments.rate)
        watch.during([], arguments.seconds)  # gets warm
        quiet = watch.during([], 60 * arguments.minutes / 5)
        print(
            heading("attack", "every", "became", "lost", "p50", "p99", "of quiet", "MB")
        )
        print(line("none", "", quiet, quiet))
        for name in chosen:
            found = watch.during([name], arguments.seconds)
            print(line(name, f"{known[name]:g} s", found, quiet), flush=True)
        together = watch.during(chosen, 60 * arguments.minutes)
        print(line(f"all, {arguments.minutes:g} min", "as above", together, quiet))
        after = watch.during([], arguments.seconds)
        print(line("none again", "", after, quiet))
    print(
        f"\nPython {platform.python_version()}, tensorflow {version('tensorflow')}, "
        f"uvicorn {version('uvicorn')}, grpcio {version('grpcio')}; "
        f"{platform.machine()}. Server on one core, all others on the other."
    )


def line(name: str, every: str, found: Found, quiet: Found) -> str:
    """A row of the table."""
    p50, p99 = (found.good.percentile(share) for share in (50, 99))
    told = {
        attack: " ".join(f"{what} {count:,}" for what, count in sorted(of.items()))
        for attack, of in found.became.items()
    }
    one = len(told) == 1
    became = "; ".join(what if one else f"{of} {what}" for of, what in told.items())
    lost = f"{found.good.lost:,} of {found.good.asked:,}"
    ratio = p99 / quiet.good.percentile(99)
    cells = f"{p50:.1f} ms", f"{p99:.1f} ms", f"{ratio:.2f}x", f"{found.megabytes:,.0f}"
    return row(name, every, became, lost, *cells)


class Watch:
    """A server, its good clients, and its attackers when there are any.

    Args:
        at: Where it listens, and the number of its process.
        rate: Good requests a second.
    """

    def __init__(self, at: dict, rate: float):
        self._at = at
        self._clients = GoodClients(at["rest"], rate)

    def during(self, attacks: Sequence[str], seconds: float) -> Found:
        """What becomes of some seconds under some attacks."""
        peak = [0.0]
        over = threading.Event()

        def look() -> None:
            while not over.wait(0.1):
                peak[0] = max(peak[0], resident(self._at["process"]))

        watching = threading.Thread(target=look)
        watching.start()
        with attacked(self._at, attacks) as became:
            good = self._clients.ask(seconds)
        over.set()
        watching.join()
        return Found(good, peak[0], became)


@contextmanager
def attacked(at: dict, attacks: Sequence[str]) -> Iterator[dict[str, dict[str, int]]]:
    """Attackers in a process of their own; filled in when they are through."""
    became: dict[str, dict[str, int]] = {}
    if not attacks:
        yield became
        return
    command = [
        sys.executable,
        "-m",
        "bench.attacks.attackers",
        json.dumps(at),
        *attacks,
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()  # they have begun
        yield became
        process.stdin.close()
        became.update(json.loads(process.stdout.read()))


@contextmanager
def served(folder: Path, arguments: argparse.Namespace) -> Iterator[dict]:
    """A server of its own, on the first core."""
    models = {"reader": arguments.reader, "writer": arguments.writer}
    configs = "".join(
        f'config {{ name: "{name}" base_path: "{at.resolve()}" }}\n'
        for name, at in models.items()
    )
    (folder / "model.config").write_text(f"model_config_list {{\n{configs}}}\n")
    command = [sys.executable, "-m", "serving", "serve", "--json"]
    command += ["--model-config-file", str(folder / "model.config")]
    command += ["--port", "0", "--rest-port", "0"]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            ["taskset", "-c", "0", *command],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        try:
            said = ""
            assert process.stdout is not None
            while not said.endswith("}\n"):
                line = process.stdout.readline()
                if not line:
                    raise SystemExit((folder / "log").read_text())
                said += line
            told = json.loads(said)
            rest = told["rest"].removeprefix("http://")
            yield {"rest": rest, "rpc": told["grpc"], "process": process.pid}
        finally:
            process.terminate()
            process.wait()
            print(
                f"\nThe server ended with {process.returncode}; its log has "
                f"{len((folder / 'log').read_text().splitlines()):,} lines."
            )


def resident(process: int) -> float:
    """Megabytes that a process has in memory."""
    status = Path("/proc", str(process), "status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1e3


if __name__ == "__main__":
    main()
