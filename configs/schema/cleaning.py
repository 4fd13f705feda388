"""`data.cleaning`: normalization of texts and filters of documents."""

import re
from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option

# Languages of py3langid's model that have an ISO 639-1 code. Norwegian Bokmål is `no`.
_CODES = (
    "af am an ar as az ba be bg bn br bs ca cs cy da de dz el en eo es et eu fa fi fo "
    "fr fy ga gd gl gu ha he hi hr ht hu hy id ig is it ja jv ka kk km kn ko ku ky la "
    "lb lg ln lo lt lv mg mk ml mn mr ms mt my ne nl nn no oc om or pa pl ps pt qu ro "
    "ru rw sa se si sk sl sn so sq sr st sv sw ta te tg th tk tl tr tt ug uk ur uz vi "
    "vo wa xh yo zh zu"
)
LANGUAGES: tuple[str, ...] = tuple(_CODES.split())


@dataclass(frozen=True, kw_only=True)
class LanguageRulesConfig:
    """Filter of documents by their language.

    Requires `pip install 'transbeam[languages]'`. For a long text only some sections
    are classified, so the time per document is bounded.

    Example:
    >>> LanguageRulesConfig(allowed=("en", "german"))
    Traceback (most recent call last):
    ConfigError: allowed: 'german' is not the ISO 639-1 code ...
    """

    allowed: tuple[str, ...]
    """Two-letter ISO 639-1 codes of the languages to keep, such as `en`, `de`, `zh`."""

    minimum_probability: float = option(0.3, minimum=0.0, maximum=1.0)
    """Smallest probability that a text is in one of the allowed languages. It is seldom
    high for texts of a few words.
    """

    def __post_init__(self) -> None:
        if not self.allowed:
            raise ConfigError(
                "allowed=[] would drop every document: name the languages to keep, or "
                "leave `languages` out"
            )
        for code in self.allowed:
            if code not in LANGUAGES:
                raise ConfigError(
                    f"allowed: {code!r} is not the ISO 639-1 code of a language that "
                    f"can be identified. Known here: {', '.join(LANGUAGES)}"
                )


@dataclass(frozen=True, kw_only=True)
class QualityRulesConfig:
    """Gopher's quality filter (Rae et al., 2021, A.1.1).

    The rules are tuned for web pages, and drop short documents, such as single
    sentences.
    """

    minimum_words: int = option(50, minimum=0)
    """Documents of fewer words are dropped."""

    maximum_words: int = option(100_000, minimum=1)
    """Documents of more words are dropped."""

    minimum_word_length: float = option(3.0, minimum=0.0)
    """Smallest mean length of a word, in characters."""

    maximum_word_length: float = 10.0
    """Largest mean length of a word, in characters."""

    symbol_ratio: float = option(0.1, minimum=0.0)
    """Largest number of hash signs per word, and of ellipses per word."""

    bullet_lines: float = option(0.9, minimum=0.0, maximum=1.0)
    """Largest share of lines that begin with a bullet."""

    ellipsis_lines: float = option(0.3, minimum=0.0, maximum=1.0)
    """Largest share of lines that end with an ellipsis."""

    alphabetic_words: float = option(0.8, minimum=0.0, maximum=1.0)
    """Smallest share of words that contain a letter."""

    minimum_stop_words: int = option(2, minimum=0)
    """Smallest number of different `stop_words` that a document must contain."""

    stop_words: tuple[str, ...] = (
        "the",
        "be",
        "to",
        "of",
        "and",
        "that",
        "have",
        "with",
    )
    """Frequent words of the language; set them for languages other than English."""


@dataclass(frozen=True, kw_only=True)
class RepetitionRulesConfig:
    """Gopher's repetition filter (Rae et al., 2021, table A1).

    Each key is the largest allowed share; 1 switches a rule off.
    """

    duplicate_lines: float = option(0.3, minimum=0.0, maximum=1.0)
    """Share of lines that repeat an earlier one."""

    duplicate_paragraphs: float = option(0.3, minimum=0.0, maximum=1.0)
    """Share of paragraphs that repeat an earlier one."""

    duplicate_line_characters: float = option(0.2, minimum=0.0, maximum=1.0)
    """Share of characters in lines that repeat an earlier one."""

    top_2_gram: float = option(0.2, minimum=0.0, maximum=1.0)
    """Share of characters in the most frequent 2-gram of words."""

    top_3_gram: float = option(0.18, minimum=0.0, maximum=1.0)
    """The same for 3-grams."""

    top_4_gram: float = option(0.16, minimum=0.0, maximum=1.0)
    """The same for 4-grams."""

    duplicate_5_grams: float = option(0.15, minimum=0.0, maximum=1.0)
    """Share of characters in 5-grams of words that occur more than once."""

    duplicate_10_grams: float = option(0.1, minimum=0.0, maximum=1.0)
    """The same for 10-grams."""


@dataclass(frozen=True, kw_only=True)
class LineRulesConfig:
    """Filters of lines: the rules of C4 (Raffel et al., 2020, 2.2)."""

    terminal_punctuation: bool = True
    """Keep only lines that end in terminal punctuation or a closing quote."""

    minimum_words: int = option(5, minimum=0)
    """Lines of fewer words are dropped."""

    boilerplate: tuple[str, ...] = (
        "javascript",
        "cookie policy",
        "privacy policy",
        "terms of use",
        "terms of service",
        "all rights reserved",
        "uses cookies",
    )
    """Lines that contain one of these phrases are dropped, regardless of case."""

    placeholders: tuple[str, ...] = ("lorem ipsum", "{")
    """Documents that contain one of these strings are dropped."""


@dataclass(frozen=True, kw_only=True)
class ScriptRulesConfig:
    """Filter of documents by their script."""

    allowed: tuple[str, ...]
    """Scripts to keep, by the first word of their characters' Unicode names, such as
    `latin`, `cyrillic`, `greek`, `arabic`, `hiragana`, `cjk`.
    """

    share: float = option(0.9, minimum=0.0, maximum=1.0)
    """Smallest share of letters in an allowed script."""


@dataclass(frozen=True, kw_only=True)
class PersonalDataConfig:
    """Replacement of personal data by placeholders in angle brackets.

    Personal data are found by regular expressions, which do not cover names and postal
    addresses. To replace other personal data, configure your own function as `hook`.
    """

    emails: bool = True
    """Replace email addresses by `<email>`."""

    phone_numbers: bool = True
    """Replace telephone numbers by `<phone>`."""

    ip_addresses: bool = True
    """Replace public IPv4 addresses by `<ip>`."""

    hook: str | None = None
    """A function from string to string, as `package.module:name`, applied last."""

    def __post_init__(self) -> None:
        if self.hook and not re.fullmatch(r"\w+(\.\w+)*:\w+", self.hook):
            raise ConfigError(
                f"hook={self.hook!r} does not name a function: write "
                "package.module:name"
            )


@dataclass(frozen=True, kw_only=True)
class CleaningConfig:
    """Normalization and filters of documents. Dropped documents are counted by reason.

    Texts are normalized in the order of the keys, then filtered. Rules that are left
    out are not applied. All rules read only the document's field `text`.
    """

    normalization: Literal["none", "nfc", "nfkc"] = "none"
    """Unicode normalization of the texts."""

    control_characters: Literal["keep", "remove"] = "keep"
    """Handling of control characters other than line feed and tab."""

    personal_data: PersonalDataConfig | None = None
    """Replacement of personal data in the texts. Left out: none; `{}` uses the defaults
    below.
    """

    lines: LineRulesConfig | None = None
    """C4's rules for the lines of web pages. Left out: all lines are kept; `{}` uses
    the defaults below.
    """

    minimum_characters: int = option(1, minimum=1)
    """Documents of fewer characters are dropped."""

    maximum_characters: int = option(10_000_000, minimum=1)
    """Documents of more characters go to quarantine."""

    scripts: ScriptRulesConfig | None = None
    """Filter of documents by script. Left out: all scripts are kept."""

    languages: LanguageRulesConfig | None = None
    """Filter of documents by language; also drops documents of uncertain language. Left
    out: all languages are kept.
    """

    quality: QualityRulesConfig | None = None
    """Gopher's quality rules, tuned for web pages: documents that violate one are
    dropped. Left out: no quality filter; `{}` uses the defaults below.
    """

    repetition: RepetitionRulesConfig | None = None
    """Gopher's repetition rules: documents with more repetition are dropped; 1 switches
    a rule off. Left out: no repetition filter; `{}` uses the defaults below.
    """
