"""`data.layout`: packed records, or buckets by length."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option


@dataclass(frozen=True, kw_only=True)
class PackedLayoutConfig:
    """Packing: several documents per record, with little padding."""

    kind: Literal["packed"] = "packed"


@dataclass(frozen=True, kw_only=True)
class BucketedLayoutConfig:
    """One document per record, in buckets by length; not for all objectives.

    For `masked`, `causal` and `prefix`, and for classification and regression of texts,
    pairs and tokens. A document goes into the shortest record that holds it; one longer
    than all is truncated.
    """

    kind: Literal["bucketed"] = "bucketed"
    lengths: tuple[int, ...] = option(
        "Tokens per record, ascending; the last is data.sequence_length. A document "
        "goes into the shortest record that holds it; longer ones are truncated."
    )

    def __post_init__(self) -> None:
        ascending = all(short < long for short, long in pairwise(self.lengths))
        if not self.lengths or self.lengths[0] < 4 or not ascending:
            raise ConfigError(
                f"lengths={list(self.lengths)}: expected ascending numbers from 4 on, "
                "such as [32, 64, 128]"
            )


Layout = PackedLayoutConfig | BucketedLayoutConfig
