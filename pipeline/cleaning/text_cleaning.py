"""Cleans a document's text and applies the filters."""

import re
import unicodedata
from typing import Literal

from transbeam.configs.schema.cleaning import CleaningConfig
from transbeam.pipeline.cleaning.c4_filters import keep_lines, placeholder_reason
from transbeam.pipeline.cleaning.gopher_quality import quality_reason
from transbeam.pipeline.cleaning.gopher_repetition import repetition_reason
from transbeam.pipeline.cleaning.language_identification import language_reason
from transbeam.pipeline.cleaning.pii import without_personal_data
from transbeam.pipeline.cleaning.unicode_scripts import script_reason

# C0 without tab and line feed, DEL, and C1: texts do not need them.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_EDGES = "\ufeff \t\n"
_FORMS: dict[str, Literal["NFC", "NFKC"]] = {"nfc": "NFC", "nfkc": "NFKC"}


def clean_text(text: str, config: CleaningConfig) -> str:
    r"""Normalizes a text, replaces personal data and drops lines, as configured.

    Example:
    >>> clean_text("\ufeff one\r\ntwo \n", CleaningConfig())
    'one\ntwo'
    """
    text = normalize_text(text, config)
    if config.personal_data:
        text = without_personal_data(text, config.personal_data)
    return keep_lines(text, config.lines) if config.lines else text


def filter_reason(text: str, config: CleaningConfig) -> str | None:
    """Returns the reason to drop a cleaned text, or None to keep it.

    Example:
    >>> filter_reason("", CleaningConfig())
    'empty'
    >>> filter_reason("ok", CleaningConfig(minimum_characters=10))
    'shorter than 10 characters'
    """
    if not text or text.isspace():
        return "empty"
    if len(text) < config.minimum_characters:
        return f"shorter than {config.minimum_characters} characters"
    return (
        (config.lines and placeholder_reason(text, config.lines))
        or (config.scripts and script_reason(text, config.scripts))
        or (config.languages and language_reason(text, config.languages))
        or (config.quality and quality_reason(text, config.quality))
        or (config.repetition and repetition_reason(text, config.repetition))
        or None
    )


def quarantine_reason(text: str, config: CleaningConfig) -> str | None:
    """Returns the reason to quarantine a raw text for review, or None.

    Example:
    >>> quarantine_reason("a" + chr(0), CleaningConfig())
    'contains NUL, so it is binary'
    """
    if "\0" in text:
        return "contains NUL, so it is binary"
    if len(text) > config.maximum_characters:
        return f"longer than {config.maximum_characters} characters"
    if not text.isascii() and _has_surrogate(text):
        return "contains a lone surrogate, which has no UTF-8 form"
    return None


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def normalize_text(text: str, config: CleaningConfig) -> str:
    r"""Normalizes line ends to `\n`, strips white space and BOM, and applies the rules.

    Example:
    >>> normalize_text("ﬁne\x07\r\n", CleaningConfig(normalization="nfkc"))
    'fine\x07'
    >>> normalize_text("a\x07b\tc", CleaningConfig(control_characters="remove"))
    'ab\tc'
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if config.normalization != "none":
        text = unicodedata.normalize(_FORMS[config.normalization], text)
    if config.control_characters == "remove":
        text = _CONTROLS.sub("", text)
    return text.strip(_EDGES)
