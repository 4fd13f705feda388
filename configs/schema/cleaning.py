"""`data.cleaning`: normalization of texts and filters of documents."""

import re
from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option
from transbeam.configs.schema.languages import LanguageRulesConfig


@dataclass(frozen=True, kw_only=True)
class QualityRulesConfig:
    """Is it running text? The rules of Gopher (Rae et al., 2021, A.1.1).

    They are tuned for web pages: short documents, such as single sentences, fail them.
    """

    minimum_words: int = option(
        "Documents of fewer words are dropped.", default=50, minimum=0
    )
    maximum_words: int = option(
        "Documents of more words are dropped.", default=100_000, minimum=1
    )
    minimum_word_length: float = option(
        "Smallest mean length of a word, in characters.", default=3.0, minimum=0.0
    )
    maximum_word_length: float = option(
        "Largest mean length of a word, in characters.", default=10.0
    )
    symbol_ratio: float = option(
        "Most hash signs per word, and most ellipses per word.",
        default=0.1,
        minimum=0.0,
    )
    bullet_lines: float = option(
        "Largest share of lines that begin with a bullet.",
        default=0.9,
        minimum=0.0,
        maximum=1.0,
    )
    ellipsis_lines: float = option(
        "Largest share of lines that end with an ellipsis.",
        default=0.3,
        minimum=0.0,
        maximum=1.0,
    )
    alphabetic_words: float = option(
        "Smallest share of words with a letter in them.",
        default=0.8,
        minimum=0.0,
        maximum=1.0,
    )
    minimum_stop_words: int = option(
        "How many different ones of `stop_words` must occur.", default=2, minimum=0
    )
    stop_words: tuple[str, ...] = option(
        "Words that running text of the language has; for other languages than "
        "English write their own.",
        default=("the", "be", "to", "of", "and", "that", "have", "with"),
    )


@dataclass(frozen=True, kw_only=True)
class RepetitionRulesConfig:
    """Does it say the same again and again? Gopher's table A1 (Rae et al., 2021).

    Each key is the largest allowed share; 1 switches a rule off.
    """

    duplicate_lines: float = option(
        "Share of lines that repeat an earlier one.",
        default=0.3,
        minimum=0.0,
        maximum=1.0,
    )
    duplicate_paragraphs: float = option(
        "Share of paragraphs that repeat an earlier one.",
        default=0.3,
        minimum=0.0,
        maximum=1.0,
    )
    duplicate_line_characters: float = option(
        "Share of characters in lines that repeat an earlier one.",
        default=0.2,
        minimum=0.0,
        maximum=1.0,
    )
    top_2_gram: float = option(
        "Share of characters in the most frequent run of 2 words.",
        default=0.2,
        minimum=0.0,
        maximum=1.0,
    )
    top_3_gram: float = option(
        "The same for runs of 3 words.", default=0.18, minimum=0.0, maximum=1.0
    )
    top_4_gram: float = option(
        "The same for runs of 4 words.", default=0.16, minimum=0.0, maximum=1.0
    )
    duplicate_5_grams: float = option(
        "Share of characters in runs of 5 words that occur more than once.",
        default=0.15,
        minimum=0.0,
        maximum=1.0,
    )
    duplicate_10_grams: float = option(
        "The same for runs of 10 words.", default=0.1, minimum=0.0, maximum=1.0
    )


@dataclass(frozen=True, kw_only=True)
class LineRulesConfig:
    """Filters of lines: the rules of C4 (Raffel et al., 2020, 2.2)."""

    terminal_punctuation: bool = option(
        "Keep only lines that end in a full stop or its like, or a closing quote.",
        default=True,
    )
    minimum_words: int = option(
        "Lines of fewer words are dropped.", default=5, minimum=0
    )
    boilerplate: tuple[str, ...] = option(
        "Lines with one of these phrases, in any case, are dropped.",
        default=(
            "javascript",
            "cookie policy",
            "privacy policy",
            "terms of use",
            "terms of service",
            "all rights reserved",
            "uses cookies",
        ),
    )
    placeholders: tuple[str, ...] = option(
        "Documents with one of these anywhere are dropped whole.",
        default=("lorem ipsum", "{"),
    )


@dataclass(frozen=True, kw_only=True)
class ScriptRulesConfig:
    """Is it written in the scripts that are wanted?"""

    allowed: tuple[str, ...] = option(
        "Scripts by the first word of their characters' Unicode names, such as `latin`,"
        " `cyrillic`, `greek`, `arabic`, `hiragana`, `cjk`."
    )
    share: float = option(
        "Smallest share of the letters that are in an allowed script.",
        default=0.9,
        minimum=0.0,
        maximum=1.0,
    )


@dataclass(frozen=True, kw_only=True)
class PersonalDataConfig:
    """Personal data that is replaced by a word in angle brackets.

    It is found by patterns, which do not cover names and addresses. For more, configure
    a function of your own.
    """

    emails: bool = option("`<email>` for addresses of electronic mail.", default=True)
    phone_numbers: bool = option("`<phone>` for telephone numbers.", default=True)
    ip_addresses: bool = option("`<ip>` for public IPv4 addresses.", default=True)
    hook: str | None = option(
        "A function `package.module:name` from text to text, called last.",
        default=None,
    )

    def __post_init__(self) -> None:
        if self.hook and not re.fullmatch(r"\w+(\.\w+)*:\w+", self.hook):
            raise ConfigError(
                f"hook={self.hook!r} does not name a function: write "
                "package.module:name"
            )


@dataclass(frozen=True, kw_only=True)
class CleaningConfig:
    """Filters of documents. Dropped documents are counted by reason.

    Texts are normalized in the order of the keys, then filtered. Rules that are left
    out are not applied. All rules read `text` only.
    """

    normalization: Literal["none", "nfc", "nfkc"] = option(
        "Unicode normalisation of the texts.", default="none"
    )
    control_characters: Literal["keep", "remove"] = option(
        "What becomes of control characters other than line feed and tab.",
        default="keep",
    )
    personal_data: PersonalDataConfig | None = option(
        "Replaces personal data in the texts. Left out: nothing is replaced; `{}` "
        "takes the defaults below.",
        default=None,
    )
    lines: LineRulesConfig | None = option(
        "C4's rules for pages of the web: which lines of a text stay. Left out: all "
        "lines; `{}` takes the defaults below.",
        default=None,
    )
    minimum_characters: int = option(
        "Documents of fewer characters are dropped.", default=1, minimum=1
    )
    maximum_characters: int = option(
        "Documents of more characters go to quarantine.",
        default=10_000_000,
        minimum=1,
    )
    scripts: ScriptRulesConfig | None = option(
        "Drops documents in other scripts than these. Left out: all scripts stay.",
        default=None,
    )
    languages: LanguageRulesConfig | None = option(
        "Drops documents in other languages than these, and those of which it is not "
        "certain. Left out: all languages stay.",
        default=None,
    )
    quality: QualityRulesConfig | None = option(
        "Gopher's rules for running text, tuned for pages of the web: documents that "
        "break one are dropped. Left out: no such rule; `{}` takes the defaults below.",
        default=None,
    )
    repetition: RepetitionRulesConfig | None = option(
        "Gopher's rules against repetition: the largest shares that a document may "
        "have; 1 switches a rule off. Left out: no such rule; `{}` takes the defaults "
        "below.",
        default=None,
    )
