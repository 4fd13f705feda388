"""A server under attack: `python -m bench.attacks READER WRITER --minutes 10`.

`transbeam serve` on one core; on the other one good clients, who ask a short text of
READER and have one streamed by WRITER at a rate each, and attackers, in a process of
their own. First each attack is done alone, in rounds that begin with nobody's, so that
one sees what it costs; then nobody attacks for a while, and then all for as long as is
said. READER and WRITER are folders above a SavedModel's versions: a tagger and a causal
model. Linux, with two cores at least.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from bench.attacks.good import Good, GoodClients
from bench.pairs import heading, row, spread

SECONDS = 20.0  # that an attack is watched alone
TIMES = "p50", "p99"


@dataclass(frozen=True)
class Found:
    """Outcome of a period under attack.

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
    parser.add_argument("--rounds", type=int, default=3, help="of each alone")
    parser.add_argument("--rate", type=float, default=20, help="good ones a second")
    parser.add_argument("--attacks", nargs="+", help="these alone")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {1})
    with tempfile.TemporaryDirectory() as folder, served(Path(folder), arguments) as at:
        from bench.attacks.attacks import RATES

        known = {attack.__name__: seconds for attack, seconds in RATES.items()}
        chosen = arguments.attacks or list(known)
        alone = [(name,) for name in chosen]
        watch = Watch(at, arguments.rate)
        watch.during([], arguments.seconds)  # gets warm
        print(heading("attack", "every", "became", "lost", *TIMES, "of quiet", "MB"))
        rounds = [
            {name: watch.during(name, arguments.seconds) for name in ((), *alone)}
            for _ in range(arguments.rounds)
        ]
        quiet = [found[()] for found in rounds]
        print(line("none", "", quiet, quiet))
        for (name,) in alone:
            found = [one[name,] for one in rounds]
            print(line(name, f"{known[name]:g} s", found, quiet), flush=True)
        longer = [watch.during((), 60 * arguments.minutes / 5)]
        print(line("none, for longer", "", longer, longer), flush=True)
        together = [watch.during(chosen, 60 * arguments.minutes)]
        print(line(f"all, {arguments.minutes:g} min", "as above", together, longer))
        print(line("none again", "", [watch.during((), arguments.seconds)], longer))
    print(
        f"\nPython {platform.python_version()}, tensorflow {version('tensorflow')}, "
        f"uvicorn {version('uvicorn')}, grpcio {version('grpcio')}; "
        f"{platform.machine()}. Server on one core, all others on the other."
    )


def line(name: str, every: str, found: Sequence[Found], quiet: Sequence[Found]) -> str:
    """A row of the table: of rounds, each beside its quiet."""
    became: dict[str, Counter[str]] = {}
    for one in found:
        for attack, of in one.became.items():
            became.setdefault(attack, Counter()).update(of)
    told = {
        attack: " ".join(f"{what} {count:,}" for what, count in sorted(of.items()))
        for attack, of in became.items()
    }
    alone = len(told) == 1
    words = "; ".join(what if alone else f"{of} {what}" for of, what in told.items())
    goods = [one.good for one in found]
    lost = f"{sum(g.lost for g in goods):,} of {sum(g.asked for g in goods):,}"
    p50, p99 = ([good.percentile(share) for good in goods] for share in (50, 99))
    ratios = [
        good / one.good.percentile(99) for good, one in zip(p99, quiet, strict=True)
    ]
    times = [_of_rounds(of, ".1f", " ms") for of in (p50, p99)]
    megabytes = f"{max(one.megabytes for one in found):,.0f}"
    return row(
        name, every, words, lost, *times, _of_rounds(ratios, ".2f", "x"), megabytes
    )


def _of_rounds(values: Sequence[float], form: str, unit: str) -> str:
    """The median and the range; of one round, what it was."""
    if len(values) > 1:
        return spread(values, form, unit)
    return f"{values[0]:{form}}{unit}"


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
        """Measures good requests during some seconds under attack."""
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
    command = [sys.executable, "-m", "transbeam.serving", "serve", "--json"]
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
