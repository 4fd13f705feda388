"""A tokenizer's folder comes back as it was saved, or not at all."""

import hashlib

import pytest
import yaml

import pipeline.tokenizers
from configs.errors import ArtifactError
from configs.tokenizer import WordPieceConfig
from pipeline.tokenizers.artifact import (
    load_tokenizer,
    read_tokenizer,
    save_tokenizer,
    tokenizer_fingerprint,
)
from pipeline.tokenizers.vocabulary import SPECIAL_PIECES, check_vocabulary

PIECES = [*SPECIAL_PIECES, "a", "##b", "é", "漢"]


@pytest.fixture
def folder(tmp_path):
    save_tokenizer(tmp_path / "tokenizer", PIECES, WordPieceConfig())
    return tmp_path / "tokenizer"


def edit_metadata(folder, **changes):
    path = folder / "tokenizer.yaml"
    metadata = yaml.safe_load(path.read_text()) | changes
    path.write_text(yaml.safe_dump({k: v for k, v in metadata.items() if v != "gone"}))


def test_vocabulary_is_written_in_the_format_of_bert(folder):
    expected = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\né\n漢\n"
    assert (folder / "vocab.txt").read_bytes() == expected.encode()


def test_metadata_says_how_text_is_normalised(folder):
    assert yaml.safe_load((folder / "tokenizer.yaml").read_text()) == {
        "format_version": 1,
        "kind": "wordpiece",
        "lowercase": True,
        "strip_accents": True,
        "vocabulary_size": 9,
        "special_ids": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4},
        "vocabulary_sha256": hashlib.sha256(
            (folder / "vocab.txt").read_bytes()
        ).hexdigest(),
    }


def test_loaded_tokenizer_works_as_saved(tmp_path):
    save_tokenizer(tmp_path, PIECES, WordPieceConfig(lowercase=False))
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.vocabulary == tuple(PIECES)
    assert tokenizer.tokenize(["ab é漢 A"]).to_list() == [[5, 6, 7, 8, 1]]
    # Not bound to a name, the tokenizer must live as long as the call.
    assert load_tokenizer(tmp_path).tokenize(["a"]).to_list() == [[5]]


def test_pieces_that_other_readers_would_cut_or_strip_survive(tmp_path):
    odd = ["\u2028", "\u0085", "\r", "\x0b", "\x1c", " ", "\u00a0a", "b\r", "##\u2029"]
    save_tokenizer(tmp_path, [*PIECES, *odd], WordPieceConfig())
    assert read_tokenizer(tmp_path).vocabulary == (*PIECES, *odd)


def test_fingerprint_changes_with_whatever_changes_ids(tmp_path):
    def fingerprint(pieces, **options):
        save_tokenizer(tmp_path, pieces, WordPieceConfig(**options))
        return tokenizer_fingerprint(tmp_path)

    first = fingerprint(PIECES)
    assert fingerprint(PIECES) == first
    assert fingerprint(PIECES, strip_accents=True) == first
    others = [
        fingerprint([*PIECES, "z"]),
        fingerprint([*PIECES[:-2], *reversed(PIECES[-2:])]),
        fingerprint(PIECES, lowercase=False),
        fingerprint(PIECES, strip_accents=False),
    ]
    assert len({first, *others}) == 5


@pytest.mark.parametrize("name", ["vocab.txt", "tokenizer.yaml"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(ArtifactError, match=f"{name}: cannot be read"):
        load_tokenizer(folder)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(ArtifactError, match="nowhere"):
        tokenizer_fingerprint(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: content + b"z\n",
        lambda content: content.replace(b"\n", b"\r\n"),
        lambda content: content.replace(b"a\n", b"c\n"),
    ],
)
def test_an_altered_vocabulary_is_refused_with_both_sums(folder, damage):
    path = folder / "vocab.txt"
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(damage(path.read_bytes()))
    after = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(ArtifactError, match=f"{after}.*{before}.*make the tokenizer"):
        read_tokenizer(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": 2}, "format_version is 2, expected 1"),
        ({"format_version": "gone"}, "format_version is None"),
        ({"lowercase": "gone"}, "lowercase is None, expected true or false"),
        ({"strip_accents": "yes"}, "strip_accents is 'yes'"),
        ({"vocabulary_sha256": "gone"}, "vocabulary_sha256 is missing"),
        ({"vocabulary_sha256": "0" * 64}, "expects 0000"),
        ({"kind": "byte_pair"}, "found {'kind': 'byte_pair'}, expected"),
        ({"vocabulary_size": 10}, "{'vocabulary_size': 10}"),
        ({"special_ids": "gone"}, "expected {'special_ids'"),
        ({"surprise": 1}, "found {'surprise': 1}, expected {}"),
    ],
)
def test_altered_metadata_is_refused(folder, changes, message):
    edit_metadata(folder, **changes)
    with pytest.raises(ArtifactError, match=message):
        read_tokenizer(folder)


@pytest.mark.parametrize("text", ["", "- 1", "{", "just text", "a: \x00"])
def test_metadata_that_is_not_a_mapping_is_refused(folder, text):
    (folder / "tokenizer.yaml").write_text(text)
    with pytest.raises(ArtifactError, match=r"tokenizer\.yaml"):
        read_tokenizer(folder)


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        (["a", "b"], r"\[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\] is missing"),
        ([*PIECES, "a"], "piece 5, 'a', is there 2 times"),
        ([*PIECES, ""], "piece 9, '', is empty"),
        ([*PIECES, "x\ny"], "has a line feed in it"),
        ([*PIECES, "é" * 129], "is longer than 256 bytes"),
    ],
)
def test_an_unusable_vocabulary_is_neither_saved_nor_loaded(folder, pieces, message):
    before = (folder / "vocab.txt").read_bytes()
    with pytest.raises(ArtifactError, match=message):
        save_tokenizer(folder, pieces, WordPieceConfig())
    assert (folder / "vocab.txt").read_bytes() == before
    content = "".join(f"{piece}\n" for piece in pieces).encode()
    (folder / "vocab.txt").write_bytes(content)
    edit_metadata(folder, vocabulary_sha256=hashlib.sha256(content).hexdigest())
    with pytest.raises(ArtifactError):
        read_tokenizer(folder)


def test_the_longest_piece_allowed_fits_the_kernel(tmp_path):
    longest = "##" + "é" * 128
    check_vocabulary([*PIECES, longest], where="here")
    save_tokenizer(tmp_path, [*PIECES, longest], WordPieceConfig(lowercase=False))
    text = "a" + "é" * 64 + "é" * 35
    assert load_tokenizer(tmp_path).tokenize([text]).to_list() == [[1]]


def test_public_names_are_found_in_the_package():
    for name in pipeline.tokenizers.__all__:
        assert getattr(pipeline.tokenizers, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pipeline.tokenizers.nothing
