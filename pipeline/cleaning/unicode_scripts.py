"""Script identification by the Unicode names of letters."""

import functools
import unicodedata
from collections import Counter

from transbeam.configs.schema.cleaning import ScriptRulesConfig


def script_reason(text: str, rules: ScriptRulesConfig) -> str | None:
    """Returns the reason to drop a text that is not in an allowed script, or None.

    A text without letters is kept.

    Example:
    >>> rules = ScriptRulesConfig(allowed=("latin",))
    >>> script_reason("naïve café, 2.0", rules)
    >>> script_reason("это не так", rules)
    'fewer than 90% of the letters are latin'
    """
    letters: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if character.isalpha():
            letters[script_name(character)] += count
    total = letters.total()
    if not total:
        return None
    if sum(letters[script] for script in rules.allowed) < rules.share * total:
        allowed = " or ".join(rules.allowed)
        return f"fewer than {rules.share:.0%} of the letters are {allowed}"
    return None


@functools.lru_cache(maxsize=100_000)
def script_name(character: str) -> str:
    """Returns the first word of a character's Unicode name in lower case.

    Example:
    >>> script_name("é"), script_name("ж"), script_name("漢"), script_name("ひ")
    ('latin', 'cyrillic', 'cjk', 'hiragana')
    """
    return unicodedata.name(character, "unnamed").split()[0].split("-")[0].lower()
