"""Splits by hash, and what cleaning keeps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.documents.split_rule import split_of
from transbeam.configs.schema.cleaning import CleaningConfig
from transbeam.pipeline.cleaning.text_cleaning import filter_reason, quarantine_reason
from transbeam.pipeline.documents.document import document_hash, excerpt


def test_split_share_and_growth() -> None:
    hashes = [document_hash(f"document {i}") for i in range(20_000)]
    held_out = {h for h in hashes if split_of(h, 0.05) == "validation"}
    assert abs(len(held_out) - 1000) < 5 * (20_000 * 0.05 * 0.95) ** 0.5
    # A larger share keeps what was held out before.
    assert all(split_of(h, 0.1) == "validation" for h in held_out)
    assert all(split_of(h, 0.0) == "train" for h in hashes)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("fine", None),
        ("a\0b", "contains NUL, so it is binary"),
        ("a\ud800b", "contains a lone surrogate, which has no UTF-8 form"),
        ("x" * 11, "longer than 10 characters"),
    ],
)
def test_quarantine(text: str, reason: str | None) -> None:
    assert quarantine_reason(text, CleaningConfig(maximum_characters=10)) == reason


def test_filter_counts_characters_not_bytes() -> None:
    assert filter_reason("äöü", CleaningConfig(minimum_characters=3)) is None
    assert filter_reason("äö", CleaningConfig(minimum_characters=3)) is not None


@given(st.one_of(st.text(), st.binary()))
def test_excerpts_can_always_be_written(raw: str | bytes) -> None:
    excerpt(raw).encode("utf-8")
