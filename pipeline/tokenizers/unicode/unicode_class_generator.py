r"""Generates `unicode_classes.py` by probing the Rust `tokenizers` library.

The library mixes tables of several Unicode versions, mostly older than those of RE2 and
ICU, so `\p{Mn}` or plain NFD would result in other token ids. This command generates
the library's classes of all code points once:

    python -m transbeam.pipeline.tokenizers.unicode.unicode_class_generator
"""

import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import tensorflow as tf
import tensorflow_text as tf_text
from tokenizers import normalizers, pre_tokenizers

GENERATED_FILE = Path(__file__).with_name("unicode_classes.py")

_HEADER = '''\
"""The Rust `tokenizers` library's classes of all code points. Generated.

Made by `python -m transbeam.pipeline.tokenizers.unicode.unicode_class_generator`, which
documents each name; do not edit. The classes are regular expressions for RE2, the rest
are runs of `first, last, step, shift`: every `step`-th code point from `first` to
`last` becomes itself plus `shift`.
"""
'''

_SURROGATES = range(0xD800, 0xE000)
_CODE_POINTS = [c for c in range(0x110000) if c not in _SURROGATES]

_PRIVATE_USE = 0xF0000

# Every `step`-th code point from `first` to `last` becomes itself plus `shift`.
Run = tuple[int, int, int, int]  # first, last, step, shift


def _bert_normalizer(
    *, clean: bool = False, cjk: bool = False, accents: bool = False
) -> normalizers.BertNormalizer:
    return normalizers.BertNormalizer(
        clean_text=clean,
        handle_chinese_chars=cjk,
        strip_accents=accents,
        lowercase=False,
    )


def probe_classes() -> dict[str, list[int]]:
    """Determines the members of each class, by processing `a` + code point + `b`.

    Returns:
        Sorted code points of `control` (deleted), `whitespace` (replaced by a space),
        `cjk` (surrounded by spaces), `mark` (deleted with the accents) and
        `punctuation` (a word of its own).
    """
    cleaner = _bert_normalizer(clean=True)
    cjk_spacer = _bert_normalizer(cjk=True)
    accent_stripper = _bert_normalizer(accents=True)
    splitter = pre_tokenizers.BertPreTokenizer()
    classes: dict[str, list[int]] = {
        name: [] for name in ("control", "whitespace", "cjk", "mark", "punctuation")
    }
    for code_point in _CODE_POINTS:
        character = chr(code_point)
        text = f"a{character}b"
        cleaned = cleaner.normalize_str(text)
        if cleaned == "ab":
            classes["control"].append(code_point)
        elif cleaned == "a b" and character != " ":
            classes["whitespace"].append(code_point)
        if cjk_spacer.normalize_str(text) == f"a {character} b":
            classes["cjk"].append(code_point)
        if not accent_stripper.normalize_str(character):
            classes["mark"].append(code_point)
        if len(splitter.pre_tokenize_str(text)) == 3:
            classes["punctuation"].append(code_point)
    return classes


def probe_gpt2_classes() -> dict[str, list[int]]:
    """Determines the members of the classes of GPT-2's pre-tokenization.

    Returns:
        Sorted code points of `gpt2_letter` (which extend a word of letters),
        `gpt2_number` (which extend a word of digits) and `gpt2_whitespace` (which
        extend no word).
    """
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)

    def extends(word: str, character: str) -> bool:
        return len(splitter.pre_tokenize_str(word + character)) == 1

    classes: dict[str, list[int]] = {
        name: [] for name in ("gpt2_letter", "gpt2_number", "gpt2_whitespace")
    }
    for code_point in _CODE_POINTS:
        character = chr(code_point)
        if extends("a", character):
            classes["gpt2_letter"].append(code_point)
        elif extends("1", character):
            classes["gpt2_number"].append(code_point)
        elif not extends("!", character):
            classes["gpt2_whitespace"].append(code_point)
    return classes


def probe_lowercase() -> list[Run]:
    """Returns the mapping of letters to lowercase, as runs.

    U+0130, the only letter whose lowercase has two code points, is not included.
    """
    lowercaser = normalizers.Lowercase()
    runs: list[Run] = []
    for code_point in _CODE_POINTS:
        character = chr(code_point)
        lower = lowercaser.normalize_str(character)
        if lower == character or character == "\u0130":
            continue
        shift = ord(lower) - code_point
        if runs:
            first, last, step, previous_shift = runs[-1]
            gap = code_point - last
            if shift == previous_shift and gap <= 2 and (first == last or gap == step):
                runs[-1] = (first, code_point, gap, shift)
                continue
        runs.append((code_point, code_point, 1, shift))
    return runs


def probe_nfd_exempt() -> list[Run]:
    """Maps to placeholders the code points that only ICU can decompose or reorder.

    The Rust library's older NFD treats these code points as ordinary characters: it
    neither decomposes them nor reorders them among combining marks. The placeholders
    are private use characters, which cleaning has already removed from texts.
    """
    rust = normalizers.NFD()
    # The marks in the second and third probe have the highest and the lowest class.
    probes = ("{}", "a\u0345{}", "a{}\u0334")
    exempt: set[int] = set()
    for probe in probes:
        texts = [probe.format(chr(code_point)) for code_point in _CODE_POINTS]
        icu = tf_text.normalize_utf8(tf.constant(texts), "NFD").numpy()
        for code_point, text, by_icu in zip(_CODE_POINTS, texts, icu, strict=True):
            by_rust = rust.normalize_str(text)
            if by_rust.encode() != by_icu:
                if by_rust != text:
                    raise AssertionError(f"Rust knows more of {text!a} than ICU")
                exempt.add(code_point)
    ordered = sorted(exempt)
    shift_of = {c: _PRIVATE_USE + i - c for i, c in enumerate(ordered)}
    return [
        (first, last, 1, shift_of[first]) for first, last in _first_and_last(ordered)
    ]


def _first_and_last(ordered: list[int]) -> Iterator[tuple[int, int]]:
    """Yields the runs of consecutive numbers in a sorted list."""
    starts = [0, *(i + 1 for i, (a, b) in enumerate(pairwise(ordered)) if b > a + 1)]
    for start, end in pairwise([*starts, len(ordered)]):
        yield ordered[start], ordered[end - 1]


def _class_source(name: str, code_points: list[int]) -> str:
    ranges = [
        rf"\x{{{first:x}}}" + (rf"-\x{{{last:x}}}" if last > first else "")
        for first, last in _first_and_last(code_points)
    ]
    # `textwrap` breaks only at spaces, so ranges are not broken.
    lines = textwrap.wrap(" ".join(ranges), 79, break_on_hyphens=False)
    body = "\n".join(f'    r"{line.replace(" ", "")}"' for line in lines)
    return f'{name} = (\n    r"["\n{body}\n    r"]"\n)\n'


def _runs_source(name: str, runs: list[Run]) -> str:
    body = "".join(
        f"    (0x{first:X}, 0x{last:X}, {step}, {shift}),\n"
        for first, last, step, shift in runs
    )
    return f"{name} = (\n{body})\n"


def render() -> str:
    """Renders `unicode_classes.py`. Rendering takes about twenty seconds."""
    parts = [_class_source(name.upper(), c) for name, c in probe_classes().items()]
    parts.append(_runs_source("LOWERCASE", probe_lowercase()))
    parts.append(_runs_source("NFD_EXEMPT", probe_nfd_exempt()))
    gpt2_classes = probe_gpt2_classes().items()
    parts.extend(_class_source(name.upper(), c) for name, c in gpt2_classes)
    return "\n".join([_HEADER, *parts])


if __name__ == "__main__":
    GENERATED_FILE.write_text(render(), encoding="utf-8")
