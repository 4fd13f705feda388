import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.configs.base.errors import ConfigError, DataError
from transbeam.configs.schema.cleaning import (
    CleaningConfig,
    LineRulesConfig,
    PersonalDataConfig,
    QualityRulesConfig,
    RepetitionRulesConfig,
    ScriptRulesConfig,
)
from transbeam.pipeline.cleaning.text_cleaning import (
    clean_text,
    filter_reason,
    quarantine_reason,
)

PROSE = (
    "The river rises in the hills to the north of the town, and it is fed by a number "
    "of small streams that have their sources in the woods. In the winter months it "
    "often floods the low fields between the two bridges; the people who live there "
    "keep their cattle on higher ground until the water has gone down again in March."
)


def reason(text: str, **rules) -> str | None:
    return filter_reason(text, CleaningConfig(**rules))


def test_prose_passes_every_rule() -> None:
    config = CleaningConfig(
        lines=LineRulesConfig(),
        scripts=ScriptRulesConfig(allowed=("latin",)),
        quality=QualityRulesConfig(),
        repetition=RepetitionRulesConfig(),
        personal_data=PersonalDataConfig(),
    )
    assert clean_text(PROSE, config) == PROSE
    assert filter_reason(PROSE, config) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (PROSE.replace(" ", "# "), "more than 0.1 hash signs per word"),
        (PROSE.replace(" ", "... "), "more than 0.1 ellipses per word"),
        (
            "\n".join(f"•{word} river" for word in PROSE.split()),
            "bullets on more than 90%",
        ),
        (PROSE.replace(" ", "\n") + "...", None),
        ("x y " * 60, "words shorter than 3 on average"),
        ("abcdefghijkl " * 60, "words longer than 10 on average"),
        ("12345 " * 60, "letters in fewer than 80% of the words"),
        ("Haus Garten Baum " * 20, "fewer than 2 stop words"),
        (" ".join(PROSE.split()[:49]), "fewer than 50 words"),
        (" ".join(PROSE.split()[:50]), None),
    ],
)
def test_quality(text: str, told: str | None) -> None:
    found = reason(text, quality=QualityRulesConfig())
    assert found is None if told is None else (found or "").startswith(told)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a b\nc d\na b", "more than 30% of the lines"),
        ("a b\nccccccc ddddd\neeeeee fffffff\na b", None),  # 25% of the lines
        ("a\n\nb\n\na", "more than 30%"),
        # 10 words of 1 character; "o o" is found 2 times and has 2 characters: 40%.
        ("a b c o o d e f o o", "more than 20% of the characters in the most freq"),
        ("one two three four five " + "six seven eight nine ten", None),
    ],
)
def test_repetition(text: str, told: str | None) -> None:
    rules = RepetitionRulesConfig(duplicate_line_characters=0.3)
    found = reason(text, repetition=rules)
    assert found is None if told is None else (found or "").startswith(told)


def test_repeated_runs_count_each_word_once() -> None:
    run = "alpha beta gamma delta epsilon"  # 26 characters
    text = f"{run} x {run} y"  # 52 of 54 characters are in a run of 5 that recurs
    rules = {"top_2_gram": 1.0, "top_3_gram": 1.0, "top_4_gram": 1.0}
    allowed = RepetitionRulesConfig(**rules, duplicate_5_grams=0.97)
    refused = RepetitionRulesConfig(**rules, duplicate_5_grams=0.96)
    assert reason(text, repetition=allowed) is None
    assert reason(text, repetition=refused) == (
        "more than 96% of the characters in repeated runs of 5 words"
    )


def test_lines_of_a_web_page() -> None:
    page = (
        "Home\nThe museum opens at ten on weekdays.\nPlease enable JavaScript in your "
        "browser now.\nRead more...\n“It is worth the journey,” she said."
    )
    kept = clean_text(page, CleaningConfig(lines=LineRulesConfig()))
    assert kept == (
        "The museum opens at ten on weekdays.\n“It is worth the journey,” she said."
    )


def test_scripts_by_share_of_letters() -> None:
    rules = ScriptRulesConfig(allowed=("latin", "greek"), share=0.75)
    assert reason("abcd ефг", scripts=rules) is not None  # 4 of 7
    assert reason("abcαβγ е 1234", scripts=rules) is None  # 6 of 7
    assert reason("12 34 !?", scripts=rules) is None


def test_personal_data() -> None:
    config = CleaningConfig(personal_data=PersonalDataConfig())
    text = (
        "a.b+c@mail.example.org 192.168.0.1 8.8.4.4 3.14.15.926 (555) 123-4567 2.10.0"
    )
    assert clean_text(text, config) == (
        "<email> 192.168.0.1 <ip> 3.14.15.926 <phone> 2.10.0"
    )
    kept = CleaningConfig(
        personal_data=PersonalDataConfig(
            emails=False, phone_numbers=False, ip_addresses=False
        )
    )
    assert clean_text(text, kept) == text


def shout(text: str) -> str:
    return text.upper()


def fail(text: str) -> int:
    return len(text) // 0 if text == "bad" else len(text)


def test_a_hook_of_ones_own() -> None:
    def cleaned(text: str, name: str) -> str:
        rules = PersonalDataConfig(hook=f"{__name__}:{name}")
        return clean_text(text, CleaningConfig(personal_data=rules))

    assert cleaned("quiet", "shout") == "QUIET"
    with pytest.raises(DataError, match="returned int, expected a text"):
        cleaned("text", "fail")
    with pytest.raises(DataError, match="ZeroDivisionError"):
        cleaned("bad", "fail")
    with pytest.raises(ConfigError, match="cannot be imported"):
        cleaned("text", "missing")
    with pytest.raises(ConfigError, match=r"package\.module:name"):
        PersonalDataConfig(hook="no function")


def test_what_needs_a_person() -> None:
    config = CleaningConfig(maximum_characters=5, control_characters="remove")
    assert quarantine_reason("a\0", config) == "contains NUL, so it is binary"
    assert quarantine_reason("\ud800", config) is not None
    assert quarantine_reason("123456", config) == "longer than 5 characters"
    assert quarantine_reason("é\x07", config) is None


@given(st.text())
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    config = CleaningConfig(
        normalization="nfkc", control_characters="remove", lines=LineRulesConfig()
    )
    once = clean_text(text, config)
    assert clean_text(once, config) == once
