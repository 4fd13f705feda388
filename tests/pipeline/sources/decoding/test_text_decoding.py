"""Bytes become text by a declared or a detected encoding, alike for a whole file."""

from pathlib import Path

import pytest

from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.configs.schema.table_sources import CsvSourceConfig, JsonlSourceConfig
from transbeam.pipeline.documents.document import (
    BrokenFile,
    Document,
    Rejected,
    SourceFile,
    Span,
)
from transbeam.pipeline.sources.corpus_files import list_files
from transbeam.pipeline.sources.decoding.text_decoding import find_codec
from transbeam.pipeline.sources.files.reading_report import ReadingReport, reported
from transbeam.pipeline.sources.readers import plain_text
from transbeam.pipeline.sources.work_units import plan_units, read_unit

FRENCH = (
    "Ça va très bien, merci. L’été est déjà passé, et nous n’avons rien fait. Où "
    "êtes-vous allés cette année ? À Évian, près du lac, avec les garçons."
)
RUSSIAN = "Съешь ещё этих мягких французских булок, да выпей чаю. Они были вкусные."


def codec(path: Path, encoding: str) -> str:
    return find_codec(SourceFile.at(path, "a"), encoding)


def test_first_block_that_is_not_ascii_decides(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    ascii_blocks = b"0123456789abcdef" * (1 << 17)  # 2 MiB
    path.write_bytes(ascii_blocks)
    assert codec(path, "detect") == "utf-8"
    path.write_bytes(ascii_blocks + b"\n" + FRENCH.encode("cp1252"))
    assert codec(path, "detect") == "cp1252"
    # A sample of 1 MiB that ends within the two bytes of é.
    path.write_bytes(b"x" * (2**20 - 3) + "ééé".encode())
    assert codec(path, "detect") == "utf-8"
    path.write_bytes(ascii_blocks + RUSSIAN.encode("iso2022_jp"))
    assert codec(path, "detect").startswith("iso2022_jp")


def test_mark_of_a_declared_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("a".encode("utf-16-be"))
    assert codec(path, "UTF16") == "utf-16-le"
    path.write_bytes("\ufeffa".encode("utf-16-be"))
    assert codec(path, "utf_16") == "utf-16-be"
    assert codec(path, "latin-1") == "latin-1"


@pytest.mark.parametrize("text", [FRENCH, RUSSIAN])
@pytest.mark.parametrize("written", ["utf-16-le", "utf-16-be"])
def test_wide_characters_without_a_mark(tmp_path: Path, text: str, written) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode(written))
    assert codec(path, "detect") == codec(path, "utf-16") == written


def test_a_nul_in_ascii_does_not_settle_the_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    ascii_block = b"0123456789abcde\0" * (1 << 16)
    path.write_bytes(ascii_block + b"\n" + FRENCH.encode("cp1252"))
    assert codec(path, "detect") == "cp1252"


def test_file_that_cannot_be_told(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"a very short word: caf\xe9")
    with pytest.raises(BrokenFile) as caught:
        codec(path, "detect")
    assert caught.value.damage[-1].reason == "encoding cannot be told"
    assert "declare the source's encoding" in caught.value.damage[-1].detail


@pytest.mark.parametrize("read_as", ["utf-8", "latin-1"])
@pytest.mark.parametrize("written", ["utf-16", "utf-32"])
@pytest.mark.parametrize("kind", [TextSourceConfig, CsvSourceConfig, JsonlSourceConfig])
def test_a_byte_order_mark_of_another_encoding_is_named(
    tmp_path: Path, kind: type, written: str, read_as: str
) -> None:
    path = tmp_path / "a"
    path.write_bytes('{"text": "x"}\n'.encode(written))
    source = kind(path=str(path), encoding=read_as)
    (unit,) = plan_units(list_files(source), source, 1000)
    (entry,) = read_unit(unit, source)
    assert isinstance(entry, Rejected)
    assert entry.reason == f"{written.upper()} by its byte order mark, not {read_as}"
    assert entry.excerpt == f"write data.source.encoding: {written}, or detect"
    assert entry.unread == path.stat().st_size


def test_what_was_detected_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(FRENCH.encode("cp1252"))
    source = TextSourceConfig(path="*", document="file", encoding="detect")
    file = SourceFile.at(path, "a.txt")
    report = ReadingReport()
    (document,) = reported(plain_text.read(Span(file, 0, file.size), source), report)
    assert isinstance(document, Document)
    assert document.text == FRENCH
    codec, confidence = report.encodings["a.txt"]
    assert codec == "cp1252"
    assert 0.5 <= confidence < 1
