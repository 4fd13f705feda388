"""Language identification with the model of `py3langid`.

A naive Bayes classifier over byte n-grams (Lui & Baldwin, 2011). Features and
weights are those of `py3langid`. The sum over the features is computed here, because in
`py3langid` it is float32, and its last digits depend on the CPU: a document could be
kept on one machine of a cluster and dropped on another.
"""

import functools
import importlib.metadata
import math
import threading
import unicodedata
from collections.abc import Mapping
from typing import Any

import numpy as np

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.cleaning import LANGUAGES, LanguageRulesConfig

# The class of content without a language: tables of numbers, markup, identifiers.
NO_LANGUAGE = "zxx"

# Other versions may have other models and results. setup.py requires this one.
_VERSION = "0.4."
_STRETCHES = 4
_STRETCH = 250
_LOCK = threading.Lock()


def language_reason(text: str, rules: LanguageRulesConfig) -> str | None:
    """Returns the reason why a text is not in an allowed language, or None.

    The language of a text without letters is uncertain or `zxx`.

    Raises:
        ConfigError: `py3langid` is not installed.

    Example:
    >>> rules = LanguageRulesConfig(allowed=("en", "de"))
    >>> language_reason("The ferry leaves the harbour at noon.", rules)
    >>> language_reason("Le bac quitte le port vers midi.", rules)
    'language fr is not wanted'
    >>> language_reason("OK!", rules)
    'language uncertain'
    """
    found = probabilities(text)
    wanted = math.fsum(found[language] for language in set(rules.allowed))
    likeliest = max(found, key=found.__getitem__)
    # Rounded, because the last digits of `exp` depend on the CPU.
    least = round(rules.minimum_probability, 9)
    if round(wanted, 9) >= least:
        return None
    if round(found[likeliest], 9) >= least:
        return f"language {likeliest} is not wanted"
    return "language uncertain"


def probabilities(text: str) -> Mapping[str, float]:
    """Returns the probability of each of `LANGUAGES` and of `NO_LANGUAGE` for a text.

    As in the library, the log-likelihoods are divided by the square root of the
    sample's length in bytes before the softmax, so short texts are classified with less
    certainty.

    Example:
    >>> found = probabilities("La biblioteca está cerrada los domingos por la tarde.")
    >>> max(found, key=found.get), round(found["es"], 1)
    ('es', 0.9)
    """
    identifier = _shared_identifier()
    sample = take_sample(text)
    if sample.isupper():
        sample = sample.lower()
    data = unicodedata.normalize("NFC", sample).encode("utf-8", "surrogatepass")
    scores = identifier.scores(data) / math.sqrt(len(data) or 1)
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    found = dict.fromkeys((*LANGUAGES, NO_LANGUAGE), 0.0)
    # A language in two scripts has two classes of the same name.
    for language, share in zip(identifier.languages, shares.tolist(), strict=True):
        found[language] += share
    return found


def take_sample(text: str) -> str:
    """Samples the characters to classify: all of a short text, 1,000 of a long text.

    A sample is taken from the middle of each quarter of the text, so that a preamble or
    an appendix in another language, such as a license, does not dominate.

    Example:
    >>> take_sample("short")
    'short'
    >>> len(take_sample("long" * 1_000_000))
    1003
    """
    if len(text) <= _STRETCHES * _STRETCH:
        return text
    middles = [(2 * n + 1) * len(text) // (2 * _STRETCHES) for n in range(_STRETCHES)]
    starts = [middle - _STRETCH // 2 for middle in middles]
    return "\n".join(text[start : start + _STRETCH] for start in starts)


def require_identifier() -> None:
    """Checks that the library is installed, without loading the model.

    Raises:
        ConfigError: The library is missing, or has another version.
    """
    try:
        version = importlib.metadata.version("py3langid")
    except importlib.metadata.PackageNotFoundError:
        version = "none"
    if not version.startswith(_VERSION):
        raise ConfigError(
            f"data.cleaning.languages: needs py3langid {_VERSION}*, found {version}. "
            "Run pip install 'transbeam[languages]' here and where the workers run, or "
            "leave `languages` out"
        )


class _Identifier:
    """The model of `py3langid` with an exact sum over a text's features.

    The sum is exact, so it depends neither on the order of its terms nor on the CPU.
    The weights are float16 with absolute values between 2 and 16, so multiples of 2⁻⁹;
    the logarithms of the counts are rounded to multiples of 2⁻²⁰. Products and sums are
    then multiples of 2⁻²⁹, which float64 represents exactly up to 2²⁴; the sum for a
    sample cannot exceed 2²⁴.
    """

    def __init__(self) -> None:
        require_identifier()
        from py3langid.langid import MODEL_FILE, LanguageIdentifier, visit_counts

        model: Any = LanguageIdentifier.from_model_file(MODEL_FILE)
        model.set_languages((*LANGUAGES, NO_LANGUAGE))
        self.languages: list[str] = model.nb_classes
        self.weights: np.ndarray = model.nb_ptc  # (features, classes)
        self.priors: np.ndarray = model.nb_pc.astype(np.float64)
        rows = [row << 8 for row in model.tk_row]
        self.count = functools.partial(
            visit_counts, model.tk_nextmove, rows, model.tk_output
        )

    def scores(self, data: bytes) -> np.ndarray:
        """Returns the log-likelihood of each class, up to a constant."""
        features = self.count(data)
        if not features:
            return np.zeros_like(self.priors)
        indices = np.fromiter(features.keys(), np.intp, len(features))
        counts = np.fromiter(features.values(), np.intp, len(features))
        logarithms = np.round(np.log1p(counts) * 2**20) / 2**20
        return logarithms @ self.weights[indices].astype(np.float64) + self.priors


def _shared_identifier() -> _Identifier:
    """Returns the process-wide model: loading takes half a second and 100 MB."""
    with _LOCK:
        return _loaded()


@functools.cache
def _loaded() -> _Identifier:
    return _Identifier()
