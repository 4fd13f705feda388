"""The rule of splits for a single document, as the docs tell it."""


def split_of(key: int, validation_fraction: float) -> str:
    """Whoever is below the fraction of all 64-bit numbers is held out."""
    return "validation" if key < validation_fraction * 2.0**64 else "train"
