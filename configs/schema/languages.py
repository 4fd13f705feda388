"""`data.cleaning.languages`: the language filter."""

from dataclasses import dataclass

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

    allowed: tuple[str, ...] = option(
        "Two-letter ISO 639-1 codes of the languages to keep, such as `en`, `de`, `zh`."
    )
    minimum_probability: float = option(
        "Smallest probability that a text is in one of the allowed languages. It is "
        "seldom high for texts of a few words.",
        default=0.3,
        minimum=0.0,
        maximum=1.0,
    )

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
                    f"can be told from others. Known here: {', '.join(LANGUAGES)}"
                )
