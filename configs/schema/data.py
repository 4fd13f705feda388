"""`data`: the corpus, its filters, and the format of the records."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option
from transbeam.configs.schema.cleaning import CleaningConfig
from transbeam.configs.schema.sources import Source, check_weights


@dataclass(frozen=True, kw_only=True)
class PackedLayoutConfig:
    """Packing: several documents per record, with little padding."""

    kind: Literal["packed"] = "packed"


@dataclass(frozen=True, kw_only=True)
class BucketedLayoutConfig:
    """One document per record, in buckets by length; not for all objectives.

    Bucketed records support the objectives `masked`, `causal`, `prefix` and
    `contrastive_pairs`, and classification and regression of texts, pairs and tokens. A
    document is put into the shortest record that it fits into; a document that is
    longer than all records is truncated.
    """

    kind: Literal["bucketed"] = "bucketed"
    lengths: tuple[int, ...]
    """Tokens per record, ascending; the last is data.sequence_length. A document goes
    into the shortest record that holds it; longer ones are truncated.
    """

    def __post_init__(self) -> None:
        ascending = all(short < long for short, long in pairwise(self.lengths))
        if not self.lengths or self.lengths[0] < 4 or not ascending:
            raise ConfigError(
                f"lengths={list(self.lengths)}: expected ascending numbers from 4 on, "
                "such as [32, 64, 128]"
            )


Layout = PackedLayoutConfig | BucketedLayoutConfig


@dataclass(frozen=True, kw_only=True)
class NearDuplicatesConfig:
    """Near-duplicate detection with MinHash.

    A document is represented by the set of its shingles, sequences of a few words. The
    similarity of two documents is the Jaccard index of their sets of shingles.
    """

    similarity: float = option(0.8, minimum=0.3, maximum=1.0)
    """Smallest estimated Jaccard similarity of near duplicates: the share of shingles
    (word n-grams) that two documents have in common.
    """

    shingle_words: int = option(5, minimum=1, maximum=100)
    """Words per shingle. With more words only long verbatim copies count."""

    num_hashes: int = option(128, minimum=16, maximum=1024)
    """Number of MinHash values per document, 4 bytes each. The standard deviation of
    the estimated similarity s is sqrt(s * (1 - s) / num_hashes).
    """


@dataclass(frozen=True, kw_only=True)
class DeduplicationConfig:
    """Removal of exact and near-duplicate documents.

    One document of each group of duplicates is kept: a validation document, if the
    group contains one. Among several, the first in the order of the sources is kept of
    exact duplicates, and the one with the smallest hash of near duplicates.
    """

    exact: bool = True
    """Drop exact duplicates: documents with equal text and labels."""

    near: NearDuplicatesConfig | None = None
    """Drop near duplicates; only for objectives without labels or targets. Left out:
    near duplicates are kept; `{}` uses the defaults below.
    """

    def __post_init__(self) -> None:
        if self.near and not self.exact:
            raise ConfigError(
                "exact: false would keep the literal copies of a text while `near` "
                "drops those that differ a little. Remove `exact`, or `near`"
            )


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Corpus, cleaning, deduplication and the format of the records."""

    source: Source
    """Source of the documents."""

    validation_source: Source | None = None
    """Source of all validation documents: `source` is then used for training only,
    without the documents that occur here. Left out: `validation_fraction` of `source`
    is held out.
    """

    cleaning: CleaningConfig = option(CleaningConfig)
    """Normalization and filters of the documents."""

    deduplication: DeduplicationConfig = option(DeduplicationConfig)
    """Removal of duplicate documents."""

    validation_fraction: float = option(0.05, minimum=0.0, maximum=0.5)
    """Share of the documents held out for validation, selected by hash of their
    content. No effect where `validation_source` is set.
    """

    sequence_length: int = option(128, minimum=8)
    """Tokens per record, special ones included."""

    layout: Layout = option(PackedLayoutConfig)
    """Layout of documents in records."""

    shard_megabytes: float = option(4.0, minimum=0.001)
    """Megabytes (10^6 bytes) of source per shard; the source makes more shards if it
    decompresses to more than twice that in text.
    """

    compression: Literal["none", "gzip"] = "none"
    """Compression of the shards."""

    maximum_quarantine_fraction: float = option(0.01, minimum=0.0, maximum=1.0)
    """Largest share of unusable input, of documents or of bytes, whichever is larger;
    above it the job stops with an error.
    """

    accept_incomplete_files: bool = False
    """Use the readable part of truncated or damaged files. Otherwise such a file stops
    the job with an error.
    """

    def __post_init__(self) -> None:
        check_weights("validation_source", self.validation_source)
        layout = self.layout
        if not isinstance(layout, BucketedLayoutConfig):
            return
        if layout.lengths[-1] != self.sequence_length:
            raise ConfigError(
                f"sequence_length={self.sequence_length} is not the last of "
                f"layout.lengths={list(layout.lengths)}: make them the same"
            )
