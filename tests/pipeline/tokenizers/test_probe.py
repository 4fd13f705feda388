import pytest

from pipeline.tokenizers import probe


@pytest.mark.thorough
def test_the_checked_in_file_is_what_the_rust_library_answers_today():
    assert probe.render() == probe.GENERATED_FILE.read_text(encoding="utf-8")
