"""`data.cleaning`: which documents are worth keeping."""

from dataclasses import dataclass

from configs.fields import option


@dataclass(frozen=True, kw_only=True)
class CleaningConfig:
    """Which documents are worth keeping. What is dropped is counted by its reason."""

    minimum_characters: int = option(
        "Shorter documents are dropped.", default=1, minimum=1
    )
    maximum_characters: int = option(
        "Longer documents go to quarantine.", default=10_000_000, minimum=1
    )
