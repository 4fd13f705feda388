"""A tokenizer of another program is read whole and right, or refused by name."""

import json
from functools import cache

import pytest
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.pipeline.tokenizers.sentencepiece_models import train
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET
from transbeam.pipeline.tokenizers.files.import_tokenizer import import_tokenizer
from transbeam.pipeline.tokenizers.files.tokenizer_folder import save_tokenizer
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel

BERT = [*SPECIAL_PIECES, "[unused0]", "the", "##n", "!", "a", "##b", "é"]
MERGES = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("Ã", "©")]
GPT2 = [*ALPHABET, *(a + b for a, b in MERGES), "<|endoftext|>"]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", *GPT2[:-1], "madeupword0000", "<mask>"]


def write_vocabulary(path, pieces, end="\n"):
    path.write_bytes("".join(piece + end for piece in pieces).encode())
    return path


def write_pair(folder, pieces=GPT2, names=("vocab.json", "merges.txt")):
    ids = {piece: i for i, piece in enumerate(pieces)}
    (folder / names[0]).write_text(json.dumps(ids), "utf-8")
    lines = "".join(f"{a} {b}\n" for a, b in MERGES)
    (folder / names[1]).write_text(f"#version: 0.2\n{lines}", "utf-8")
    return folder


@cache
def engine(model):
    return model.build()


def test_a_vocabulary_of_bert(tmp_path):
    path = write_vocabulary(tmp_path / "vocab.txt", BERT)
    for place in (path, tmp_path, str(path)):
        model = import_tokenizer(place)
        assert model.pieces == tuple(BERT)
        assert model.lowercase
        assert model.strip_accents
    tokenizer = engine(model)
    assert tokenizer.tokenize(["Then é!"]).to_list() == [[6, 7, 1, 8]]
    assert tokenizer.ordinary_ids.tolist() == [6, 7, 8, 9, 10, 11]


def test_a_vocabulary_with_upper_case_is_cased_unless_told(tmp_path):
    path = write_vocabulary(tmp_path / "bert-cased.txt", [*BERT, "The"])
    model = import_tokenizer(path)
    assert not model.lowercase
    assert not model.strip_accents
    model = import_tokenizer(path, lowercase=True)
    assert model.lowercase
    assert model.strip_accents
    model = import_tokenizer(path, lowercase=True, strip_accents=False)
    assert not model.strip_accents


@pytest.mark.parametrize(
    ("before", "end", "after"),
    [
        ("", "\r\n", ""),
        ("\ufeff", "\n", ""),
        ("\ufeff", "\r\n", "\r\n"),
        ("", "\n", "\n\n"),
        ("", "\r", "\r"),
        ("", "\r\r\n", ""),
    ],
)
def test_a_vocabulary_as_editors_leave_it(tmp_path, before, end, after):
    text = before + "".join(piece + end for piece in BERT) + after
    (tmp_path / "vocab.txt").write_bytes(text.encode())
    assert import_tokenizer(tmp_path).pieces == tuple(BERT)


def test_a_blank_line_within_a_vocabulary_keeps_its_id(tmp_path):
    pieces = [*BERT[:6], "", "", *BERT[6:]]
    model = import_tokenizer(write_vocabulary(tmp_path / "vocab.txt", pieces))
    assert model.pieces == (*BERT[:6], "[unused1]", "[unused2]", *BERT[6:])
    tokenizer = engine(model)
    assert tokenizer.tokenize(["Then é!"]).to_list() == [[8, 9, 1, 10]]
    assert not {6, 7} & set(tokenizer.ordinary_ids.tolist())


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt"])
@pytest.mark.parametrize(
    ("old", "new"),
    [(b"\n", b"\r\n"), (b"\n", b"\n\n"), (b"", b"\xef\xbb\xbf")],
    ids=["CRLF", "blank lines", "byte order mark"],
)
def test_files_of_gpt2_as_editors_leave_them(tmp_path, name, old, new):
    path = write_pair(tmp_path) / name
    content = path.read_bytes()
    path.write_bytes(content.replace(old, new) if old else new + content)
    model = import_tokenizer(tmp_path)
    assert (model.pieces, model.merges) == (tuple(GPT2), tuple(MERGES))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_vocabulary_whose_last_line_has_no_end(tmp_path, end):
    (tmp_path / "vocab.txt").write_bytes(end.join(BERT).encode())
    model = import_tokenizer(tmp_path)
    assert model.pieces == tuple(BERT)
    # Ours has one, so it is one tokenizer with one fingerprint.
    write_vocabulary(tmp_path / "ended.txt", BERT, end)
    assert import_tokenizer(tmp_path / "ended.txt").files() == model.files()


@pytest.mark.parametrize(
    "names", [("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")]
)
def test_vocabulary_and_merges_of_gpt2(tmp_path, names):
    write_pair(tmp_path, names=names)
    for place in (tmp_path, tmp_path / names[0], tmp_path / names[1]):
        model = import_tokenizer(place)
        assert model.pieces == tuple(GPT2)
        assert model.merges == tuple(MERGES)
    special = model.special
    assert special.pad == special.begin == special.end == len(GPT2) - 1
    assert special.unknown is special.mask is None
    tokenizer = engine(model)
    assert tokenizer.tokenize(["the thé"]).to_list() == [[257, 32, 256, 259]]


def test_the_family_of_roberta(tmp_path):
    model = import_tokenizer(write_pair(tmp_path, ROBERTA))
    special = model.special
    assert (special.begin, special.pad, special.end, special.unknown) == (0, 1, 2, 3)
    assert special.mask == len(ROBERTA) - 1
    tokenizer = engine(model)
    assert tokenizer.ordinary_ids.tolist() == list(range(4, len(ROBERTA) - 2))
    ids = tokenizer.tokenize(["the <mask>"]).to_list()[0]
    assert special.mask not in ids


def test_a_sentencepiece_model(tmp_path):
    (tmp_path / "spiece.model").write_bytes(train())
    assert import_tokenizer(tmp_path).proto == train()
    model = import_tokenizer(tmp_path / "spiece.model", num_sentinels=100)
    assert model.pieces[-1] == "<extra_id_0>"
    assert len(model.special.sentinels) == 100
    (tmp_path / "other.spm").write_bytes(train(model_type="bpe", vocab_size=100))
    assert import_tokenizer(tmp_path / "other.spm").pieces[-1]
    with pytest.raises(ArtifactError, match=r"several .*: other.spm, spiece.model"):
        import_tokenizer(tmp_path)


def test_our_folder_and_the_folder_of_a_run(tmp_path):
    model = WordPieceModel(pieces=tuple(BERT), lowercase=True, strip_accents=False)
    save_tokenizer(tmp_path / "run/data/tokenizer", model)
    for place in ("run", "run/data/tokenizer", "run/data/tokenizer/tokenizer.yaml"):
        assert import_tokenizer(tmp_path / place) == model
    (tmp_path / "run/data/tokenizer/vocab.txt").write_text("a\n")
    with pytest.raises(ArtifactError, match="altered"):
        import_tokenizer(tmp_path / "run")


def rust_wordpiece():
    ids = {piece: i for i, piece in enumerate(BERT)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.add_special_tokens(["[MASK]", "[NEW]"])
    return tokenizer


def rust_byte_bpe(add_prefix_space=False):
    ids = {piece: i for i, piece in enumerate(GPT2)}
    tokenizer = Tokenizer(models.BPE(ids, MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=add_prefix_space
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


@pytest.mark.parametrize(
    "rust", [rust_wordpiece(), rust_byte_bpe(), rust_byte_bpe(add_prefix_space=True)]
)
def test_a_file_of_the_rust_library_has_its_ids(tmp_path, rust):
    rust.save(str(tmp_path / "tokenizer.json"))
    tokenizer = engine(import_tokenizer(tmp_path))
    texts = [t for t in HOSTILE_TEXTS if not any(p in t for p in SPECIAL_PIECES)]
    texts += ["then the é ab!", " the", "  the", "\nthe"]
    expected = rust.encode_batch_fast(texts, add_special_tokens=False)
    assert tokenizer.tokenize(texts).to_list() == [row.ids for row in expected]
    vocabulary = rust.get_vocab()
    assert tokenizer.pieces == tuple(sorted(vocabulary, key=vocabulary.__getitem__))


def test_merges_in_the_writing_of_older_files(tmp_path):
    content = json.loads(rust_byte_bpe().to_str())
    content["model"]["merges"] = [f"{a} {b}" for a, b in MERGES]
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert import_tokenizer(tmp_path).merges == tuple(MERGES)


LLAMA = {
    "type": "Sequence",
    "pretokenizers": [{"type": "Split"}, {"type": "ByteLevel"}],
}


@pytest.mark.parametrize(
    ("rust", "key", "value", "message"),
    [
        (rust_wordpiece, "normalizer", {"type": "NFC"}, "normalizer.type is 'NFC'"),
        (rust_wordpiece, "normalizer", None, "normalizer.type is 'None'"),
        (rust_wordpiece, "normalizer.clean_text", False, "clean_text is 'False'"),
        (rust_wordpiece, "normalizer.lowercase", 1, "normalizer.lowercase is '1'"),
        (rust_wordpiece, "pre_tokenizer.type", "Whitespace", "'Whitespace'"),
        (rust_wordpiece, "model.max_input_chars_per_word", 200, "is '200'"),
        (rust_wordpiece, "model.continuing_subword_prefix", "@", "is '@'"),
        (rust_wordpiece, "model.type", "Unigram", "Give the SentencePiece .model"),
        (rust_wordpiece, "model.type", "WordLevel", "model.type is 'WordLevel'"),
        (rust_wordpiece, "model", None, "no tokenizer.json"),
        (rust_wordpiece, "model.vocab", ["a"], "model.vocab is no object"),
        (rust_wordpiece, "model.vocab", {"a": 0, "b": 2}, "do not have the ids 0 to"),
        (rust_byte_bpe, "normalizer", {"type": "NFC"}, 'is {"type": "NFC"}'),
        (rust_byte_bpe, "pre_tokenizer", LLAMA, "pre_tokenizer.type is 'Sequence'"),
        (rust_byte_bpe, "pre_tokenizer.use_regex", False, "use_regex is 'False'"),
        (rust_byte_bpe, "model.ignore_merges", True, "ignore_merges is 'True'"),
        (rust_byte_bpe, "model.byte_fallback", True, "byte_fallback is 'True'"),
        (rust_byte_bpe, "model.dropout", 0.1, "model.dropout is '0.1'"),
        (rust_byte_bpe, "model.end_of_word_suffix", "</w>", "is '</w>'"),
        (rust_byte_bpe, "model.merges", [["a"]], r"model.merges\[0\] is \['a'\]"),
        (rust_byte_bpe, "model.merges", "a b", "merges is no list"),
        (rust_byte_bpe, "model.merges", [], "made by no merge"),
    ],
)
def test_what_we_do_not_do_is_refused_by_name(tmp_path, rust, key, value, message):
    content = json.loads(rust().to_str())
    *path, last = key.split(".")
    inner = content
    for name in path:
        inner = inner[name]
    inner[last] = value
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ArtifactError, match=message) as error:
        import_tokenizer(tmp_path)
    assert str(error.value).startswith(str(tmp_path))


def test_an_added_piece_that_takes_the_space_before_it_is_refused(tmp_path):
    rust = rust_wordpiece()
    rust.add_tokens([AddedToken("whole", lstrip=True)])
    rust.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ArtifactError, match="'whole' has lstrip=true"):
        import_tokenizer(tmp_path)


def test_damaged_files_are_refused(tmp_path):
    rust_byte_bpe().save(str(tmp_path / "tokenizer.json"))
    write_pair(tmp_path)
    write_vocabulary(tmp_path / "vocab.txt", BERT)
    (tmp_path / "spiece.model").write_bytes(train())
    for name in (
        "tokenizer.json",
        "vocab.json",
        "merges.txt",
        "vocab.txt",
        "spiece.model",
    ):
        content = (tmp_path / name).read_bytes()
        cuts = range(0, len(content) - 1, max(1, len(content) // 60))
        for damaged in (*(content[:cut] for cut in cuts), b"\xff\xfe" + content):
            if (
                name == "vocab.txt"
                and content.startswith(damaged)
                and (b"[MASK]" in damaged)
            ):
                continue  # cut off behind the special pieces it is a vocabulary
            (tmp_path / name).write_bytes(damaged)
            with pytest.raises(ArtifactError, match=str(tmp_path)):
                import_tokenizer(tmp_path / name)
        (tmp_path / name).write_bytes(content)
        import_tokenizer(tmp_path / name)


@pytest.mark.parametrize("missing", ["vocab.json", "merges.txt"])
def test_half_of_a_pair_is_refused(tmp_path, missing):
    write_pair(tmp_path)
    (tmp_path / missing).unlink()
    (other,) = tmp_path.iterdir()
    with pytest.raises(ArtifactError, match=r"vocab\.json and merges\.txt are needed"):
        import_tokenizer(other)


def test_what_is_no_tokenizer_is_refused(tmp_path):
    with pytest.raises(ArtifactError, match="contains no tokenizer; expected"):
        import_tokenizer(tmp_path)
    with pytest.raises(ArtifactError, match="no such file or folder"):
        import_tokenizer(tmp_path / "nothing")
    (tmp_path / "README.md").write_text("hello")
    with pytest.raises(ArtifactError, match="is no file of a tokenizer"):
        import_tokenizer(tmp_path / "README.md")


def test_options_are_for_the_files_that_need_them(tmp_path):
    write_pair(tmp_path)
    with pytest.raises(ConfigError, match=r"for a vocab\.txt"):
        import_tokenizer(tmp_path, lowercase=True)
    with pytest.raises(ConfigError, match="num_sentinels=3 is for a SentencePiece"):
        import_tokenizer(tmp_path, num_sentinels=3)
    path = write_vocabulary(tmp_path / "vocab.txt", BERT)
    with pytest.raises(ConfigError, match="num_sentinels=3 is for a SentencePiece"):
        import_tokenizer(path, num_sentinels=3)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a": 1' + "0" * 5000 + "}"])
def test_json_beyond_all_bounds(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ArtifactError, match=r"tokenizer.json: is not JSON \("):
        import_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("told", "folded"),
    [
        ({"do_lower_case": False}, (False, False)),
        ({"do_lower_case": True, "strip_accents": False}, (True, False)),
        ({"do_lower_case": None}, (True, True)),
        ({}, (True, True)),
    ],
)
def test_settings_beside_a_vocabulary(tmp_path, told, folded):
    (tmp_path / "vocab.txt").write_text("\n".join((*SPECIAL_PIECES, "a")))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(told))
    found = import_tokenizer(tmp_path)
    assert (found.lowercase, found.strip_accents) == folded
    given = import_tokenizer(tmp_path, lowercase=True, strip_accents=True)
    assert (given.lowercase, given.strip_accents) == (True, True)


def test_settings_beside_a_vocabulary_that_are_damaged(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join((*SPECIAL_PIECES, "a")))
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": "true"}')
    with pytest.raises(ArtifactError, match='do_lower_case is "true", expected true'):
        import_tokenizer(tmp_path)
