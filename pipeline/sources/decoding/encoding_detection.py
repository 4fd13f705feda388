"""Detects a file's encoding from its bytes, with a confidence.

The algorithm, with the same result on every machine:

1. A byte order mark determines the encoding, and so do escape sequences of ISO 2022.
2. Bytes that are valid UTF-8 are UTF-8: text in another encoding is hardly ever valid
   UTF-8, except UTF-16 without a byte order mark, which contains many NULs.
3. For all other encodings `chardet` scores how well the bytes fit its language models.
   Implausible decodings, for example with symbols between letters, are excluded. The
   best decoding is used if its score is high enough and far enough above the score of
   the next decoding that has a different text, and if it is also the best decoding of
   the non-ASCII lines alone; otherwise detection fails.

chardet sums integers and divides once, so its scores do not depend on the machine.
"""

import codecs
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from transbeam.configs.base.encodings import DETECT, check_encoding
from transbeam.configs.base.errors import ConfigError

THRESHOLD = 0.5
# Below these scores, texts in languages without a model are misdetected; short texts
# have lower scores. Measured by `python -m bench.encodings`.
_LOWEST_SCORE, _LOWEST_SCORE_IF_SHORT, _SHORT_BYTES = 0.25, 0.14, 1000
_LOWEST_LEAD = 0.1
_MOST_ODD = 0.05
_EVIDENCE_BYTES = 1 << 16
_ASCII = bytes(range(128))
# Supersets of encodings that files labeled as the subset often use, by Python's names.
_SUPERSETS = {
    "ascii": "utf-8",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
    "iso8859-11": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
# UTF-32's mark begins with that of UTF-16, so it is tested first.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Sequences that switch to another character set: RFC 1468, RFC 1557 and similar ones.
_ISO_2022 = re.compile(rb"\x1b(?:\$[@AB]|\$\([@-D]|\([IJ]|\$\)C)")
_CONTROLS = re.compile(r"[\x80-\x9f]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


class Detection(NamedTuple):
    """A codec and the confidence in it, from 0 to 1.

    Results above `THRESHOLD` are accepted. The confidence is 1 for byte order marks and
    UTF-8.
    """

    codec: str
    confidence: float


class _Reading(NamedTuple):
    codec: str
    score: float
    text: str


def bom_codec(sample: bytes) -> str | None:
    """Returns the codec of the sample's byte order mark, or None."""
    return next((codec for mark, codec in _MARKS if sample.startswith(mark)), None)


def is_plain_ascii(sample: bytes) -> bool:
    """Returns whether bytes are plain ASCII, the same text in nearly all encodings."""
    return sample.isascii() and not _ISO_2022.search(sample) and not wide_codec(sample)


def detect(sample: bytes, *, cut: bool = False) -> Detection:
    r"""Detects the encoding by the algorithm of this module.

    Args:
        sample: The bytes of a file, or the first bytes of a file.
        cut: Whether the sample may end within a character.

    Raises:
        UnicodeDecodeError: The encoding is uncertain.

    Example:
    >>> detect("naïve".encode("utf-8"))
    Detection(codec='utf-8', confidence=1.0)
    >>> detect("吾輩は猫である。名前はまだ無い。".encode("shift_jis")).codec
    'cp932'
    """
    if codec := bom_codec(sample):
        return Detection(codec, 1.0)
    is_iso_2022 = sample.isascii() and _ISO_2022.search(sample)
    if not is_iso_2022 and _text(sample, "utf-8", cut) is not None:
        return Detection(wide_codec(sample) or "utf-8", 1.0)
    stretch, lines = _evidence(sample)
    best, second = _best_two(stretch)
    if best is None or _text(sample, best.codec, cut) is None:
        raise _uncertain(sample, "no encoding makes it text")
    confidence = _confidence(best, second, len(stretch))
    other = f" or {second.codec}" if second else ""
    if lines != stretch and confidence >= THRESHOLD:
        best_of_lines, _ = _best_two(lines)
        if not best_of_lines or best_of_lines.text != _text(lines, best.codec, True):
            confidence = 0.0
            other = f" or {best_of_lines.codec}" if best_of_lines else ""
    if confidence < THRESHOLD:
        what = f"it may be {best.codec}{other}: confidence {confidence:.2f}"
        raise _uncertain(sample, what)
    return Detection(_superset(best.codec, sample, cut), confidence)


def _uncertain(sample: bytes, what: str) -> UnicodeDecodeError:
    return UnicodeDecodeError(DETECT, sample, 0, len(sample), what)


def _text(sample: bytes, codec: str, cut: bool) -> str | None:
    try:
        return codecs.getincrementaldecoder(codec)().decode(sample, final=not cut)
    except UnicodeError:
        return None


def _superset(codec: str, sample: bytes, cut: bool) -> str:
    """Returns a codec's superset if both decode the sample alike, else the codec."""
    larger = _SUPERSETS.get(codec, codec)
    same = _text(sample, larger, cut) == _text(sample, codec, cut)
    return larger if same else codec


def wide_codec(sample: bytes) -> str | None:
    """Detects UTF-16 or UTF-32 without a byte order mark, by NUL bytes."""
    if b"\0" not in sample:
        return None
    best, _ = _best_two(sample[:_EVIDENCE_BYTES])
    return best.codec if best and best.codec.startswith(("utf-16", "utf-32")) else None


def _evidence(sample: bytes) -> tuple[bytes, bytes]:
    """Returns a non-ASCII part of the sample, and the non-ASCII lines of this part.

    ASCII is the same in nearly all encodings, and may be most of a text. Lines from the
    rest of the sample are appended if they contain byte values that did not occur
    before.
    """
    if sample.isascii() or b"\0" in sample:  # ISO 2022, or UTF-16 without a mark
        return sample[:_EVIDENCE_BYTES], sample[:_EVIDENCE_BYTES]
    first = len(sample) - len(sample.lstrip(_ASCII))
    start = sample.rfind(b"\n", 0, first) + 1
    end = sample.find(b"\n", start + _EVIDENCE_BYTES) + 1 or len(sample)
    stretch = sample[start:end]
    known = set(_ASCII + stretch)
    for line in sample[end:].splitlines(keepends=True):
        if new := set(line) - known:
            known |= new
            stretch += line
    lines = [line for line in stretch.splitlines(keepends=True) if not line.isascii()]
    return stretch, b"".join(lines)


def _best_two(evidence: bytes) -> tuple[_Reading | None, _Reading | None]:
    """Returns the best decoding, and the best plausible one with a different text."""
    readings = _readings(evidence)
    best = next(readings, None)
    rivals = (reading for reading in readings if best and _is_rival(best, reading))
    return best, next(rivals, None)


def _is_rival(best: _Reading, other: _Reading) -> bool:
    """Returns whether a second decoding is plausible where the two texts differ."""
    if best.text == other.text:
        return False
    indices = _differences(best.text, other.text)
    return (
        implausible_share(other.text, indices) < 0.5
        or implausible_share(best.text, indices) > 0
    )


def _readings(evidence: bytes) -> Iterator[_Reading]:
    """Yields the plausible decodings of bytes, best first."""
    # Imported late: most corpora do not need it, and it takes 20 ms.
    import chardet

    found = chardet.detect_all(
        evidence,
        ignore_threshold=True,
        max_bytes=len(evidence),
        compat_names=False,
    )
    is_odd: dict[str, bool] = {}
    lowest = 0.0
    for row in found:
        codec, score = row["encoding"], row["confidence"]
        if score < lowest:
            return
        if not codec or (text := _text(evidence, codec, cut=True)) is None:
            continue
        try:
            check_encoding(codec)
        except ConfigError:
            continue  # EBCDIC, whose line ends are ambiguous
        if text not in is_odd:
            share = implausible_share(
                text, [m.start() for m in _NOT_ASCII.finditer(text)]
            )
            is_odd[text] = bool(_CONTROLS.search(text)) or share > _MOST_ODD
        if not is_odd[text]:
            lowest = lowest or score / 2  # lower scores have no effect
            yield _Reading(codec, score, text)


def _confidence(best: _Reading, second: _Reading | None, size: int) -> float:
    """Returns the lower confidence: by the best score, or by its lead over the next."""
    lowest = _LOWEST_SCORE if size >= _SHORT_BYTES else _LOWEST_SCORE_IF_SHORT
    fit = best.score / (best.score + lowest)
    if second is None:
        return fit
    # Texts that differ in few characters have similar scores, so the lead is divided by
    # the number of differing characters.
    indices = _differences(best.text, second.text)
    if all(_may_be_a_symbol(best.text, second.text, at) for at in indices):
        return 0.0
    lead = (1 - second.score / best.score) * size / len(indices)
    return min(fit, lead / (lead + _LOWEST_LEAD))


def _may_be_a_symbol(text: str, other: str, at: int) -> bool:
    """Returns whether an isolated letter, as œ, is not a letter in `other`, as ½."""
    around = text[max(at - 1, 0) : at] + text[at + 1 : at + 2]
    is_alone = not any(map(str.isalpha, around))
    return text[at].isalpha() and is_alone and not other[at].isalpha()


def _differences(one: str, other: str) -> Sequence[int]:
    """Returns the indices at which two texts differ; all if their lengths differ."""
    if len(one) != len(other):
        return range(min(len(one), len(other)))
    return [at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]


def implausible_share(text: str, indices: Sequence[int]) -> float:
    """Computes the share of implausible characters at the given indices of a text.

    Example:
    >>> implausible_share("donÆt", [3]), implausible_share("c½ur déjà", [1, 6])
    (1.0, 0.5)
    """
    odd = 0
    for at in indices:
        odd += _is_odd(text[max(at - 1, 0) : at], text[at], text[at + 1 : at + 2])
    return odd / len(indices) if indices else 0.0


@lru_cache(1 << 16)
def _is_odd(before: str, character: str, after: str) -> bool:
    """Returns whether a character suggests a wrong codec.

    Unassigned characters suggest a wrong codec. Inside a word, so do symbols, and
    uppercase letters between lowercase letters.
    """
    category = unicodedata.category(character)
    if category in ("Cn", "Co"):
        return True
    if character == "¶" and after.isalpha():
        return True  # not a pilcrow, but a Greek word in ISO 8859-7
    if not (_is_of_a_word(before) and _is_of_a_word(after)):
        return False
    if category == "Lu":
        return before.islower() and after.islower()
    return _is_symbol(character)


def _is_of_a_word(character: str) -> bool:
    # Two bytes of one character are decoded to two adjacent symbols.
    return character.isalpha() or (not character.isascii() and _is_symbol(character))


def _is_symbol(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] == "S" or category == "No" or character in "¡¿¶§†‡•‰"
