"""`objective`: what a language model without labels is asked to predict."""

import math
from dataclasses import dataclass
from typing import Literal

from configs.errors import ConfigError
from configs.fields import option


@dataclass(frozen=True, kw_only=True)
class MaskedConfig:
    """Masked language modelling (BERT): some tokens are hidden and asked for."""

    kind: Literal["masked"] = "masked"
    masking_fraction: float = option(
        "Share of a record's ordinary tokens that are asked for.",
        default=0.15,
        minimum=0.01,
        maximum=0.9,
    )
    mask_fraction: float = option(
        "Share of the asked-for tokens shown as [MASK].",
        default=0.8,
        minimum=0.0,
        maximum=1.0,
    )
    random_fraction: float = option(
        "Share of the asked-for tokens shown as a random piece; the rest is shown "
        "as it is.",
        default=0.1,
        minimum=0.0,
        maximum=1.0,
    )

    def __post_init__(self) -> None:
        if self.mask_fraction + self.random_fraction > 1.0 + 1e-9:
            raise ConfigError(
                f"mask_fraction={self.mask_fraction} and "
                f"random_fraction={self.random_fraction} add up to more than 1"
            )

    def predictions_per_record(self, sequence_length: int) -> int:
        """The fixed number of slots for asked-for tokens in a record.

        Example:
        >>> MaskedConfig().predictions_per_record(128)
        20
        """
        return math.ceil(self.masking_fraction * sequence_length)
