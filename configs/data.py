"""`data`: where the text comes from and how it becomes records."""

from dataclasses import dataclass

from configs.cleaning import CleaningConfig
from configs.fields import option
from configs.sources import Source


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """From the corpus to packed records of a fixed length."""

    source: Source = option("Where the text comes from.")
    cleaning: CleaningConfig = option(
        "Which documents to keep.", default=CleaningConfig
    )
    validation_fraction: float = option(
        "Share of the documents, by hash of their text, held out for validation.",
        default=0.05,
        minimum=0.0,
        maximum=0.5,
    )
    sequence_length: int = option("Tokens per record.", default=128, minimum=8)
    shard_megabytes: float = option(
        "Source megabytes (10^6 bytes) that make one shard.",
        default=4.0,
        minimum=0.001,
    )
    maximum_quarantine_fraction: float = option(
        "The job stops when more than this share of the input is quarantined.",
        default=0.01,
        minimum=0.0,
        maximum=1.0,
    )
