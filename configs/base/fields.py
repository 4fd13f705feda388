"""Declaration of a configuration key: its default and its range."""

import dataclasses
import math
from numbers import Real
from typing import Any

from transbeam.configs.base.errors import ConfigError

REQUIRED = dataclasses.MISSING


def option(
    default: Any = REQUIRED,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    doc: str | None = None,
) -> Any:
    """Declares a configuration key that has more than a default, such as a range.

    The key's description for `transbeam explain` is the string literal below the key:
    one or a few sentences. A unit of measurement is given there and in the key's name.

    Args:
        default: The value if the key is left out. Without a default the key is
            required. A mutable or nested default is given as a zero-argument callable.
        minimum: Smallest allowed value (numbers only), inclusive.
        maximum: Largest allowed value (numbers only), inclusive.
        doc: The description of a key that several sections share.

    Example:
    >>> @dataclasses.dataclass(frozen=True, kw_only=True)
    ... class Section:
    ...     num_layers: int = option(4, minimum=1)
    ...     '''Number of blocks.'''
    >>> Section().num_layers
    4
    """
    metadata = {"doc": doc, "minimum": minimum, "maximum": maximum}
    if default is REQUIRED:
        return dataclasses.field(metadata=metadata)
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def range_text(minimum: float | None, maximum: float | None) -> str:
    """Describes the values that a key may have.

    Example:
    >>> range_text(1, None), range_text(0.0, 0.99), range_text(None, 5)
    ('at least 1', 'from 0.0 to 0.99', 'at most 5')
    """
    if minimum is not None and maximum is not None:
        return f"from {minimum} to {maximum}"
    if minimum is not None:
        return f"at least {minimum}"
    return f"at most {maximum}" if maximum is not None else ""


def check_options(section: Any) -> None:
    """Checks the ranges of numbers in a section that was constructed in Python.

    For values from a YAML file, the loader has already checked the ranges and reported
    the line. The dataclasses of sections call this function in their `__post_init__`.

    Raises:
        ConfigError: A number is not finite, or not between its `minimum` and `maximum`.

    Example:
    >>> @dataclasses.dataclass(frozen=True, kw_only=True)
    ... class Section:
    ...     num_layers: int = option(4, minimum=1)
    ...     __post_init__ = check_options
    >>> Section(num_layers=0)
    Traceback (most recent call last):
    ConfigError: num_layers=0 is out of range: it must be at least 1
    """
    for key in dataclasses.fields(section):
        value = getattr(section, key.name)
        if isinstance(value, bool) or not isinstance(value, Real):
            continue
        if not math.isfinite(value):
            raise ConfigError(f"{key.name}={value} is not finite")
        minimum, maximum = key.metadata.get("minimum"), key.metadata.get("maximum")
        too_small = minimum is not None and value < minimum
        if too_small or (maximum is not None and value > maximum):
            raise ConfigError(
                f"{key.name}={value} is out of range: it must be "
                f"{range_text(minimum, maximum)}"
            )
