"""Languages: told rightly, alike everywhere, and loud where they cannot be told."""

import importlib.metadata
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.yaml_config import parse_run
from transbeam.configs.schema.cleaning import (
    LANGUAGES,
    CleaningConfig,
    LanguageRulesConfig,
)
from transbeam.pipeline.cleaning import language_identification as languages
from transbeam.pipeline.cleaning.language_identification import (
    language_reason,
    probabilities,
    take_sample,
)
from transbeam.pipeline.cleaning.text_cleaning import filter_reason
from transbeam.pipeline.stage import data

SENTENCES = {
    "ar": "وصل القطار متأخرا هذا الصباح، فانتظر الناس طويلا على الرصيف تحت المطر.",
    "cs": "Dnes ráno přijel vlak pozdě a lidé dlouho čekali v dešti na nástupišti.",
    "de": "Der Zug kam heute Morgen zu spät, und wir warteten lange im Regen.",
    "el": "Το τρένο άργησε σήμερα το πρωί και περιμέναμε πολλή ώρα στη βροχή.",
    "en": "The train was late this morning, and we waited in the rain for a long time.",
    "es": "El tren llegó tarde esta mañana y esperamos mucho tiempo bajo la lluvia.",
    "fi": "Juna oli tänä aamuna myöhässä, ja odotimme pitkään sateessa asemalla.",
    "fr": "Le train est arrivé en retard ce matin et nous avons attendu sous la pluie.",
    "it": "Il treno è arrivato in ritardo stamattina e abbiamo aspettato a lungo.",
    "ja": "今朝は電車が遅れて、私たちは雨の中で長い間待っていました。",
    "ko": "오늘 아침 기차가 늦게 와서 우리는 빗속에서 오랫동안 기다렸습니다.",
    "nl": "De trein was vanochtend te laat en we hebben lang in de regen gewacht.",
    "pl": "Pociąg spóźnił się dziś rano i długo czekaliśmy na peronie w deszczu.",
    "ru": "Сегодня утром поезд опоздал, и мы долго ждали под дождём на платформе.",
    "sv": "Tåget var försenat i morse och vi fick vänta länge i regnet på perrongen.",
    "tr": "Bu sabah tren geç kaldı ve yağmurun altında uzun süre bekledik.",
    "zh": "今天早上火车晚点了，我们在雨里等了很长时间。",
}


def reason(text: str, *allowed: str, **rules: float) -> str | None:
    return language_reason(text, LanguageRulesConfig(allowed=allowed, **rules))


@pytest.mark.parametrize("language", SENTENCES)
def test_a_sentence_is_kept_for_its_own_language_alone(language: str) -> None:
    text = SENTENCES[language]
    others = [other for other in SENTENCES if other != language]
    assert reason(text, language) is None
    assert reason(text, language, *others) is None
    assert reason(text, *others) == f"language {language} is not wanted"
    assert reason(text.upper(), language) is None


@pytest.mark.parametrize("text", ["Ok", "?!", "a", "Taxi Hotel Radio"])
def test_too_little_to_tell(text: str) -> None:
    assert reason(text, "en", "de") == "language uncertain"


def test_numbers_are_in_no_language() -> None:
    table = "\n".join(f"{n * 37 % 1009}\t{n * n}\t{n * 91 % 757}" for n in range(40))
    assert reason(table, *LANGUAGES) == "language zxx is not wanted"


def test_the_probability_is_of_any_allowed_language() -> None:
    text = "Danas je lijepo vrijeme."  # Bosnian, Croatian or Serbian: who can say?
    found = probabilities(text)
    each = sorted(found[language] for language in ("bs", "hr", "sr"))
    between = (each[-1] + sum(each)) / 2
    assert reason(text, "hr", minimum_probability=between) == "language uncertain"
    assert reason(text, "hr", "bs", "sr", minimum_probability=between) is None
    assert reason(text, "hr", "hr", "hr", minimum_probability=between) is not None


def test_bounds_of_the_probability() -> None:
    certain = probabilities(SENTENCES["de"])["de"]
    assert reason(SENTENCES["de"], "de", minimum_probability=certain) is None
    above = certain + 1e-6
    assert reason(SENTENCES["de"], "de", minimum_probability=above) is not None
    assert reason("?!", "en", minimum_probability=0.0) is None


def test_all_of_a_long_text_is_looked_at_but_little_of_it() -> None:
    licence = (SENTENCES["en"] + " ") * 5
    body = (SENTENCES["fr"] + " ") * 100
    assert reason(licence * 3, "fr") == "language en is not wanted"
    assert reason(licence + body + licence, "fr") is None
    numbered = "".join(f"{number:08d}" for number in range(10_000))
    pieces = take_sample(numbered).split("\n")
    assert [len(piece) for piece in pieces] == [250] * 4
    assert [numbered.index(piece) for piece in pieces] == [
        9_875,
        29_875,
        49_875,
        69_875,
    ]
    assert take_sample(numbered[:1000]) == numbered[:1000]
    assert take_sample(numbered[:1001]).replace("\n", "") == numbered[:1000]


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_every_text_gets_probabilities(text: str) -> None:
    found = probabilities(text)
    assert set(found) == {*LANGUAGES, "zxx"}
    assert math.isclose(sum(found.values()), 1.0, abs_tol=1e-9)


def test_the_known_languages_are_the_models() -> None:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    labels = LanguageIdentifier.from_model_file(MODEL_FILE).labels
    assert {*LANGUAGES, "zxx"} == {
        label for label in labels if len(label) == 2 or label == "zxx"
    }


def test_the_probabilities_are_the_librarys_but_for_rounding() -> None:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    theirs = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    theirs.set_languages((*LANGUAGES, "zxx"))
    for text in (*SENTENCES.values(), "STOP, ALL OF YOU!", "e\u0301te\u0301", "Ok", ""):
        # Their float32 is good to about 1e-7 of scores of some hundreds.
        assert probabilities(text) == pytest.approx(dict(theirs.rank(text)), abs=1e-4)


@pytest.mark.parametrize("text", [*SENTENCES.values(), " ".join(SENTENCES.values())])
def test_the_sum_is_exact(text: str) -> None:
    identifier = languages._shared_identifier()
    data = text.encode("utf-8")
    sums = [round(prior * 2**29) for prior in identifier.priors.tolist()]
    for feature, count in identifier.count(data).items():
        logarithm = round(math.log1p(count) * 2**20)
        for column, weight in enumerate(identifier.weights[feature].tolist()):
            sums[column] += logarithm * int(weight * 2**9)
    assert [int(score * 2**29) for score in identifier.scores(data).tolist()] == sums


PROGRAM = """
import sys
from transbeam.pipeline.cleaning.language_identification import _shared_identifier
for line in sys.stdin.buffer.read().splitlines():
    print(_shared_identifier().scores(line).tobytes().hex())
"""


def test_the_same_in_every_process_order_and_thread() -> None:
    texts = [*SENTENCES.values(), " ".join(SENTENCES.values())]
    scores = languages._shared_identifier().scores
    here = [scores(text.encode()).tobytes().hex() for text in texts]
    backwards = [scores(text.encode()).tobytes().hex() for text in reversed(texts)]
    assert backwards[::-1] == here
    with ThreadPoolExecutor(4) as pool:
        threaded = list(pool.map(probabilities, texts * 5))
    assert threaded == [probabilities(text) for text in texts] * 5
    # Matrix products as an old processor takes them.
    old = {"OPENBLAS_CORETYPE": "Nehalem", "OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input="\n".join(texts).encode(),
        env={**os.environ, **old},
        capture_output=True,
        check=True,
    )
    assert result.stdout.decode().split() == here


@pytest.mark.parametrize(
    ("rules", "imported"),
    [("", False), ("languages=LanguageRulesConfig(allowed=('en',))", True)],
)
def test_the_library_is_imported_only_when_it_is_asked_for(
    rules: str, imported: bool
) -> None:
    program = (
        "import sys\n"
        "from transbeam.configs.schema.cleaning import CleaningConfig\n"
        "from transbeam.configs.schema.cleaning import LanguageRulesConfig\n"
        "from transbeam.pipeline.cleaning import text_cleaning\n"
        f"rules = CleaningConfig({rules})\n"
        "text = text_cleaning.clean_text('A text.', rules)\n"
        "text_cleaning.filter_reason(text, rules)\n"
        "print('py3langid' in sys.modules)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == str(imported)


@pytest.mark.parametrize("found", [None, "0.3.0", "0.40.1"])
def test_without_the_library_the_job_does_not_begin(invoke, monkeypatch, found) -> None:
    def version(name: str) -> str:
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(importlib.metadata, "version", version)
    invocation = invoke("run", "data.cleaning.languages={allowed: [en]}")
    told = rf"needs py3langid 0.4.*, found {found or 'none'}.*'transbeam\[languages\]'"
    with pytest.raises(ConfigError, match=told):
        data(invocation)
    assert not invocation.run_folder.exists()
    languages._loaded.cache_clear()
    with pytest.raises(ConfigError, match=told):
        reason("A worker finds out by itself.", "en")


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ("{allowed: [en, zh-cn]}", "'zh-cn' is not the ISO 639-1 code of a language"),
        ("{allowed: [EN]}", "'EN' is not the ISO 639-1 code.*Known here: af, am,"),
        ("{allowed: []}", "would drop every document"),
        ("{allowed: en}", r"expected a list of text.*Write \[en\]"),
        ("{allowed: [en], minimum_probability: 1.5}", "from 0.0 to 1.0"),
        ("{minimum_probability: 0.5}", "allowed: this required key is missing"),
    ],
)
def test_rules_that_make_no_sense(rules: str, told: str) -> None:
    run = "name: run\ndata:\n  source: {kind: text, path: corpus.txt}\n"
    with pytest.raises(ConfigError, match=told):
        parse_run(f"{run}  cleaning:\n    languages: {rules}\n", "run.yaml", ())


def test_norwegian_is_a_language_and_not_a_no() -> None:
    run = "name: run\ndata:\n  source: {kind: text, path: corpus.txt}\n"
    rules = "  cleaning: {languages: {allowed: [no]}}\n"
    cleaning = parse_run(run + rules, "run.yaml", ()).data.cleaning
    assert cleaning.languages == LanguageRulesConfig(allowed=("no",))
    text = "Toget var forsinket i dag tidlig, og vi ventet lenge i regnet."
    assert filter_reason(text, cleaning) is None


def test_the_rule_is_one_of_the_cleaning_rules() -> None:
    config = CleaningConfig(languages=LanguageRulesConfig(allowed=("de",)))
    assert filter_reason(SENTENCES["de"], config) is None
    assert filter_reason(SENTENCES["en"], config) == "language en is not wanted"
    assert filter_reason("", config) == "empty"
