"""Measures how often `encoding: detect` is right, on messages of programs.

    pip install --no-deps django==5.2.19 sphinx==9.0.4
    python -m bench.encodings [--peer]

Messages of both packages, shuffled, are written in a legacy code page until they are as
long as wanted; messages that the code page cannot write are left out. A guess is right
if it decodes to the same text. "Refused" is what the data job puts into quarantine.
`--peer` asks charset-normalizer the same; it has no confidence to refuse by.
"""

import argparse
import random
import struct
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from bench.pairs import heading, row
from transbeam.pipeline.sources.decoding.encoding_detection import detect

SIZES = (200, 600, 2_000, 6_000, 20_000)
TEXTS = 3  # of each size
CODE_PAGES = {
    "cp1250": "pl cs hu sk ro hr sl",
    "cp1251": "ru uk bg sr mk be",
    "cp1252": "fr de es it pt nl sv da fi nb is ca",
    "cp1253": "el",
    "cp1254": "tr",
    "cp1255": "he",
    "cp1256": "ar fa",
    "cp1257": "lt lv et",
    "cp1258": "vi",
    "cp874": "th",
    "cp866": "ru",
    "koi8-r": "ru",
    "koi8-u": "uk",
    "iso8859-1": "de es pt sv",
    "iso8859-2": "pl cs hu",
    "iso8859-5": "ru bg",
    "iso8859-7": "el",
    "iso8859-9": "tr",
    "iso8859-15": "fr fi",
    "mac-roman": "fr de es",
    "cp850": "fr de",
    "cp852": "pl cs hu",
    "shift_jis": "ja",
    "euc_jp": "ja",
    "iso2022_jp": "ja",
    "gb18030": "zh_Hans zh_CN",
    "big5": "zh_Hant zh_TW",
    "euc_kr": "ko",
    # Languages that chardet has no model of, or that are nearly ASCII: what matters
    # is that none of them is taken for another.
    "cp1252, no model": "sq eu af sw fy lb ga gl nn br cy",
    "cp1250, no model": "sq tk bs hsb dsb",
    "cp1254, no model": "az uz",
    "cp1251, no model": "ky mn tt tg",
    "cp1256, no model": "ur ug ckb",
}
# Windows-1258 has Vietnamese tone marks as characters of their own.
TONES = "\u0300\u0301\u0303\u0309\u0323"


def main() -> None:
    """Prints a row for each code page: right, refused and wrong."""
    parser = argparse.ArgumentParser(prog="bench.encodings", description=__doc__)
    parser.add_argument("--peer", action="store_true")
    guess = charset_normalizer if parser.parse_args().peer else ours
    print(heading("code page, languages", "right", "refused", "wrong", "ms"))
    everything: Counter[str] = Counter()
    for code_page, languages in CODE_PAGES.items():
        counts: Counter[str] = Counter()
        codec = code_page.partition(",")[0]
        seconds = 0.0
        for text in texts(codec, languages.split()):
            raw = text.encode(codec)
            began = time.perf_counter()
            guessed = guess(raw)
            seconds += time.perf_counter() - began
            fate = "refused" if guessed is None else "right"
            counts["wrong" if guessed not in (None, text) else fate] += 1
        if "," not in code_page:
            everything += counts
        print(as_row(f"{code_page}: {languages}", counts, seconds), flush=True)
    print(as_row("all with a model", everything, 0.0))


def as_row(name: str, counts: Counter[str], seconds: float) -> str:
    """The counts of a code page, with the mean time of a guess."""
    total = counts.total()
    share = f"{counts['right']}/{total} ({counts['right'] / total:.1%})"
    spent = f"{1e3 * seconds / total:.1f}" if seconds else ""
    return row(name, share, str(counts["refused"]), str(counts["wrong"]), spent)


def ours(raw: bytes) -> str | None:
    """The text as the data job would read it."""
    try:
        return raw.decode(detect(raw).codec)
    except UnicodeDecodeError:
        return None


def charset_normalizer(raw: bytes) -> str | None:
    """The text as the peer reads it."""
    from charset_normalizer import from_bytes

    best = from_bytes(raw).best()
    return None if best is None else str(best)


def texts(codec: str, languages: list[str]) -> Iterator[str]:
    """Texts of every size in each language, none of them plain ASCII."""
    for language in languages:
        fitting = [m for m in messages(language) if is_writable(m, codec)]
        draw = random.Random(f"{codec} {language}")
        for size in SIZES:
            for _ in range(TEXTS):
                text = text_of(size, codec, draw.sample(fitting, len(fitting)))
                if text and not text.isascii():
                    yield text


def text_of(size: int, codec: str, lines: list[str]) -> str:
    """Lines up to a size in bytes; nothing if there are too few for nine tenths."""
    chosen, length = [], 0
    for line in lines:
        more = len(f"{line}\n".encode(codec))
        if length + more <= size:
            chosen.append(line)
            length += more
        if length >= 0.9 * size:
            return "\n".join(chosen) + "\n"
    return ""


def is_writable(message: str, codec: str) -> bool:
    """Tells whether a code page has all characters of a message."""
    try:
        message.encode(codec)
    except UnicodeEncodeError:
        return False
    return True


def messages(language: str) -> list[str]:
    """The lines of all translated messages that are not the original's."""
    patterns = {
        "django": f"**/locale/{language}/LC_MESSAGES/*.mo",
        "sphinx": f"locale/{language}/LC_MESSAGES/*.mo",
    }
    found: dict[str, None] = {}
    for package, pattern in patterns.items():
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise SystemExit(f"{package} is not installed; see --help")
        for path in sorted(Path(spec.origin).parent.glob(pattern)):
            for original, translated in catalogue(path.read_bytes()):
                for line in translated.replace("\0", "\n").splitlines():
                    if original and line.strip() and line.strip() not in original:
                        found[line.strip()] = None
    return [with_tones_apart(m) for m in found] if language == "vi" else list(found)


def with_tones_apart(text: str) -> str:
    """Vietnamese as Windows-1258 writes it."""
    characters = []
    for character in text:
        parts = unicodedata.normalize("NFD", character)
        base = "".join(part for part in parts if part not in TONES)
        tones = "".join(part for part in parts if part in TONES)
        characters.append(unicodedata.normalize("NFC", base) + tones)
    return "".join(characters)


def catalogue(raw: bytes) -> Iterator[tuple[str, str]]:
    """The pairs of a GNU `.mo` file: two tables of length and offset each."""
    order = "<" if raw.startswith(b"\xde\x12\x04\x95") else ">"
    count, *tables = struct.unpack_from(f"{order}3I", raw, 8)
    for number in range(count):
        pair = []
        for table in tables:
            length, at = struct.unpack_from(f"{order}2I", raw, table + 8 * number)
            pair.append(raw[at : at + length].decode())
        yield pair[0], pair[1]


if __name__ == "__main__":
    main()
