"""`data.deduplication`: removal of exact and near duplicates."""

from dataclasses import dataclass

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option


@dataclass(frozen=True, kw_only=True)
class NearDuplicatesConfig:
    """When two documents are so alike that one of them is enough.

    A document is represented by the set of its shingles, sequences of a few words. The
    similarity of two documents is the Jaccard index of their sets.
    """

    similarity: float = option(
        "From which similarity on documents are near duplicates: the share of their "
        "shingles, runs of words, that both have (Jaccard), as estimated.",
        default=0.8,
        minimum=0.3,
        maximum=1.0,
    )
    shingle_words: int = option(
        "Words in a shingle. More words: only literal copies of long stretches count.",
        default=5,
        minimum=1,
        maximum=100,
    )
    num_hashes: int = option(
        "MinHash values that a document's similarity is estimated by, 4 bytes each. "
        "The estimate's standard deviation is sqrt(s * (1 - s) / num_hashes).",
        default=128,
        minimum=16,
        maximum=1024,
    )


@dataclass(frozen=True, kw_only=True)
class DeduplicationConfig:
    """Documents that are dropped because another one says the same.

    Of a group of duplicates one document is kept: one held out for validation, if there
    is any, and of several the one with the smallest hash.
    """

    exact: bool = option(
        "Drop documents that are the same as another, labels and all.", default=True
    )
    near: NearDuplicatesConfig | None = option(
        "Drop documents that are nearly the same as another; for objectives on text "
        "alone. Left out: they stay; `{}` takes the defaults below.",
        default=None,
    )

    def __post_init__(self) -> None:
        if self.near and not self.exact:
            raise ConfigError(
                "exact: false would keep the literal copies of a text while `near` "
                "drops those that differ a little. Take `exact` away, or `near`"
            )
