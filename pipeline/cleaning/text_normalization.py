"""Normalizes texts: line ends, edges, Unicode forms, control characters."""

import re
import unicodedata
from typing import Literal

from transbeam.configs.schema.cleaning import CleaningConfig

# C0 without tab and line feed, DEL, and C1: texts do not need them.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_EDGES = "\ufeff \t\n"
_FORMS: dict[str, Literal["NFC", "NFKC"]] = {"nfc": "NFC", "nfkc": "NFKC"}


def mended(text: str, config: CleaningConfig) -> str:
    r"""Normalizes line ends to `\n`, strips blank edges and BOM, and applies the rules.

    Example:
    >>> mended("ﬁne\x07\r\n", CleaningConfig(normalization="nfkc"))
    'fine\x07'
    >>> mended("a\x07b\tc", CleaningConfig(control_characters="remove"))
    'ab\tc'
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if config.normalization != "none":
        text = unicodedata.normalize(_FORMS[config.normalization], text)
    if config.control_characters == "remove":
        text = _CONTROLS.sub("", text)
    return text.strip(_EDGES)
