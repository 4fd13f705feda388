"""`data.deduplication`: removal of exact and near duplicates."""

from dataclasses import dataclass

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option


@dataclass(frozen=True, kw_only=True)
class NearDuplicatesConfig:
    """Near-duplicate detection with MinHash.

    A document is represented by the set of its shingles, sequences of a few words. The
    similarity of two documents is the Jaccard index of their sets.
    """

    similarity: float = option(
        "Smallest estimated Jaccard similarity of near duplicates: the share of "
        "shingles (word n-grams) that two documents have in common.",
        default=0.8,
        minimum=0.3,
        maximum=1.0,
    )
    shingle_words: int = option(
        "Words per shingle. With more words only long verbatim copies count.",
        default=5,
        minimum=1,
        maximum=100,
    )
    num_hashes: int = option(
        "Number of MinHash values per document, 4 bytes each. The standard deviation "
        "of the estimated similarity s is sqrt(s * (1 - s) / num_hashes).",
        default=128,
        minimum=16,
        maximum=1024,
    )


@dataclass(frozen=True, kw_only=True)
class DeduplicationConfig:
    """Removal of exact and near-duplicate documents.

    One document of each group of duplicates is kept: one of the validation split, if
    there is any; among several, the one with the smallest hash.
    """

    exact: bool = option(
        "Drop exact duplicates: documents with equal text and labels.", default=True
    )
    near: NearDuplicatesConfig | None = option(
        "Drop near duplicates; only for objectives without labels or targets. Left "
        "out: near duplicates are kept; `{}` uses the defaults below.",
        default=None,
    )

    def __post_init__(self) -> None:
        if self.near and not self.exact:
            raise ConfigError(
                "exact: false would keep the literal copies of a text while `near` "
                "drops those that differ a little. Take `exact` away, or `near`"
            )
