"""Sentences with a pronoun of which only one of two nouns can be the antecedent.

Each sentence stands in two forms, with `he` and with `she`, and with its nouns in both
orders. So whatever does not look at the pronoun, such as the nearest noun, the first
noun or the more frequent one, is right in exactly half of the cases.

Minimal pairs with one antecedent each are the idea of Winograd schemas. Here gender
decides alone, which a small model can know; a head that links words of one gender has
the role, too.

References:
    - [Clark et al., 2019](https://arxiv.org/abs/1906.04341), section 4.3
    - [Zhao et al., 2018](https://aclanthology.org/N18-2003), section 2
"""

import re
from dataclasses import dataclass
from itertools import product

# Nouns of a person who is `he`, and of one who is `she`; not of the same pair, so that
# one does not suggest the other.
_NOUNS = (
    ("king", "actress"),
    ("boy", "mother"),
    ("uncle", "queen"),
    ("father", "girl"),
    ("husband", "princess"),
    ("prince", "woman"),
    ("man", "daughter"),
    ("son", "lady"),
)
_PRONOUNS = ("he", "she")
_TEMPLATES = (
    "The {first} met the {second} because {pronoun} was in town.",
    "The {first} called the {second} before {pronoun} went home.",
    "The {first} wrote to the {second} when {pronoun} was ill.",
    "The {first} saw the {second} after {pronoun} opened the door.",
)
_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class CoreferenceCase:
    """A sentence with a pronoun.

    Attributes:
        text: The sentence.
        offsets: Start and end of the pronoun, of its antecedent, and of the distractor:
            the other noun.
        frame: Number of the sentence: its two forms, with `he` and `she`, have the
            same.
    """

    text: str
    offsets: tuple[tuple[int, int], ...]
    frame: int


def make_coreference_cases() -> list[CoreferenceCase]:
    """Makes all cases, always the same.

    Example:
    >>> cases = make_coreference_cases()
    >>> case = cases[1]
    >>> case.text
    'The king met the actress because she was in town.'
    >>> [case.text[start:end] for start, end in case.offsets]
    ['she', 'actress', 'king']
    >>> len(cases)
    128
    """
    frames = product(_TEMPLATES, _NOUNS, (False, True))
    return [
        _make_case(template, nouns, swapped, choice, frame)
        for frame, (template, nouns, swapped) in enumerate(frames)
        for choice in (0, 1)
    ]


def _make_case(
    template: str, nouns: tuple[str, str], swapped: bool, choice: int, frame: int
) -> CoreferenceCase:
    first, second = reversed(nouns) if swapped else nouns
    values = {"first": first, "second": second, "pronoun": _PRONOUNS[choice]}
    text, at, spans = "", 0, {}
    for field in _FIELD.finditer(template):
        text += template[at : field.start()]
        value = values[field[1]]
        spans[value] = (len(text), len(text) + len(value))
        text, at = text + value, field.end()
    words = (_PRONOUNS[choice], nouns[choice], nouns[1 - choice])
    offsets = tuple(spans[word] for word in words)
    return CoreferenceCase(text + template[at:], offsets, frame)
