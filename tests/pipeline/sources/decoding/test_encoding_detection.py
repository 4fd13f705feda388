"""An encoding is told when it is certain enough, and never guessed in silence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.pipeline.sources.decoding import encoding_detection
from transbeam.pipeline.sources.decoding.encoding_detection import THRESHOLD, detect
from transbeam.pipeline.sources.decoding.text_decoding import decode

FRENCH = """\
Ça va très bien, merci. L’été est déjà passé, et nous n’avons rien fait. Où êtes-vous
allés cette année ? À Évian, près du lac, avec les garçons qui aiment nager. Ma sœur,
elle, préfère rester chez nous : elle lit, dessine et goûte aux gâteaux de son père.
"""
GERMAN = """\
Die Bürger der größeren Städte wünschen sich schönere Straßen, weniger Lärm und mehr
Bäume. Über die Brücke führt künftig nur noch ein Weg für Fußgänger und Räder.
"""
POLISH = """\
Zażółć gęślą jaźń. Wczoraj po południu wróciliśmy z gór, gdzie śnieg już stopniał, a na
łąkach kwitły pierwsze krokusy. Później zjedliśmy obiad u babci, która mieszka w Łodzi.
"""
RUSSIAN = """\
Съешь ещё этих мягких французских булок, да выпей чаю. Вчера вечером мы вернулись из
деревни, где уже растаял снег, и долго рассказывали бабушке о том, что видели в лесу.
"""
GREEK = """\
Χθες το απόγευμα γυρίσαμε από το χωριό, όπου είχε ήδη λιώσει το χιόνι, και διηγηθήκαμε
στη γιαγιά όσα είδαμε στο δάσος. Ύστερα φάγαμε όλοι μαζί και ήπιαμε τσάι στην αυλή.
"""
TURKISH = """\
Dün öğleden sonra köyden döndük; karlar çoktan erimişti. Ninemize ormanda gördüklerimizi
uzun uzun anlattık, sonra hep birlikte yemek yiyip bahçede çay içtik. Işıklar söndü.
"""
HEBREW = "אתמול אחר הצהריים חזרנו מהכפר, שם השלג כבר נמס, וסיפרנו לסבתא מה ראינו ביער."
JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。"
CHINESE = "昨天下午我们从山里回来，那里的雪已经化了。后来我们在奶奶家吃了晚饭。"
KOREAN = (
    "어제 오후에 우리는 시골에서 돌아왔다. 눈은 이미 녹아 있었고 할머니께 이야기했다."
)
# A language that the detector has no model of.
ALBANIAN = """\
Dje pasdite u kthyem nga fshati, ku bora ishte shkrirë, dhe i treguam gjyshes çfarë
kishim parë në pyll. Pastaj hëngrëm të gjithë bashkë dhe pimë çaj nën dritën e hënës.
"""


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff"))
)
def test_unicode_encodings_come_back(text: str) -> None:
    assert decode(text.encode("utf-8"), "detect") == text
    for codec in ("utf-8-sig", "utf-16", "utf-32"):
        assert decode(text.encode(codec), "detect") == text


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_told_or_refused(raw: bytes, cut: bool) -> None:
    try:
        found = detect(raw, cut=cut)
    except UnicodeDecodeError:
        return
    assert found.confidence >= THRESHOLD
    if not cut:
        raw.decode(found.codec)


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        *((FRENCH, codec) for codec in ("cp1252", "mac-roman")),
        *((GERMAN, codec) for codec in ("latin-1", "cp1252", "cp850", "mac-roman")),
        *((POLISH, codec) for codec in ("cp1250", "iso8859-2", "cp852")),
        *((RUSSIAN, codec) for codec in ("cp1251", "koi8-r", "iso8859-5", "cp866")),
        *((GREEK, codec) for codec in ("cp1253", "iso8859-7", "cp737")),
        *((TURKISH, codec) for codec in ("cp1254", "iso8859-9")),
        (HEBREW, "cp1255"),
        *((JAPANESE, codec) for codec in ("shift_jis", "euc_jp", "iso2022_jp")),
        *((CHINESE, codec) for codec in ("gb18030", "gb2312")),
        *((KOREAN, codec) for codec in ("euc_kr", "cp949")),
        *((RUSSIAN, codec) for codec in ("utf-16-le", "utf-16-be", "utf-32-le")),
    ],
)
def test_other_encodings_come_back(text: str, codec: str) -> None:
    assert decode(text.encode(codec), "detect") == text


@pytest.mark.parametrize("codec", ["cp1252", "cp1250"])
@pytest.mark.parametrize("times", [1, 20])
def test_languages_without_a_model_are_not_taken_for_others(codec, times) -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        detect((ALBANIAN * times).encode(codec))
    assert "it may be" in caught.value.reason


def test_two_bytes_of_a_character_are_not_two_symbols() -> None:
    # Quotes and dashes of Big5 in a text that is English otherwise.
    raw = (
        b"The nation\xa1\xa6s work goes on\xa1Xas it must\xa1Xin each man\xa1\xa6s "
        b"house and in the people\xa1\xa6s halls, as the old men said to us.\n"
    ) * 20
    with pytest.raises(UnicodeDecodeError):
        detect(raw)


@pytest.mark.parametrize("raw", [b"caf\xe9", bytes(range(256)), b"\x89PNG\r\n\x1a\n"])
def test_what_cannot_be_told(raw: bytes) -> None:
    with pytest.raises(UnicodeDecodeError):
        detect(raw)


def test_a_byte_that_comes_late_is_looked_at(monkeypatch) -> None:
    # Latin-9 has œ where Latin-1 has ½, and all else is alike in this text.
    monkeypatch.setattr(encoding_detection, "_EVIDENCE_BYTES", 200)
    text = FRENCH.replace("’", "'").replace("œ", "oe")
    assert decode(text.encode("latin-1"), "detect") == text
    with pytest.raises(UnicodeDecodeError, match="iso8859-15"):
        decode(f"{text}Il reste ½ litre.\n".encode("latin-1"), "detect")


def test_the_larger_set_is_for_what_may_follow() -> None:
    assert detect(CHINESE.encode("gb2312")).codec == "gb18030"
    assert detect(GERMAN.encode("latin-1")).codec == "cp1252"
