"""A tokenizer's folder comes back as it was saved, or not at all."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
import yaml

from tests.pipeline.tokenizers.sentencepiece_models import train
from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.base.vocabulary import (
    SPECIAL_PIECES,
    check_vocabulary,
)
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import ByteBPEModel
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    load_tokenizer,
    read_tokenizer,
    save_tokenizer,
    tokenizer_fingerprint,
)
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel

PIECES = (*SPECIAL_PIECES, "a", "##b", "é", "漢")


def wordpiece(pieces=PIECES, *, lowercase=True, strip_accents=True):
    return WordPieceModel(
        pieces=tuple(pieces), lowercase=lowercase, strip_accents=strip_accents
    )


def byte_bpe(**options):
    pieces = (*ALPHABET, "ab", "Ġab", "<|endoftext|>", "<extra_id_0>")
    return ByteBPEModel(pieces=pieces, merges=(("a", "b"), ("Ġ", "ab")), **options)


def sentence_piece(num_sentinels=2):
    return SentencePieceModel(proto=train(), num_sentinels=num_sentinels)


MODELS = {
    "wordpiece": wordpiece,
    "byte_bpe": byte_bpe,
    "sentencepiece": sentence_piece,
}


@pytest.fixture
def folder(tmp_path):
    save_tokenizer(tmp_path / "tokenizer", wordpiece())
    return tmp_path / "tokenizer"


@pytest.mark.parametrize("kind", MODELS)
def test_every_kind_comes_back_as_it_was_saved(tmp_path, kind):
    model = MODELS[kind]()
    save_tokenizer(tmp_path, model)
    artifact = read_tokenizer(tmp_path)
    assert artifact.model == model
    assert artifact.vocabulary == model.pieces
    assert artifact.special == model.special
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"tokenizer.yaml", *model.file_names}
    # Writing again what was read changes nothing.
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    save_tokenizer(tmp_path, artifact.model)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("kind", MODELS)
def test_every_kind_is_what_a_tokenizer_must_be(tmp_path, kind):
    model = MODELS[kind]()
    save_tokenizer(tmp_path, model)
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.pieces == model.pieces
    assert tokenizer.special == model.special
    assert tokenizer.vocabulary_size == len(model.pieces)
    assert tokenizer.starts_word.shape == (len(model.pieces),)
    assert tokenizer.starts_word.dtype == bool
    assert tokenizer.ordinary_ids.dtype == np.int32
    special = vars(model.special)
    set_aside = {i for i in special.values() if isinstance(i, int)}
    set_aside |= set(model.special.sentinels)
    assert set_aside <= set(range(len(model.pieces)))
    assert not set_aside & set(tokenizer.ordinary_ids.tolist())
    # A word alone has the pieces it has inside a sentence.
    sentence = tokenizer.tokenize(["ab ab"]).to_list()[0]
    alone = tokenizer.tokenize([tokenizer.word_prefix + "ab"]).to_list()[0]
    assert sentence[-len(alone) :] == alone
    # Not bound to a name, the tokenizer must live as long as the call.
    assert load_tokenizer(tmp_path).tokenize(["ab ab"]).to_list() == [sentence]
    restored = tokenizer.detokenize(tokenizer.tokenize(["ab ab"])).numpy()
    assert restored.tolist() == [b"ab ab"]
    assert tokenizer.words(["ab"]).to_list() == [[b"ab"]]


def edit_metadata(folder, **changes):
    path = folder / "tokenizer.yaml"
    metadata = yaml.safe_load(path.read_text()) | changes
    path.write_text(yaml.safe_dump({k: v for k, v in metadata.items() if v != "gone"}))


def test_vocabulary_is_written_in_the_format_of_bert(folder):
    expected = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\né\n漢\n"
    assert (folder / "vocab.txt").read_bytes() == expected.encode()


def test_vocabulary_and_merges_are_written_in_the_formats_of_gpt2(tmp_path):
    save_tokenizer(tmp_path, byte_bpe())
    merges = "#version: 0.2\na b\nĠ ab\n"
    assert (tmp_path / "merges.txt").read_bytes() == merges.encode()
    ids = json.loads((tmp_path / "vocab.json").read_text("utf-8"))
    assert (ids["!"], ids["ab"], ids["<|endoftext|>"]) == (33, 256, 258)


def test_a_sentencepiece_model_is_written_as_it_is(tmp_path):
    save_tokenizer(tmp_path, sentence_piece())
    assert (tmp_path / "spiece.model").read_bytes() == train()


def test_metadata_says_what_the_files_do_not(folder):
    assert yaml.safe_load((folder / "tokenizer.yaml").read_text()) == {
        "format_version": 2,
        "kind": "wordpiece",
        "options": {"lowercase": True, "strip_accents": True},
        "vocabulary_size": 9,
        "special_ids": {
            "pad": 0,
            "unknown": 1,
            "begin": 2,
            "end": 3,
            "mask": 4,
            "sentinels": [],
        },
        "files": {
            "vocab.txt": hashlib.sha256((folder / "vocab.txt").read_bytes()).hexdigest()
        },
    }


def test_loaded_tokenizer_works_as_saved(tmp_path):
    save_tokenizer(tmp_path, wordpiece(lowercase=False, strip_accents=False))
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.tokenize(["ab é漢 A"]).to_list() == [[5, 6, 7, 8, 1]]


def test_pieces_that_other_readers_would_cut_or_strip_survive(tmp_path):
    odd = ["\u2028", "\u0085", "\r", "\x0b", "\x1c", " ", "\u00a0a", "b\r", "##\u2029"]
    save_tokenizer(tmp_path, wordpiece([*PIECES, *odd]))
    assert read_tokenizer(tmp_path).vocabulary == (*PIECES, *odd)


def test_fingerprint_changes_with_whatever_changes_ids(tmp_path):
    def fingerprint(model):
        save_tokenizer(tmp_path, model)
        return tokenizer_fingerprint(tmp_path)

    first = fingerprint(wordpiece())
    assert fingerprint(wordpiece()) == first
    others = [
        wordpiece([*PIECES, "z"]),
        wordpiece([*PIECES[:-2], *reversed(PIECES[-2:])]),
        wordpiece(lowercase=False),
        wordpiece(strip_accents=False),
        byte_bpe(),
        byte_bpe(add_prefix_space=True),
        sentence_piece(),
        sentence_piece(num_sentinels=3),
    ]
    assert len({first, *map(fingerprint, others)}) == 9


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
        ({"format_version": 1}, "format_version is 1, expected 2.*make the tokenizer"),
        ({"format_version": "gone"}, "format_version is None"),
        ({"kind": "byte_pair"}, "kind is 'byte_pair', expected one of wordpiece, byte"),
        ({"kind": "byte_bpe"}, "options.* is None, expected true|is True, expected no"),
        ({"options": "gone"}, "options has no keys"),
        ({"options": {"lowercase": True}}, "strip_accents is None, expected true or"),
        ({"options": {"lowercase": "yes", "strip_accents": True}}, "is 'yes'"),
        (
            {"options": {"lowercase": True, "strip_accents": True, "x": 1}},
            "options.x is 1, expected no such key",
        ),
        ({"files": "gone"}, "files has no keys"),
        ({"files": {"vocab.txt": "0" * 64}}, "expects 0000"),
        ({"files": {"vocabulary.txt": "0" * 64}}, "expects None"),
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
        ([*PIECES, "\0\0"], "has a NUL in it"),
        ([f"{p}\t{i}" for i, p in enumerate(PIECES)], r"line is '\[PAD\]\\t0', with"),
        ([*PIECES, "é" * 129], "is longer than 256 bytes"),
    ],
)
def test_an_unusable_vocabulary_is_neither_saved_nor_loaded(folder, pieces, message):
    before = (folder / "vocab.txt").read_bytes()
    with pytest.raises(ArtifactError, match=message):
        save_tokenizer(folder, wordpiece(pieces))
    assert (folder / "vocab.txt").read_bytes() == before
    content = "".join(f"{piece}\n" for piece in pieces).encode()
    (folder / "vocab.txt").write_bytes(content)
    edit_metadata(folder, files={"vocab.txt": hashlib.sha256(content).hexdigest()})
    with pytest.raises(ArtifactError):
        read_tokenizer(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pieces": (*ALPHABET[1:], "<|endoftext|>")}, "1 of the 256 single bytes"),
        ({"merges": (("a", "b"), ("ab", "c"))}, "merge 1, 'ab' with 'c'"),
        ({"merges": (("a", "b"),)}, "made by no merge, such as 'Ġab'"),
        ({"pieces": (*ALPHABET, "ab", "Ġab")}, "special pieces are missing"),
    ],
)
def test_vocabulary_and_merges_that_do_not_fit_are_refused(tmp_path, changes, message):
    with pytest.raises(ArtifactError, match=message):
        save_tokenizer(tmp_path, replace(byte_bpe(), **changes))
    assert not list(tmp_path.iterdir())


def test_the_longest_piece_allowed_fits_the_kernel(tmp_path):
    longest = "##" + "é" * 128
    check_vocabulary([*PIECES, longest], where="here")
    model = wordpiece([*PIECES, longest], lowercase=False, strip_accents=False)
    save_tokenizer(tmp_path, model)
    text = "a" + "é" * 64 + "é" * 35
    assert load_tokenizer(tmp_path).tokenize([text]).to_list() == [[1]]
