"""The folder of a run: its stages, with the inputs and the result of each.

    runs/demo/run.yaml                     the configuration, every default written out
    runs/demo/data/stage.json              the stage is finished; its inputs and result
    runs/demo/training/unfinished.json     started; resumes with the same inputs
    runs/demo/superseded/data-<print>/     made with other inputs; kept unchanged

A stage is finished exactly if it has a `stage.json`, which is written last and
atomically. A stage made from other inputs is moved aside and never overwritten, so that
changing a key does not destroy a trained model.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from transbeam.configs.base.atomic_files import write_atomically, write_json, writing
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.base.reflection import plain
from transbeam.configs.base.version import RESUMABLE_VERSIONS, VERSION
from transbeam.configs.loader.yaml_dump import dump_run
from transbeam.configs.schema.run import RunConfig

__all__ = [
    "Stage",
    "fingerprint",
    "lock",
    "save_config",
    "write_atomically",
    "write_json",
    "writing",
]

FORMAT = 1
# Options of later versions, each with the value that keeps the earlier behavior.
_AS_BEFORE = {
    "data.accept_incomplete_files": False,
    "export.embedding_pooling": "mean",
    "export.fitted_temperature": False,
    "export.fitted_thresholds": False,
}


def fingerprint(inputs: Mapping[str, Any]) -> str:
    """A hash of inputs in 16 hex digits, independent of the order of their keys.

    Example:
    >>> fingerprint({"seed": 1, "steps": 2}) == fingerprint({"steps": 2, "seed": 1})
    True
    >>> len(fingerprint({}))
    16
    """
    return hashlib.sha256(_canonical(inputs).encode()).hexdigest()[:16]


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


class Stage:
    """A stage of a run, in its own folder.

    The *inputs* are everything on which the stage's outcome depends: a mapping of
    dotted keys to plain JSON values, mostly from
    `transbeam.configs.loader.yaml_config.flatten`, and the fingerprints of the previous
    stages. The *result* describes the outcome: a mapping of JSON values.

    Args:
        run_folder: The run's folder.
        name: The stage's name, which is also its subfolder of the run's folder: `data`,
            `training`, `export`.
        command: The complete command line that makes the stage, for error messages.

    Example:
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> stage = Stage(Path(folder.name), "data", "transbeam data demo.yaml")
    >>> stage.result_if_done({"seed": 17}) is None
    True
    >>> stage.begin({"seed": 17})
    >>> stage.finish({"seed": 17}, {"records": 3})
    >>> stage.result_if_done({"seed": 17})
    {'records': 3}
    >>> stage.differences({"seed": 18})
    ['seed: 17 there, 18 here']
    >>> folder.cleanup()
    """

    def __init__(self, run_folder: Path, name: str, command: str):
        self.run_folder = Path(run_folder)
        self.name = name
        self.command = command

    @property
    def path(self) -> Path:
        return self.run_folder / self.name

    @property
    def _finished_file(self) -> Path:
        return self.path / "stage.json"

    @property
    def _unfinished_file(self) -> Path:
        return self.path / "unfinished.json"

    @property
    def exists(self) -> bool:
        """Checks that the stage exists, finished or unfinished."""
        return self._finished_file.exists() or self._unfinished_file.exists()

    def result_if_done(self, inputs: Mapping[str, Any]) -> dict[str, Any] | None:
        """The result, if the stage is finished and was made from the given inputs."""
        if not self._finished_file.exists():
            return None
        record = self.load()
        return record["result"] if _is_made_from(record, inputs) else None

    @property
    def is_finished(self) -> bool:
        return self._finished_file.exists()

    @property
    def is_resumable(self) -> bool:
        """Checks that this version can continue the existing stage."""
        record = self._record()
        return record is not None and record["version"] in RESUMABLE_VERSIONS

    def inputs(self) -> Mapping[str, Any]:
        """Returns the inputs that the existing stage was made from.

        The mapping is empty if the stage does not exist.
        """
        record = self._record()
        return record["inputs"] if record else {}

    def differences(self, inputs: Mapping[str, Any]) -> list[str]:
        """Lists the differences between the existing stage's and the given inputs.

        Returns:
            Lines such as `tokenizer.vocabulary_size: 4096 there, 8192 here`; empty if
            there is no stage or nothing differs.
        """
        record = self._record()
        return [] if record is None else differences(record["inputs"], inputs)

    def begin(self, inputs: Mapping[str, Any]) -> Path | None:
        """Prepares the folder for the stage to run.

        An existing stage that was made from other inputs, or that an incompatible
        version left unfinished, is moved aside. A stage that was started from the same
        inputs is kept, so that it can be resumed.

        Returns:
            The path to which an existing stage was moved, if there was one.
        """
        moved_to = None
        record = self._record()
        if record is None:
            is_strange = self.path.is_dir() and any(self.path.iterdir())
            moved_to = self._move_aside("unknown") if is_strange else None
        elif not _is_made_from(record, inputs) or self._cannot_resume(record):
            moved_to = self._move_aside(record["fingerprint"])
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        if not self._finished_file.exists():
            write_json(self._unfinished_file, self._new_record(inputs))
        return moved_to

    def take_up(self, inputs: Mapping[str, Any]) -> bool:
        """Restores a stage that was made from the given inputs and later moved aside.

        An existing stage with other inputs is moved aside in turn.

        Returns:
            True if a stage was restored.
        """
        record = self._record()
        if record is not None and _is_made_from(record, inputs):
            return False
        for folder in sorted(self._superseded.glob(f"{self.name}-*")):
            other = Stage(folder.parent, folder.name, self.command)
            try:
                found = other._record()
            except ArtifactError:
                continue  # damaged, so it cannot be restored
            if found is None or not _is_made_from(found, inputs):
                continue
            if other._cannot_resume(found):
                continue
            if self.path.exists():
                self._move_aside(record["fingerprint"] if record else "unknown")
            with writing(self.path):
                folder.rename(self.path)
                with suppress(OSError):  # it is not empty
                    self._superseded.rmdir()
            return True
        return False

    def extend(
        self, inputs: Mapping[str, Any], unchanging: Collection[str] = ()
    ) -> Path | None:
        """Marks the existing stage as unfinished with new inputs, to continue it.

        A finished stage is also kept, as a copy in `superseded`.

        Args:
            inputs: The new inputs.
            unchanging: Folders of the stage whose files are never modified: the copy
                links to them.

        Returns:
            The path of the copy, if the stage was finished.
        """
        kept = None
        if self._finished_file.exists():
            label = self.load()["fingerprint"]
            kept = self._copy_aside(label, {self.path / name for name in unchanging})
        write_json(self._unfinished_file, self._new_record(inputs))
        with writing(self._finished_file):
            self._finished_file.unlink(missing_ok=True)
        return kept

    def take_back(self, moved_to: Path | None) -> None:
        """Undoes a `begin` or `extend` if the stage fails immediately.

        Args:
            moved_to: The path that `begin` or `extend` returned; the stage at this path
                is moved back.
        """
        if moved_to is None:
            return
        with writing(self.path):
            shutil.rmtree(self.path)
            moved_to.rename(self.path)
            with suppress(OSError):  # it is not empty
                moved_to.parent.rmdir()

    def finish(self, inputs: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Marks the stage as finished. The stage's files must already be on disk."""
        record = self._new_record(inputs) | {"result": dict(result)}
        write_json(self._finished_file, record)
        with writing(self._unfinished_file):
            self._unfinished_file.unlink(missing_ok=True)

    def require(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Loads the result of a stage on which another stage depends.

        Raises:
            ArtifactError: The stage is missing, unfinished, or made from other inputs;
                the message names the keys that differ and the command to run.
        """
        record = self.load()
        if differences := self.differences(inputs):
            listed = "\n".join(f"  {line}" for line in differences)
            raise ArtifactError(
                f"{self.path}: made from other inputs:\n{listed}\n"
                f"Make it again (the old one is kept): {self.command}"
            )
        return record["result"]

    def load(self) -> dict[str, Any]:
        """Reads `stage.json`: `inputs`, `fingerprint`, `result`, `version`.

        Raises:
            ArtifactError: The file is missing or was changed.
        """
        if self._finished_file.exists():
            return self._read(self._finished_file)
        if self._unfinished_file.exists():
            found = "it was started and not finished. Resume it"
        elif self.path.exists():
            found = "the folder has no stage.json. Make it"
        else:
            found = "there is no such folder. Make it"
        raise ArtifactError(f"{self.path}: {found}: {self.command}")

    def _record(self) -> dict[str, Any] | None:
        for file in (self._finished_file, self._unfinished_file):
            if file.exists():
                return self._read(file)
        return None

    def _cannot_resume(self, record: Mapping[str, Any]) -> bool:
        """Returns whether an incompatible version left the stage unfinished."""
        is_unfinished = not self._finished_file.exists()
        return is_unfinished and record["version"] not in RESUMABLE_VERSIONS

    def _new_record(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "stage": self.name,
            "fingerprint": fingerprint(inputs),
            "inputs": dict(inputs),
        }

    def _read(self, file: Path) -> dict[str, Any]:
        remedy = f"Move {self.path} away and make it again: {self.command}"
        try:
            record = json.loads(file.read_bytes())
        except (ValueError, RecursionError, OSError) as error:
            raise ArtifactError(f"{file}: unreadable ({error}). {remedy}") from None
        needed = {"format", "version", "fingerprint", "inputs"}
        needed |= {"result"} if file == self._finished_file else set()
        if not isinstance(record, dict) or not needed <= record.keys():
            raise ArtifactError(f"{file}: not the record of a stage. {remedy}")
        whole = cast("dict[str, Any]", record)
        if whole["format"] != FORMAT:
            raise ArtifactError(
                f"{file}: written by Transbeam {whole['version']} in format "
                f"{whole['format']}; this is {VERSION} and reads format {FORMAT}. Use "
                f"that Transbeam, or make it again: {self.command}"
            )
        if whole["fingerprint"] != fingerprint(whole["inputs"]):
            raise ArtifactError(f"{file}: altered since it was written. {remedy}")
        return whole

    @property
    def _superseded(self) -> Path:
        return self.run_folder / "superseded"

    def _move_aside(self, label: str) -> Path:
        with writing(self._superseded):
            target = self._new_superseded_folder(label)
            self.path.rename(target)
        return target

    def _copy_aside(self, label: str, unchanging: set[Path]) -> Path:
        def copy(source: str, target: str) -> None:
            if unchanging.isdisjoint(Path(source).parents):
                shutil.copy2(source, target)
                return
            try:
                os.link(source, target)
            except OSError:  # not every file system has hard links
                shutil.copy2(source, target)

        with writing(self._superseded):
            target = self._new_superseded_folder(label)
            temporary = self._superseded / f".{target.name}.tmp"
            shutil.rmtree(temporary, ignore_errors=True)
            shutil.copytree(self.path, temporary, copy_function=copy)
            temporary.rename(target)
        return target

    def _new_superseded_folder(self, label: str) -> Path:
        """An unused path in `superseded`."""
        self._superseded.mkdir(exist_ok=True)
        target, number = self._superseded / f"{self.name}-{label}", 1
        while target.exists():
            number += 1
            target = self._superseded / f"{self.name}-{label}-{number}"
        return target


def _is_made_from(record: Mapping[str, Any], inputs: Mapping[str, Any]) -> bool:
    return _canonical(_given(record["inputs"])) == _canonical(_given(inputs))


def _given(value: Any) -> Any:
    """Removes keys without effect: nulls, and defaults of options added later.

    The inputs of stages that older versions made lack the keys of options added later.
    Without nulls and defaults of later options, the inputs of an old stage equal those
    of a new stage that leaves the later options at their defaults.

    Example:
    >>> _given({"model": {"embedding_dim": None, "num_layers": 2}, "seed": None})
    {'model': {'num_layers': 2}}
    >>> _given({"data.source.parts": [{"weight": 2.0, "hash_range": None}]})
    {'data.source.parts': [{'weight': 2.0}]}
    """
    if isinstance(value, list):
        return [_given(element) for element in cast("list[Any]", value)]
    if not isinstance(value, Mapping):
        return value
    inner = cast("Mapping[str, Any]", value)
    return {
        key: _given(part)
        for key, part in inner.items()
        if part is not None and (key, part) not in _AS_BEFORE.items()
    }


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Lists the keys whose values differ between two stages' inputs, a line each.

    Example:
    >>> differences({"seed": 1, "name": "a"}, {"seed": 2, "name": "a"})
    ['seed: 1 there, 2 here']
    """
    return [
        f"{key}: {_shown(there, key)} there, {_shown(here, key)} here"
        for key in different_keys(there, here)
    ]


def different_keys(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """The dotted keys whose values differ between two stages' inputs.

    Example:
    >>> different_keys({"seed": 1, "name": "a"}, {"seed": 2, "name": "a"})
    ['seed']
    """
    return [
        key
        for key in dict.fromkeys([*here, *there])
        if _value_text(there, key) != _value_text(here, key)
    ]


def _value_text(inputs: Mapping[str, Any], key: str) -> str:
    # Compared as text, like the fingerprint, so that 1, 1.0 and true differ.
    return _canonical(_given({key: inputs.get(key)}))


def _shown(inputs: Mapping[str, Any], key: str) -> str:
    text = _canonical(inputs[key]) if key in inputs else "nothing"
    return text if len(text) <= 80 else f"{text[:77]}..."


@contextmanager
def lock(run_folder: Path) -> Generator[None, None, None]:
    """Locks a run's folder, so that no two commands write into it at once.

    The folder is created if it is missing. The lock is the operating system's and is
    released whenever the process ends; the file `.lock` stays.

    Raises:
        ArtifactError: Another process holds the lock, or the folder cannot be written.
    """
    file = Path(run_folder) / ".lock"
    with writing(run_folder):
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError as error:  # in /proc, or a dangling link
            raise ArtifactError(
                f"{run_folder}: no folder can be made there. Choose another with --run"
            ) from error
    try:
        _take(descriptor, run_folder)
        with writing(file):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, run_folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode(errors="replace") or "unknown"
        raise ArtifactError(
            f"{run_folder}: process {holder} is writing here. Wait for it to end, or "
            "choose another folder with --run."
        ) from None
    except OSError as error:
        raise ArtifactError(
            f"{run_folder}: files cannot be locked here ({error.strerror}). Choose a "
            "folder on another file system with --run."
        ) from None


def save_config(run_folder: Path, config: RunConfig) -> None:
    """Writes `run.yaml`: the configuration with every default, ready to be loaded.

    Equal fingerprints show that two runs have the same configuration, however it was
    written: with `extends`, a preset, another run's model, or by hand.
    """
    header = (
        f"# Every key of the run, as resolved by Transbeam {VERSION}.\n"
        f"# Fingerprint of these values: {fingerprint(plain(config))}\n"
    )
    write_atomically(Path(run_folder) / "run.yaml", header + dump_run(config))
