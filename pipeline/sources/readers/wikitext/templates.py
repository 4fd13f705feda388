"""Renders common Wikipedia templates that occur inside sentences.

Templates are programs of the wiki, which a reader of dumps cannot run. The templates
that are most frequent in sentences are implemented in this module according to their
documentation, with two simplifications: only the first unit of a measure is shown, and
a text in another language is shown without the language's name. Template names are
those of the English Wikipedia, which many other Wikipedias share:
https://en.wikipedia.org/wiki/Template:Convert and so on.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from transbeam.pipeline.sources.readers.wikitext import template_names as names


class Arguments(NamedTuple):
    """The arguments of a template: values by position from 0, and by name."""

    positional: Sequence[str]
    named: Mapping[str, str]

    def get(self, position: int, *names: str) -> str:
        """Returns an argument by position, else by one of its names; may be empty."""
        if position < len(self.positional) and self.positional[position]:
            return self.positional[position]
        return next((self.named[n] for n in names if self.named.get(n)), "")


_POSITION = re.compile(r"[1-9]\d?")


def split_template(inner: str) -> tuple[str, Arguments]:
    """Splits a template without inner markup into its name and arguments.

    Example:
    >>> split_template("Convert| 5 |km|abbr = on")
    ('Convert', Arguments(positional=['5', 'km'], named={'abbr': 'on'}))
    """
    name, *parts = inner.split("|")
    numbered: dict[int, str] = {}
    named: dict[str, str] = {}
    unnamed = 0
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals:
            unnamed += 1
            numbered[unnamed] = part.strip()
        elif _POSITION.fullmatch(key := key.strip()):
            numbered[int(key)] = value.strip()
        else:
            named[key] = value.strip()
    positional = [numbered.get(i, "") for i in range(1, max(numbered, default=0) + 1)]
    return " ".join(name.replace("_", " ").split()), Arguments(positional, named)


def template_words(name: str, arguments: Arguments, language: str = "en") -> str | None:
    """Returns the text that a template shows in a sentence.

    Args:
        name: The template's name as written.
        arguments: The template's arguments as plain text.
        language: The language of the wiki, for number formats.

    Returns:
        The text; empty for templates that show only a mark or nothing, such as
        footnotes; None for unknown templates.

    Example:
    >>> template_words("lang", Arguments(["fr", "la ville"], {}))
    'la ville'
    >>> template_words("convert", Arguments(["1300", "mi", "km"], {}))
    '1,300 mi'
    >>> template_words("birth date and age", Arguments(["1990", "1", "2"], {"df": "y"}))
    '2 January 1990'
    """
    known = name.lower()
    if (
        known in names.SILENT
        or known.startswith(names.SILENT_BEGINNINGS)
        or known.endswith((" needed", " inline", " icon", "?inline"))  # a note
    ):
        return ""
    if known in names.CONSTANT:
        return names.CONSTANT[known]
    function, colon, rest = name.partition(":")
    if colon and function.lower() in _FUNCTIONS:
        return _FUNCTIONS[function.lower()](rest.strip(), language)
    if known in _WORDS:
        return _WORDS[known](arguments, language)
    if _OF_A_CENTURY.fullmatch(name) or _ORDINAL.fullmatch(name):
        return " ".join(filter(None, (name, arguments.get(0))))
    if _OF_A_LANGUAGE.fullmatch(name):
        return arguments.get(0, "text")
    if known in names.SHIPS:
        return f"{known.upper()} {arguments.get(0)}"
    return None


_MOST_VALUES = 20


def grouped(number: str, language: str) -> str:
    """Formats a number like the wiki's `formatnum`; returns other texts unchanged.

    Example:
    >>> grouped("1234567.5", "en"), grouped("-1234567.5", "de"), grouped("many", "en")
    ('1,234,567.5', '-1.234.567,5', 'many')
    """
    group, point = names.SEPARATORS.get(language, ("", "."))
    found = re.fullmatch(r"([-+−]?)(\d+)(?:\.(\d+))?", number.replace(",", ""))
    if not found or not group:
        return number
    sign, whole, decimals = found.groups()
    whole = f"{int(whole):,}".replace(",", group) if whole[0] != "0" else whole
    return f"{sign}{whole}{point}{decimals}" if decimals else f"{sign}{whole}"


# `{{lang-ru|...}}`, and `{{enS|...}}` in the German Wikipedia.
_OF_A_LANGUAGE = re.compile(r"[Ll]ang-[a-z-]+|[a-z]{2,3}S")
# In French: `{{XIXe siècle}}`, `{{1er|janvier}}`, `{{2e|armée}}`.
_OF_A_CENTURY = re.compile(r"[IVXLC]+er? siècle")
_ORDINAL = re.compile(r"\d+(?:er|re|ère|e|es|ers|res)")
_SUPERSCRIPTS = str.maketrans("0123456789-−+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻⁺")


def _measure(arguments: Arguments, language: str) -> str:
    """Renders `convert`: numbers, ranges and units, without the target unit."""
    text = ""
    values = list(arguments.positional[:_MOST_VALUES])
    while values and re.match(r"[-+−]?[\d.]", values[0]):
        text += grouped(values.pop(0), language)
        if not values:
            break
        following = values.pop(0)
        if following.lower() in names.RANGES and values:
            text += names.RANGES[following.lower()]
            continue
        text += f" {_unit(following)}"
        # `5|ft|6|in` is one length, `5|km|mi|1` five kilometers to one decimal.
        is_compound = len(values) >= 2 and following in names.UNITS_WITH_PARTS
        if not (is_compound and re.fullmatch(r"[\d./]+", values[0])):
            break
        text += " "
    return text or arguments.get(0)


def _unit(code: str) -> str:
    """Returns the symbol of a unit of `convert`; `e6km2` is million km²."""
    for power, word in names.POWERS.items():
        if code.startswith(power) and code != power:
            return f"{word} {_unit(code.removeprefix(power))}"
    return names.UNITS.get(code.lower(), code)


def _value(arguments: Arguments, language: str) -> str:
    """Renders `val`: a number with its uncertainty, power of ten and unit."""
    text = grouped(arguments.get(0), language)
    if uncertainty := arguments.get(1):
        text += f"±{uncertainty}"
    if exponent := arguments.get(9, "e"):
        text += _power(exponent)
    unit = arguments.get(9, "u", "ul")
    per = arguments.get(9, "up", "upl")
    return text + (f" {unit}" if unit else "") + (f"/{per}" if per else "")


def _power(exponent: str) -> str:
    return f"×10{exponent.translate(_SUPERSCRIPTS)}"


def _fraction(arguments: Arguments, _: str) -> str:
    match arguments.positional:
        case [whole, over, under, *_]:
            return f"{whole} {over}/{under}"
        case [over, under]:
            return f"{over}/{under}"
        case [under]:
            return f"1/{under}"
        case _:
            return "/"


def _circa(arguments: Arguments, _: str) -> str:
    years = [f"c. {year}" for year in arguments.positional if year]
    return " – ".join(years) or "c."


_YEAR = re.compile(r"\d{3,4}")


def _date(values: Sequence[str], *, day_first: bool) -> str:
    year, month, day, *_ = [*values, "", "", ""]
    if _YEAR.fullmatch(day) and not _YEAR.fullmatch(year):
        # For example `{{date|1|mai|1900}}` in wikis of other languages.
        year, day, day_first = day, year, True
    if month.isdecimal() and 1 <= int(month) <= 12:
        month = names.MONTHS[int(month) - 1]
    day = day.lstrip("0")
    if not (year and month and day):
        return " ".join(filter(None, (month, year)))
    return f"{day} {month} {year}" if day_first else f"{month} {day}, {year}"


def _day(arguments: Arguments, _: str) -> str:
    return _date(arguments.positional, day_first=bool(arguments.get(9, "df")))


def _as_of_text(arguments: Arguments, _: str) -> str:
    if alternative := arguments.get(9, "alt"):
        return alternative
    first = "Since" if arguments.get(9, "since") else "As of"
    american = arguments.get(9, "df").upper() == "US"
    date = _date(arguments.positional, day_first=not american)
    return f"{first.lower() if arguments.get(9, 'lc') else first} {date}"


def _nihongo(arguments: Arguments, _: str) -> str:
    english, *others = [*arguments.positional[:3], ""]
    inside = ", ".join(filter(None, others))
    return f"{english} ({inside})" if english and inside else english or inside


def _height(arguments: Arguments, _: str) -> str:
    units = ("m", "cm", "ft", "in")
    named = arguments.named
    return " ".join(f"{named[unit]} {unit}" for unit in units if named.get(unit))


def _nth(position: int, *names: str) -> Callable[[Arguments, str], str]:
    return lambda arguments, _: arguments.get(position, *names)


def _joined(separator: str) -> Callable[[Arguments, str], str]:
    return lambda arguments, _: separator.join(filter(None, arguments.positional))


def _around(before: str, after: str = "") -> Callable[[Arguments, str], str]:
    return lambda arguments, _: f"{before}{arguments.get(0)}{after}"


_Words = Callable[[Arguments, str], str]
_WORDS: Mapping[str, _Words] = {
    **dict.fromkeys(names.SHOW_THE_FIRST, _nth(0, "1", "text")),
    **dict.fromkeys(names.SHOW_THE_SECOND, _nth(1, "2", "text")),
    **dict.fromkeys(
        ["transl", "transliteration", "translit", "tlit", "bdi"],
        lambda a, _: a.positional[-1] if a.positional else "",
    ),
    **dict.fromkeys(
        ["convert", "cvt", "unité", "unite", "unidad", "maßeinheit"], _measure
    ),
    **dict.fromkeys(["val"], _value),
    **dict.fromkeys(
        ["frac", "sfrac", "fraction", "frac2", "tfrac", "dfrac"], _fraction
    ),
    **dict.fromkeys(["circa", "c.", "ca.", "ca"], _circa),
    **dict.fromkeys(["нп", "нп3", "нп5"], lambda a, _: a.get(1) or a.get(0)),
    **dict.fromkeys(["as of", "asof"], _as_of_text),
    **dict.fromkeys(names.DATES, _day),
    **dict.fromkeys(["nihongo", "nihongo2", "nihongo3", "nihongo krt"], _nihongo),
    **dict.fromkeys(["height"], _height),
    **dict.fromkeys(["chem", "chem2", "gaps"], _joined("")),
    **dict.fromkeys(
        ["hlist", "flatlist", "csv", "cslist", "enum", "ubl", "unbulleted list"],
        _joined(", "),
    ),
    **dict.fromkeys(["section link", "slink"], _joined(" § ")),
    **dict.fromkeys(["floruit", "fl."], _around("fl. ")),
    **dict.fromkeys(["angbr", "angbr ipa", "angle bracket"], _around("⟨", "⟩")),
    **dict.fromkeys(["us$", "usd"], _around("US$")),
    **dict.fromkeys(["€", "eur", "euro"], _around("€")),
    **dict.fromkeys(["£", "gbp"], _around("£")),
    **dict.fromkeys(["₹", "inr"], _around("₹")),
    **dict.fromkeys(["¥", "jpy"], _around("¥")),
    **dict.fromkeys(["numero", "no."], _around("No. ")),
    **dict.fromkeys(['"'], _around("„", "“")),
    **dict.fromkeys(["e", "esp"], lambda a, _: _power(a.get(0))),
    **dict.fromkeys(["nts", "num", "число"], lambda a, wiki: grouped(a.get(0), wiki)),
}
_FUNCTIONS: Mapping[str, Callable[[str, str], str]] = {
    "formatnum": grouped,
    "lc": lambda text, _: text.lower(),
    "uc": lambda text, _: text.upper(),
    "lcfirst": lambda text, _: text[:1].lower() + text[1:],
    "ucfirst": lambda text, _: text[:1].upper() + text[1:],
}
