"""Replaces personal data, found by regular expressions, by tags such as `<email>`."""

import functools
import importlib
import ipaddress
import re
from collections.abc import Callable

from transbeam.configs.base.errors import ConfigError, DataError
from transbeam.configs.schema.cleaning import PersonalDataConfig

_EMAIL = re.compile(r"\b[\w.+-]+@(?:[\w-]+\.)+[a-zA-Z]{2,}\b")
# International with a plus, or North American; others look like ordinary numbers.
_PHONE = re.compile(
    r"(?<![\w.])(?:\+\d{1,3}[ .-]?(?:\(?\d{1,4}\)?[ .-]?){2,5}\d{2,4}"
    r"|\(?\d{3}\)?[ .-]\d{3}[.-]\d{4})(?![\w-])"
)
_IP = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]\w)")


def without_personal_data(text: str, rules: PersonalDataConfig) -> str:
    """Replaces the personal data that the rules select.

    Raises:
        ConfigError: The configured hook function cannot be imported.
        DataError: The configured hook function fails, or does not return a text.

    Example:
    >>> text = "Write to ann@example.com or call +44 20 7946 0958, from 8.8.8.8."
    >>> without_personal_data(text, PersonalDataConfig())
    'Write to <email> or call <phone>, from <ip>.'
    """
    if rules.emails and "@" in text:
        text = _EMAIL.sub("<email>", text)
    if rules.ip_addresses:
        text = _IP.sub(_public_address, text)
    if rules.phone_numbers:
        text = _PHONE.sub("<phone>", text)
    return _call(rules.hook, text) if rules.hook else text


def _public_address(match: re.Match[str]) -> str:
    """Replaces only public IP addresses; others may be version numbers."""
    try:
        return "<ip>" if ipaddress.ip_address(match[0]).is_global else match[0]
    except ValueError:
        return match[0]


def _call(name: str, text: str) -> str:
    try:
        result = _hook(name)(text)
    except ConfigError:
        raise
    except Exception as error:
        raise DataError(
            f"data.cleaning.personal_data.hook: {name} failed on a text of "
            f"{len(text)} characters: {type(error).__name__}: {error}. Fix the "
            "function; it must take every text"
        ) from error
    if not isinstance(result, str):
        raise DataError(
            f"data.cleaning.personal_data.hook: {name} returned "
            f"{type(result).__name__}, expected a text. Fix the function"
        )
    return result


@functools.cache
def _hook(name: str) -> Callable[[str], str]:
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"data.cleaning.personal_data.hook: {name} cannot be imported: {error}. "
            "Install its package where the workers run, or fix the name"
        ) from error
