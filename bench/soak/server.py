"""`transbeam serve` in a process of its own, its new versions, and what it takes."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import urllib3

TOKEN = "soaked"
PATIENCE = 300.0  # seconds for a new version, which others' requests slow down
_CONFIG = 'config {{ name: "{0}" base_path: "{1}/{0}" model_platform: "tensorflow" }}'


@dataclass(frozen=True)
class Sample:
    """A process at a moment.

    Attributes:
        minute: Since the beginning.
        megabytes: That it has in memory.
        files: That it has open.
        threads: That it has.
    """

    minute: float
    megabytes: float
    files: int
    threads: int


@dataclass
class Server:
    """A server that is running.

    Attributes:
        rest: Where it listens.
        rpc: The same for gRPC.
        folder: Has the folders of its models.
        process: Its number.
    """

    rest: str
    rpc: str
    folder: Path
    process: int

    def __post_init__(self) -> None:
        self._began = time.monotonic()

    def sample(self) -> Sample:
        """Samples the server's memory, threads and file descriptors."""
        folder = Path("/proc", str(self.process))
        lines = (folder / "status").read_text().splitlines()
        status = dict(line.split(":\t", 1) for line in lines)
        return Sample(
            minute=(time.monotonic() - self._began) / 60,
            megabytes=int(status["VmRSS"].split()[0]) / 1e3,
            files=len(list((folder / "fd").iterdir())),
            threads=int(status["Threads"]),
        )

    def renew(self, model: str) -> None:
        """Puts a copy of a model's version in the place of it.

        Raises:
            TimeoutError: It does not take over.
        """
        versions = self.folder / model
        old = max(int(folder.name) for folder in versions.iterdir())
        coming = self.folder / "coming"
        shutil.copytree(versions / str(old), coming)
        coming.rename(versions / str(old + 1))
        end = time.monotonic() + PATIENCE
        while self._state(model, old + 1) != "AVAILABLE":
            if time.monotonic() > end:
                raise TimeoutError(f"{model}: version {old + 1} does not take over")
            time.sleep(0.2)
        shutil.rmtree(versions / str(old))

    def _state(self, model: str, version: int) -> str:
        url = f"{self.rest}/v1/models/{model}/versions/{version}"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        told = urllib3.request("GET", url, headers=headers).json()
        return told.get("model_version_status", [{"state": ""}])[0]["state"]


@contextmanager
def served(models: Sequence[Path], folder: Path) -> Iterator[tuple[Server, list[str]]]:
    """A server of copies of some models, and the names that these have there.

    Args:
        models: Folders above version folders; they stay as they are.
        folder: For the copies.
    """
    names = [_copied(model, folder, number) for number, model in enumerate(models)]
    listed = "\n".join(_CONFIG.format(name, folder) for name in names)
    (folder / "model.config").write_text(f"model_config_list {{\n{listed}\n}}\n")
    (folder / "token").write_text(TOKEN)
    command = [sys.executable, "-m", "transbeam.serving", "serve", "--json"]
    command += ["--model-config-file", str(folder / "model.config")]
    command += ["--token-file", str(folder / "token")]
    command += ["--port", "0", "--rest-port", "0"]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True
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
            yield Server(told["rest"], told["grpc"], folder, process.pid), names
        finally:
            process.terminate()


def _copied(model: Path, folder: Path, number: int) -> str:
    """Its newest version, as version 1."""
    versions = [each for each in model.iterdir() if each.name.isdecimal()]
    newest = max(versions, key=lambda version: int(version.name))
    name = f"model-{number}"
    shutil.copytree(newest, folder / name / "1")
    return name
