"""Reads tensors from checkpoints on disk, one at a time to save memory.

Only formats that contain nothing but numbers are read. A pickle can contain code that
is executed when it is loaded.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from safetensors import SafetensorError, safe_open

from transbeam.configs.base.atomic_files import refuse_lfs_pointer
from transbeam.configs.base.errors import ArtifactError
from transbeam.model.weights.checkpoints.tensor_transforms import Shape

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"

# The dtypes of unquantized weights.
_FLOATS = ("F64", "F32", "F16", "BF16")
UNQUANTISED = "Bring the checkpoint that it was made from, in float32 or bfloat16"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")


class Source(Protocol):
    """Named tensors, which are read on demand."""

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """The shapes of all tensors, by name."""
        ...

    def read(self, name: str) -> np.ndarray:
        """Reads a tensor."""
        ...


class SafetensorsSource:
    """The tensors of a folder's `model.safetensors`, or of its shards.

    Args:
        folder: The folder with the file, or with shards and
            `model.safetensors.index.json`.

    Raises:
        ArtifactError: The folder contains neither `model.safetensors` nor shards with
            an index, or a file is missing or damaged.

    Example:
    >>> import tempfile
    >>> from safetensors.numpy import save_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_file({"a": np.ones((2, 3))}, Path(folder, "model.safetensors"))
    ...     SafetensorsSource(Path(folder)).shapes
    {'a': (2, 3)}
    """

    def __init__(self, folder: Path):
        index = folder / INDEX
        named = _read_index(index) if index.is_file() else None
        names = named.values() if named is not None else ()
        paths = {folder / name for name in names} or {_single(folder)}
        self.files = sorted(paths)
        self._places: dict[str, Any] = {}
        for path in self.files:
            self._add(path)
        if named is not None and (folder / SINGLE).is_file():
            _refuse_two_models(folder, paths)
        if lost := sorted(set(named or ()) - set(self._places)):
            raise ArtifactError(
                f"{index}: names tensors that are in no file: {', '.join(lost)}. "
                "Fetch the checkpoint again"
            )

    def _add(self, path: Path) -> None:
        file = _open(path)
        names = list(file.keys())
        if twice := sorted(self._places.keys() & names):
            raise ArtifactError(
                f"{path}: has {twice[0]}, as another file of the checkpoint has, and "
                "they may differ. Remove the file that is not part of this checkpoint"
            )
        self._places |= dict.fromkeys(names, file)

    @property
    def shapes(self) -> dict[str, Shape]:
        return {
            name: tuple(file.get_slice(name).get_shape())
            for name, file in self._places.items()
        }

    def check_formats(self) -> None:
        """Checks that kernels are not quantized.

        Raises:
            ArtifactError: A kernel is not in a float dtype. Buffers, such as positions,
                may be integers.
        """
        for name in self._places:
            # `qweight` in GPTQ and AWQ, `weight` in bitsandbytes and FP8.
            if name.endswith("weight") and (found := self._format(name)) not in _FLOATS:
                raise self._quantised(name, found)

    def read(self, name: str) -> np.ndarray:
        if (found := self._format(name)) not in _FLOATS:
            raise self._quantised(name, found)
        return self._places[name].get_tensor(name)

    def _format(self, name: str) -> str:
        return self._places[name].get_slice(name).get_dtype()

    def _quantised(self, name: str, found: str) -> ArtifactError:
        return ArtifactError(
            f"{self.files[0].parent}: {name} holds numbers of format {found}, expected "
            f"one of {', '.join(_FLOATS)}: the weights are quantised, which cannot be "
            f"read. {UNQUANTISED}"
        )


def _open(path: Path) -> Any:
    refuse_lfs_pointer(path)
    try:
        return safe_open(path, framework="np")
    except FileNotFoundError:
        names = "is a link to no file" if path.is_symlink() else "no such file"
        names += f", but {INDEX} names it" if (path.parent / INDEX).is_file() else ""
        raise ArtifactError(f"{path}: {names}. Fetch the checkpoint again") from None
    except (SafetensorError, OSError) as error:
        raise ArtifactError(
            f"{path}: no whole safetensors file ({error}): cut off or damaged. Fetch "
            "it again"
        ) from error


def _refuse_two_models(folder: Path, paths: Collection[Path]) -> None:
    """Raises an error for a single file beside shards, as the choice is ambiguous."""
    if folder / SINGLE not in paths:
        raise ArtifactError(
            f"{folder}: has {SINGLE}, and {INDEX} names other files, each a model of "
            "its own. Remove those that are not to be read"
        )


def _read_index(path: Path) -> dict[str, str]:
    """Maps tensors to their files, which must be in the index's own folder."""
    refuse_lfs_pointer(path)
    try:
        named = json.loads(path.read_bytes())["weight_map"]
        names = set(named.values())
    except (
        ValueError,
        RecursionError,
        LookupError,
        TypeError,
        AttributeError,
    ) as error:
        raise ArtifactError(
            f"{path}: no index of safetensors files ({error!r}). Fetch it again"
        ) from error
    if not names:
        raise ArtifactError(f"{path}: its weight_map is empty. Fetch it again")
    for name in names:
        if not isinstance(name, str) or not name.endswith(".safetensors"):
            raise ArtifactError(
                f"{path}: weight_map has {name!r}, expected the name of a safetensors "
                "file. Fetch it again"
            )
    if wrong := sorted(name for name in names if Path(name).name != name):
        raise ArtifactError(
            f"{path}: names files outside of its folder: {', '.join(wrong)}"
        )
    return named


def _single(folder: Path) -> Path:
    """The only safetensors file of a folder, or the one named `model.safetensors`."""
    found = sorted(folder.glob("*.safetensors"))
    usual = folder / SINGLE
    if usual in found or len(found) == 1:
        return usual if usual in found else found[0]
    if found:
        names = ", ".join(path.name for path in found)
        raise ArtifactError(
            f"{folder}: has several safetensors files ({names}) and neither {SINGLE} "
            f"nor {INDEX} that says which belong together"
        )
    refuse_pickles(folder)
    raise ArtifactError(f"{folder}: contains no {SINGLE} and no {INDEX}")


def refuse_pickles(folder: Path) -> None:
    """Raises an error for a folder whose weights are only in pickles.

    Raises:
        ArtifactError: The folder has weights only in pickle files.
    """
    pickles = sorted(p.name for p in folder.iterdir() if p.suffix in PICKLES)
    if pickles:
        are = "is a pickle" if len(pickles) == 1 else "are pickles"
        raise ArtifactError(
            f"{folder}: {', '.join(pickles)} {are}, and reading one runs the program "
            "in it. Only safetensors files are read. Where you trust it, write the "
            "model anew, in transformers by `model.save_pretrained(folder, "
            "safe_serialization=True)`, and bring that folder"
        )
