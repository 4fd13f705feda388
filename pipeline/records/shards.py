"""Finished files of records, and the proof that they are whole. Needs no TensorFlow."""

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from transbeam.configs.base.errors import ArtifactError


@dataclass(frozen=True)
class Shard:
    """A finished file of records, as the manifest lists it.

    Attributes:
        path: Relative to the folder of the manifest.
        split: `"train"` or `"validation"`.
        records: How many.
        bytes: Size of the file.
        sha256: Of the file's bytes.
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
        """As `tf.data.TFRecordDataset` wants it."""
        return "GZIP" if self.path.endswith(".gz") else ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_shard(folder: Path, shard: Shard) -> None:
    """Makes sure that a shard is the one the manifest speaks of.

    Raises:
        ArtifactError: It is missing, truncated or altered.
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
