"""Finished record files and their integrity check. Needs no TensorFlow."""

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from transbeam.configs.base.errors import ArtifactError


@dataclass(frozen=True)
class Shard:
    """An entry of the manifest for a finished record file.

    Attributes:
        path: Relative to the folder of the manifest.
        split: `"train"` or `"validation"`.
        records: The number of records.
        bytes: The size of the file.
        sha256: The SHA-256 of the file.
        sequence_length: Tokens per record; it differs between the shards of a
            bucketed data set.
    """

    path: str
    split: str
    records: int
    bytes: int
    sha256: str
    sequence_length: int = 0

    @property
    def compression(self) -> Literal["", "GZIP"]:
        """The `compression_type` for `tf.data.TFRecordDataset`."""
        return "GZIP" if self.path.endswith(".gz") else ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def sha256(path: Path) -> str:
    """Computes the SHA-256 of a file in hexadecimal."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_shard(folder: Path, shard: Shard) -> None:
    """Checks that a shard matches its entry in the manifest.

    Raises:
        ArtifactError: The file is missing, truncated or modified.
    """
    path = folder / shard.path
    advice = "Make the records again: move this folder away and run `transbeam data`"
    if not path.is_file():
        raise ArtifactError(f"{path}: missing, though the manifest lists it. {advice}")
    if (size := path.stat().st_size) != shard.bytes:
        raise ArtifactError(
            f"{path}: {size} bytes, the manifest says {shard.bytes}: truncated or "
            f"replaced. {advice}"
        )
    if (found := sha256(path)) != shard.sha256:
        raise ArtifactError(
            f"{path}: altered: its SHA-256 is {found[:12]}…, the manifest says "
            f"{shard.sha256[:12]}…. {advice}"
        )
