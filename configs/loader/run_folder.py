"""The folder of a run: which stages are in it, and what each was made from.

    runs/demo/run.yaml                     the configuration, every default written out
    runs/demo/data/stage.json              the stage is finished; its inputs and result
    runs/demo/training/unfinished.json     begun; the same inputs let it go on
    runs/demo/superseded/data-<print>/     made with other inputs, kept whole

A stage is done exactly when its `stage.json` is there: it is written last, in one
step. A stage made from other inputs is moved aside and never overwritten: changing a
key must not cost anyone a trained model.
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
from transbeam.configs.base.version import VERSION
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
# Options that came later, each with the value at which all is as it was before.
_AS_BEFORE = {"data.accept_incomplete_files": False, "export.embedding_pooling": "mean"}


def fingerprint(inputs: Mapping[str, Any]) -> str:
    """16 hex digits that stand for the inputs, whatever the order of their keys.

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
    """One stage of a run, in a folder of its own.

    *Inputs* are all that the stage's outcome depends on: a mapping of dotted keys to
    plain JSON values, mostly from `transbeam.configs.loader.yaml_config.flatten`, and
    the fingerprints of the stages before. The *result* is what the stage has to say of
    what it made: a mapping of JSON values.

    Args:
        run_folder: The run's folder.
        name: The stage, and its folder below the run's: `data`, `training`, `export`.
        command: The whole command line that makes the stage, for error messages.

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
    def is_begun(self) -> bool:
        """Checks that the stage exists, finished or not."""
        return self._finished_file.exists() or self._unfinished_file.exists()

    def result_if_done(self, inputs: Mapping[str, Any]) -> dict[str, Any] | None:
        """The result, if the stage is finished and was made from these inputs."""
        if not self._finished_file.exists():
            return None
        record = self.load()
        return record["result"] if _is_made_from(record, inputs) else None

    @property
    def is_finished(self) -> bool:
        return self._finished_file.exists()

    @property
    def is_of_this_version(self) -> bool:
        """Tells whether this version made what is there."""
        record = self._record()
        return record is not None and record["version"] == VERSION

    def inputs(self) -> Mapping[str, Any]:
        """Returns the inputs that the existing stage was made from.

        Empty if there is none.
        """
        record = self._record()
        return record["inputs"] if record else {}

    def differences(self, inputs: Mapping[str, Any]) -> list[str]:
        """Lists the differences between the inputs of the existing stage and these.

        Returns:
            Lines such as `tokenizer.vocabulary_size: 4096 there, 8192 here`; none if
            nothing is there or nothing differs.
        """
        record = self._record()
        return [] if record is None else differences(record["inputs"], inputs)

    def begin(self, inputs: Mapping[str, Any]) -> Path | None:
        """Makes the folder ready to work in.

        What is there and was made from other inputs, or was begun by another version,
        is moved aside, whole. What was begun from the same inputs is kept, for the
        stage to continue.

        Returns:
            Where the other was moved to, if there was one.
        """
        moved_to = None
        record = self._record()
        if record is None:
            is_strange = self.path.is_dir() and any(self.path.iterdir())
            moved_to = self._move_aside("unknown") if is_strange else None
        elif not _is_made_from(record, inputs) or self._begun_by_another_version(
            record
        ):
            moved_to = self._move_aside(record["fingerprint"])
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        if not self._finished_file.exists():
            write_json(self._unfinished_file, self._new_record(inputs))
        return moved_to

    def take_up(self, inputs: Mapping[str, Any]) -> bool:
        """Takes what was moved aside and was made from these inputs, if there is such.

        What is there instead is moved aside.

        Returns:
            Whether there was one.
        """
        record = self._record()
        if record is not None and _is_made_from(record, inputs):
            return False
        for folder in sorted(self._shelf.glob(f"{self.name}-*")):
            other = Stage(folder.parent, folder.name, self.command)
            try:
                found = other._record()
            except ArtifactError:
                continue  # damaged, and nobody's business now
            if found is None or not _is_made_from(found, inputs):
                continue
            if other._begun_by_another_version(found):
                continue
            if self.path.exists():
                self._move_aside(record["fingerprint"] if record else "unknown")
            with writing(self.path):
                folder.rename(self.path)
                with suppress(OSError):  # others are on the shelf
                    self._shelf.rmdir()
            return True
        return False

    def extend(
        self, inputs: Mapping[str, Any], unchanging: Collection[str] = ()
    ) -> Path | None:
        """Makes what is there a part of what other inputs ask for, to be gone on with.

        What was finished is kept as well, as a copy beside what was moved aside.

        Args:
            inputs: What it is to be made from.
            unchanging: Folders in the stage's whose files are never written into again:
                the copy shares them.

        Returns:
            Where the copy is, if what is there was finished.
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
        """Undoes a `begin` or `extend` of which nothing came.

        Args:
            moved_to: What that returned; it is put where it was.
        """
        if moved_to is None:
            return
        with writing(self.path):
            shutil.rmtree(self.path)
            moved_to.rename(self.path)
            with suppress(OSError):  # others are on the shelf
                moved_to.parent.rmdir()

    def finish(self, inputs: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Declares the stage done. Everything of it must be on the disk by now."""
        record = self._new_record(inputs) | {"result": dict(result)}
        write_json(self._finished_file, record)
        with writing(self._unfinished_file):
            self._unfinished_file.unlink(missing_ok=True)

    def require(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a stage that another builds on.

        Raises:
            ArtifactError: It is not there, not finished, or made from other inputs;
                the message names the keys that differ and the command that helps.
        """
        record = self.load()
        if differences := self.differences(inputs):
            listed = "\n".join(f"  {line}" for line in differences)
            raise ArtifactError(
                f"{self.path}: made from other inputs:\n{listed}\n"
                f"Make it anew (the old one is kept): {self.command}"
            )
        return record["result"]

    def load(self) -> dict[str, Any]:
        """All that `stage.json` says: `inputs`, `fingerprint`, `result`, `version`.

        Raises:
            ArtifactError: There is none, or it is not as it was written.
        """
        if self._finished_file.exists():
            return self._read(self._finished_file)
        if self._unfinished_file.exists():
            found = "it was begun and not finished. Go on with it"
        elif self.path.exists():
            found = "the folder holds no stage.json. Make it"
        else:
            found = "there is no such folder. Make it"
        raise ArtifactError(f"{self.path}: {found}: {self.command}")

    def _record(self) -> dict[str, Any] | None:
        for file in (self._finished_file, self._unfinished_file):
            if file.exists():
                return self._read(file)
        return None

    def _begun_by_another_version(self, record: Mapping[str, Any]) -> bool:
        """Checks for an unfinished stage of another version.

        This one cannot resume it.
        """
        return not self._finished_file.exists() and record["version"] != VERSION

    def _new_record(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "stage": self.name,
            "fingerprint": fingerprint(inputs),
            "inputs": dict(inputs),
        }

    def _read(self, file: Path) -> dict[str, Any]:
        remedy = f"Move {self.path} away and make it anew: {self.command}"
        try:
            record = json.loads(file.read_bytes())
        except (ValueError, OSError) as error:
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
                f"that Transbeam, or make it anew: {self.command}"
            )
        if whole["fingerprint"] != fingerprint(whole["inputs"]):
            raise ArtifactError(f"{file}: altered since it was written. {remedy}")
        return whole

    @property
    def _shelf(self) -> Path:
        return self.run_folder / "superseded"

    def _move_aside(self, label: str) -> Path:
        with writing(self._shelf):
            target = self._place_on_the_shelf(label)
            self.path.rename(target)
        return target

    def _copy_aside(self, label: str, unchanging: set[Path]) -> Path:
        def copy(source: str, target: str) -> None:
            if unchanging.isdisjoint(Path(source).parents):
                shutil.copy2(source, target)
                return
            try:
                os.link(source, target)
            except OSError:  # not every file system has links
                shutil.copy2(source, target)

        with writing(self._shelf):
            target = self._place_on_the_shelf(label)
            temporary = self._shelf / f".{target.name}.tmp"
            shutil.rmtree(temporary, ignore_errors=True)
            shutil.copytree(self.path, temporary, copy_function=copy)
            temporary.rename(target)
        return target

    def _place_on_the_shelf(self, label: str) -> Path:
        """A path there that is free."""
        self._shelf.mkdir(exist_ok=True)
        target, number = self._shelf / f"{self.name}-{label}", 1
        while target.exists():
            number += 1
            target = self._shelf / f"{self.name}-{label}-{number}"
        return target


def _is_made_from(record: Mapping[str, Any], inputs: Mapping[str, Any]) -> bool:
    return _canonical(_given(record["inputs"])) == _canonical(_given(inputs))


def _given(value: Any) -> Any:
    """Without the keys of mappings that hold nothing.

    An option that is left out is null, or as it was before there was the option. What
    was made before that has no such key, and is made from the same.

    Example:
    >>> _given({"model": {"embedding_dim": None, "num_layers": 2}, "seed": None})
    {'model': {'num_layers': 2}}
    """
    if not isinstance(value, Mapping):
        return value
    inner = cast("Mapping[str, Any]", value)
    return {
        key: _given(part)
        for key, part in inner.items()
        if part is not None and (key, part) not in _AS_BEFORE.items()
    }


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """One line for each key whose values differ.

    Example:
    >>> differences({"seed": 1, "name": "a"}, {"seed": 2, "name": "a"})
    ['seed: 1 there, 2 here']
    """
    return [
        f"{key}: {_shown(there, key)} there, {_shown(here, key)} here"
        for key in different_keys(there, here)
    ]


def different_keys(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """The keys whose values differ.

    Example:
    >>> different_keys({"seed": 1, "name": "a"}, {"seed": 2, "name": "a"})
    ['seed']
    """
    return [
        key
        for key in dict.fromkeys([*here, *there])
        if _text_of(there, key) != _text_of(here, key)
    ]


def _text_of(inputs: Mapping[str, Any], key: str) -> str:
    # Compared as text, as the fingerprint is: 1 and 1.0 and true are three things.
    return _canonical(_given({key: inputs.get(key)}))


def _shown(inputs: Mapping[str, Any], key: str) -> str:
    text = _canonical(inputs[key]) if key in inputs else "nothing"
    return text if len(text) <= 80 else f"{text[:77]}..."


@contextmanager
def lock(run_folder: Path) -> Generator[None, None, None]:
    """Holds a run's folder, so that no two commands write into it at once.

    The folder is made if need be. The lock is the operating system's and ends with
    the process, however that ends; the file `.lock` stays.

    Raises:
        ArtifactError: Another process holds it, or the folder cannot be written.
    """
    file = Path(run_folder) / ".lock"
    with writing(run_folder):
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError as error:  # /proc, or a link to nowhere
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

    Its fingerprint tells at a glance if two runs are configured alike, however each was
    written: with another file's keys, a preset or another run's model, or by hand.
    """
    header = (
        f"# Every key of the run, as resolved by Transbeam {VERSION}.\n"
        f"# Fingerprint of these values: {fingerprint(plain(config))}\n"
    )
    write_atomically(Path(run_folder) / "run.yaml", header + dump_run(config))
