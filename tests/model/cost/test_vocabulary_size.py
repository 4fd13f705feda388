"""Pieces counted in every kind of file that a tokenizer is kept in."""

import json

import pytest
import sentencepiece

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.schema.tokenizer import ByteBPEConfig, PretrainedConfig
from transbeam.model.cost.vocabulary_size import count_pieces
from transbeam.pipeline.tokenizers.files.tokenizer_folder import save_tokenizer
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b")


def pretrained(path, **options):
    return count_pieces(PretrainedConfig(path=str(path), **options))


def test_a_tokenizer_to_be_learned_says_its_size():
    assert count_pieces(ByteBPEConfig(vocabulary_size=300)) == 300


@pytest.mark.parametrize("where", [".", "data/tokenizer", "tokenizer.yaml"])
def test_our_own_folder_or_a_run_s(tmp_path, where):
    folder = tmp_path / where if where != "tokenizer.yaml" else tmp_path
    model = WordPieceModel(pieces=PIECES, lowercase=False, strip_accents=False)
    save_tokenizer(folder, model)
    path = tmp_path if where != "tokenizer.yaml" else tmp_path / where
    assert pretrained(path) == 7


@pytest.mark.parametrize(
    ("name", "content", "pieces"),
    [
        ("vocab.txt", "[PAD]\n[UNK]\na\n", 3),
        ("vocab.txt", "\ufeff[PAD]\r\n\r\na\r\n\r\n", 3),
        ("vocab.txt", "[PAD]\n[UNK]\na", 3),
        ("vocab.json", json.dumps({"a": 0, "b": 1}), 2),
        ("encoder.json", json.dumps({"a": 0, "b": 1, "c": 2}), 3),
        (
            "tokenizer.json",
            json.dumps(
                {
                    "model": {"vocab": {"a": 0, "<s>": 1}},
                    "added_tokens": [{"id": 1}, {"id": 2}],
                }
            ),
            3,
        ),
    ],
)
def test_other_programs_files(tmp_path, name, content, pieces):
    (tmp_path / name).write_text(content)
    assert pretrained(tmp_path) == pieces
    assert pretrained(tmp_path / name) == pieces


@pytest.mark.parametrize(
    ("file", "told", "pieces"),
    [
        ("added_tokens.json", {"<x>": 3, "<y>": 4}, 5),
        ("added_tokens.json", {"[PAD]": 0}, 3),
        ("tokenizer_config.json", {"added_tokens_decoder": {"0": {}, "3": {}}}, 4),
        ("tokenizer_config.json", {"do_lower_case": True}, 3),
    ],
)
def test_tokens_that_were_added_beside(tmp_path, file, told, pieces):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\na\n")
    (tmp_path / file).write_text(json.dumps(told))
    assert pretrained(tmp_path) == pieces


def test_either_of_two_files(tmp_path):
    (tmp_path / "vocab.json").write_text('{"a": 0}')
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    assert pretrained(tmp_path / "merges.txt") == 1


def test_sentence_pieces_and_sentinels(tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c d e f g h", "the cat sat on the mat"] * 20),
        model_prefix=str(tmp_path / "spiece"),
        vocab_size=30,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    model = tmp_path / "spiece.model"
    expected = sentencepiece.SentencePieceProcessor(str(model)).get_piece_size()
    assert pretrained(tmp_path) == expected
    assert pretrained(model, num_sentinels=100) == expected + 100


def test_no_files(tmp_path):
    with pytest.raises(ConfigError, match=r"no such file .* --vocabulary-size"):
        pretrained(tmp_path / "gone")
    with pytest.raises(ConfigError, match="contains no tokenizer"):
        pretrained(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("vocab.json", b"{"),
        ("vocab.json", b"[" * 100_000),
        ("tokenizer.json", b"{}"),
        ("tokenizer.json", b"[1]"),
        ("tokenizer.yaml", b"kind: wordpiece"),
        ("spiece.model", b"\x0a\xff"),
        ("spiece.model", b"not a model"),
    ],
)
def test_damaged_files(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ArtifactError, match=f"{name}: cannot count the pieces"):
        pretrained(tmp_path)
