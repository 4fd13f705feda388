"""Reads `manifest.json`, which describes a folder of records and is written last."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.records.features import Feature, from_json

FORMAT = 2
FILE = "manifest.json"


@dataclass(frozen=True)
class Shard:
    """An entry of the manifest for a finished record file.

    Attributes:
        path: The file's path, relative to the folder of the manifest.
        split: `"train"` or `"validation"`.
        records: The number of records.
        bytes: The size of the file.
        sha256: The SHA-256 of the file.
        sequence_length: Tokens per record; the number differs between the shards of a
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


@dataclass(frozen=True)
class Manifest:
    """The manifest of a folder of records.

    Attributes:
        folder: The folder of the manifest.
        features: The features of a record; in a bucketed data set, the features of the
            longest records.
        shards: The entries of the record files, sorted by path.
        vocabulary: The vocabulary's `size`, and the tokenizer's `fingerprint`.
        counts: The numbers of documents, tokens and records, by stage and reason.
        buckets: The features of a bucketed data set, by the length of the records; else
            empty.
        source_parts: For each file of the corpus, by name, the index of its source in
            `corpus_files.list_sources`; empty for records of earlier versions.
    """

    folder: Path
    features: tuple[Feature, ...]
    shards: tuple[Shard, ...]
    vocabulary: Mapping[str, Any]
    counts: Mapping[str, Any]
    buckets: Mapping[int, tuple[Feature, ...]] = field(default_factory=dict)
    source_parts: Mapping[str, int] = field(default_factory=dict)

    def features_of(self, shard: Shard) -> tuple[Feature, ...]:
        """Returns the features of a shard's records."""
        return self.buckets.get(shard.sequence_length, self.features)

    @property
    def has_validation(self) -> bool:
        """True if there are validation records."""
        return any(s.split == "validation" and s.records for s in self.shards)

    def split(self, name: str) -> list[Shard]:
        """Returns the non-empty shards of a split.

        Without validation records, the first training shard is used as the validation
        split. Metrics on training records do not measure generalization.

        Raises:
            ArtifactError: The split has no record.
        """
        shards = [s for s in self.shards if s.split == name and s.records]
        if name == "validation" and not shards:
            shards = self.split("train")[:1]
        if not shards:
            raise ArtifactError(
                f"{self.folder / FILE}: the {name} split has no record. Give the "
                "corpus more documents"
            )
        return shards

    def check_files(self) -> None:
        """Verifies the checksum of every shard; see `check_shard`."""
        for shard in self.shards:
            check_shard(self.folder, shard)


def read_manifest(folder: Path) -> Manifest:
    """Reads the manifest of a folder of records.

    Raises:
        ArtifactError: The manifest is missing, truncated, or of another format version.
    """
    path = folder / FILE
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ArtifactError(
            f"{path}: missing: the data job has not finished here. Run "
            "`transbeam data CONFIG`"
        ) from None
    except ValueError as error:
        raise ArtifactError(f"{path}: not a whole JSON file ({error})") from error
    if (found := content.get("format")) != FORMAT:
        raise ArtifactError(
            f"{path}: format {found!r}, this version of Transbeam reads {FORMAT}"
        )
    return Manifest(
        folder=folder,
        features=from_json(content["features"]),
        shards=tuple(Shard(**row) for row in content["shards"]),
        vocabulary=content["vocabulary"],
        counts=content["counts"],
        buckets={
            bucket["sequence_length"]: from_json(bucket["features"])
            for bucket in content["buckets"]
        },
        source_parts={
            file["name"]: file["part"] for file in content["sources"] if "part" in file
        },
    )
