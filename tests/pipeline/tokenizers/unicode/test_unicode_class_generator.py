import re

import pytest

from transbeam.pipeline.tokenizers.unicode import (
    unicode_class_generator,
    unicode_classes,
)

# Where most scripts are, and a stretch of each plane that has characters of its own.
SOME = [
    *range(0x3100),
    *range(0xFB00, 0x10000),
    *range(0x10400, 0x10500),
    *range(0x11930, 0x11940),
    *range(0x2F800, 0x2F810),
    *range(0xE0000, 0xE0100),
]
CLASSES = ["control", "whitespace", "cjk", "mark", "punctuation"]
CLASSES += ["gpt2_letter", "gpt2_number", "gpt2_whitespace"]


@pytest.mark.thorough(
    instead="test_some_code_points_are_what_the_rust_library_answers_today, "
    "test_every_code_point_of_the_basic_plane"
)
def test_the_checked_in_file_is_what_the_rust_library_answers_today():
    assert (
        unicode_class_generator.render()
        == unicode_class_generator.GENERATED_FILE.read_text(encoding="utf-8")
    )


def members(name: str) -> list[int]:
    """The code points of a class of the checked-in file."""
    written = getattr(unicode_classes, name.upper())
    ranges = re.findall(r"\\x\{(\w+)\}(?:-\\x\{(\w+)\})?", written)
    return [c for a, b in ranges for c in range(int(a, 16), int(b or a, 16) + 1)]


def spread(
    runs: tuple[unicode_class_generator.Run, ...] | list[unicode_class_generator.Run],
) -> dict[int, int]:
    return {
        code_point: code_point + shift
        for first, last, step, shift in runs
        for code_point in range(first, last + 1, step)
    }


def test_some_code_points_are_what_the_rust_library_answers_today(monkeypatch):
    monkeypatch.setattr(unicode_class_generator, "_CODE_POINTS", SOME)
    found = (
        unicode_class_generator.probe_classes()
        | unicode_class_generator.probe_gpt2_classes()
    )
    assert list(found) == CLASSES
    some = set(SOME)
    for name in CLASSES:
        assert found[name] == [c for c in members(name) if c in some], name
    lower = spread(unicode_classes.LOWERCASE)
    expected = {c: to for c, to in lower.items() if c in some}
    assert spread(unicode_class_generator.probe_lowercase()) == expected
    exempt = some & set(spread(unicode_classes.NFD_EXEMPT))
    assert set(spread(unicode_class_generator.probe_nfd_exempt())) == exempt
    assert len(exempt) > 3


def test_the_file_is_written_as_it_is_checked_in():
    written = unicode_class_generator.GENERATED_FILE.read_text(encoding="utf-8")
    assert written.startswith(unicode_class_generator._HEADER)
    for name in CLASSES:
        assert (
            unicode_class_generator._class_source(name.upper(), members(name))
            in written
        )
    for name in ("LOWERCASE", "NFD_EXEMPT"):
        assert (
            unicode_class_generator._runs_source(name, getattr(unicode_classes, name))
            in written
        )
    stand_ins = spread(unicode_classes.NFD_EXEMPT).values()
    assert list(stand_ins) == [0xF0000 + i for i in range(len(stand_ins))]


def test_stretches_of_neighbours():
    assert [*unicode_class_generator._first_and_last([1, 2, 3, 7, 9, 10])] == [
        (1, 3),
        (7, 7),
        (9, 10),
    ]
