"""How a configuration key is declared: its default, its range and its one-line help."""

import dataclasses
from typing import Any

REQUIRED = dataclasses.MISSING


def option(
    doc: str,
    *,
    default: Any = REQUIRED,
    minimum: float | None = None,
    maximum: float | None = None,
) -> Any:
    """Declares one key of a configuration section.

    Args:
        doc: One sentence for `transbeam explain`; units belong here and in the name.
        default: The value when the key is left out. Without one the key is required.
            A mutable or nested default is given as a zero-argument callable.
        minimum: Smallest value allowed (numbers only), itself included.
        maximum: Largest value allowed (numbers only), itself included.

    Example:
    >>> @dataclasses.dataclass(frozen=True, kw_only=True)
    ... class Section:
    ...     num_layers: int = option("How many blocks.", default=4, minimum=1)
    >>> Section().num_layers
    4
    """
    metadata = {"doc": doc, "minimum": minimum, "maximum": maximum}
    if default is REQUIRED:
        return dataclasses.field(metadata=metadata)
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)
