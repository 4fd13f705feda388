"""The tokenizer and the chat template beside a SavedModel."""

import pytest

from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.base.framing import Framing
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel
from transbeam.serving.base.exported_tokenizer import (
    CHAT_TEMPLATE,
    FOLDER,
    read_chat_template,
    read_exported_tokenizer,
    write_exported_tokenizer,
)

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a")


def tokenizer(**rules):
    return WordPieceModel(
        pieces=PIECES, lowercase=False, strip_accents=False, framing=Framing(**rules)
    )


def test_what_is_written_is_read(tmp_path):
    model = tokenizer(chat_template="{{ messages }}é")
    write_exported_tokenizer(tmp_path, model)
    assert read_exported_tokenizer(tmp_path) == model
    assert read_chat_template(tmp_path) == "{{ messages }}é"


def test_a_tokenizer_without_a_template(tmp_path):
    write_exported_tokenizer(tmp_path, tokenizer())
    assert read_exported_tokenizer(tmp_path) == tokenizer()
    assert read_chat_template(tmp_path) is None


def test_older_exports_have_none(tmp_path):
    assert read_exported_tokenizer(tmp_path) is None
    assert read_chat_template(tmp_path) is None


def test_damaged_files(tmp_path):
    write_exported_tokenizer(tmp_path, tokenizer(chat_template="x"))
    (tmp_path / FOLDER / "vocab.txt").write_text("a\n")
    with pytest.raises(ArtifactError, match=r"vocab\.txt: sha256 is"):
        read_exported_tokenizer(tmp_path)
    (tmp_path / CHAT_TEMPLATE).write_bytes(b"\xff")
    with pytest.raises(ArtifactError, match="cannot be read as UTF-8 text"):
        read_chat_template(tmp_path)
