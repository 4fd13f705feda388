"""Tokens that were added to a vocabulary have their ids, wherever they stand."""

import json
from dataclasses import replace

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken as RustToken
from tokenizers import Tokenizer

from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.serving.phone.tokenizer.sample_tokenizers import random_texts
from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import ByteBPEModel
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET
from transbeam.pipeline.tokenizers.files.added_tokens import (
    AddedToken,
    with_added_tokens,
)
from transbeam.pipeline.tokenizers.files.import_tokenizer import import_tokenizer
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    load_tokenizer,
    save_tokenizer,
)
from transbeam.pipeline.tokenizers.files.tokenizer_json_writer import tokenizer_json
from transbeam.pipeline.tokenizers.training.vocabulary_trimming import trim
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel

LETTERS = [*"abcdehknrstu", "é"]
PIECES = (*SPECIAL_PIECES, "[unused0]", *LETTERS, "##a", "##n", "the")
MODELS = {
    "uncased": WordPieceModel(pieces=PIECES, lowercase=True, strip_accents=True),
    "cased": WordPieceModel(pieces=PIECES, lowercase=False, strip_accents=False),
    "byte_bpe": ByteBPEModel(
        pieces=(*ALPHABET, "th", "the", "<|endoftext|>"),
        merges=(("t", "h"), ("th", "e")),
    ),
    "with a space": ByteBPEModel(
        pieces=(*ALPHABET, "<|endoftext|>"), merges=(), add_prefix_space=True
    ),
}
# One begins with another, one is longer than a word, one is all signs.
CONTENTS = ("[BRAND]", "<k>", "<k>s", "the end", "$1\\2", "ßß")


def tokens(model, contents=CONTENTS, **told):
    first = len(model.pieces)
    return [
        AddedToken(content, first + i, **{"special": False, "normalized": True} | told)
        for i, content in enumerate(contents)
    ]


def token(content, number, **told):
    options = {"special": False, "normalized": True, "where": "f.json"}
    return AddedToken(content, number, **options | told)


@pytest.fixture(params=MODELS)
def added(request):
    model = MODELS[request.param]
    return with_added_tokens(model, tokens(model, where="f.json"))


def rust(model, *, normalized=True):
    """The Rust library, with the same tokens added by its own means."""
    plain = replace(model, framing=type(model.framing)())
    found = Tokenizer.from_str(json.dumps(tokenizer_json(plain)))
    pieces = model.framing.found_whole
    found.add_tokens([RustToken(each, normalized=normalized) for each in pieces])
    return found


def library_ids(library, texts):
    found = library.encode_batch(texts, add_special_tokens=False)
    return [encoding.ids for encoding in found]


TEXTS = [
    *("[BRAND]", "un[BRAND]able [brand] [Brand]", "<k><k>s<k>sa", "the end the ends"),
    *("a $1\\2$1\\2", "ß ßßß ßß SS", "[BRAND", "", " [BRAND] "),
    *("<k>\n<k>s\x00[BRAND]", "[MASK][BRAND][SEP]", "é<K>é"),
]


def test_ids_are_those_of_the_library(added):
    library = rust(added)
    texts = [*TEXTS, *HOSTILE_TEXTS, *random_texts(40, seed=1)]
    texts += [f"{text}[BRAND]{text[:9]}<k>s" for text in HOSTILE_TEXTS]
    expected = library_ids(library, texts)
    assert added.build().tokenize(texts).to_list() == expected


@given(st.lists(st.text(max_size=20) | st.sampled_from(CONTENTS), max_size=12))
def test_any_text_has_the_ids_of_the_library(parts):
    """Of tokens that the library, too, looks for in the text as it stands."""
    model = MODELS["cased"]
    model = with_added_tokens(model, tokens(model, where="f.json"))
    text = "".join(parts)
    expected = rust(model, normalized=False).encode(text, add_special_tokens=False).ids
    assert built(model).tokenize([text]).to_list() == [expected]


# The library takes control characters out of a text before it looks for tokens that are
# `normalized`: with one inside, `<k>\x1fs` is a `<k>s` to it, and not to us.
UNCLEANED = st.text(st.characters(exclude_categories=["C"]), max_size=20)


@given(st.lists(UNCLEANED | st.sampled_from(CONTENTS), max_size=12))
def test_any_text_that_needs_no_cleaning_has_the_ids_of_normalized_tokens(parts):
    model = MODELS["cased"]
    model = with_added_tokens(model, tokens(model, where="f.json"))
    text = "".join(parts)
    expected = rust(model).encode(text, add_special_tokens=False).ids
    assert built(model).tokenize([text]).to_list() == [expected]


engines = {}


def built(model):
    return engines.setdefault(model.pieces, model.build())


def test_pieces_that_side_by_side_hold_another():
    """Between `x` and `x` there is no `xx`; nor one over the end of another piece."""
    model = MODELS["byte_bpe"]
    added = with_added_tokens(model, tokens(model, ("xx", "yy", "  "), where="f.json"))
    texts = ["xyyx", " yy ", "xxx", "yxxy", "   ", "x x  x"]
    expected = library_ids(rust(added), texts)
    assert added.build().tokenize(texts).to_list() == expected
    assert len(expected[0]) == 3


def test_what_is_no_utf_8_beside_them():
    model = MODELS["byte_bpe"]
    added = with_added_tokens(model, tokens(model, ("<k>",), where="f.json")).build()
    whole, plain = len(model.pieces), model.build()
    (broken,) = plain.tokenize([b"\xff\xe6"]).to_list()
    rows = added.tokenize([b"\xff\xe6<k>\xff\xe6"]).to_list()
    assert rows == [[*broken, whole, *broken]]


def test_offsets_are_those_of_the_library(added):
    library = rust(added)
    for text, found in zip(
        TEXTS, added.build().tokenize_with_offsets(TEXTS), strict=True
    ):
        expected = library.encode(text, add_special_tokens=False)
        assert found.ids == expected.ids, text
        if "Ġ" not in expected.tokens:  # which Rust gives the character behind it
            assert found.offsets == expected.offsets, text


def test_tokens_that_are_found_as_they_are_written():
    model = MODELS["uncased"]
    model = with_added_tokens(model, tokens(model, normalized=False, where="f.json"))
    library = rust(model, normalized=False)
    expected = library_ids(library, TEXTS)
    assert model.build().tokenize(TEXTS).to_list() == expected
    brand = model.pieces.index("[BRAND]")
    assert brand not in model.build().tokenize(["[brand]"]).to_list()[0]


def test_they_come_back_from_a_folder_and_from_ids(tmp_path, added):
    save_tokenizer(tmp_path, added)
    tokenizer = load_tokenizer(tmp_path)
    ids = tokenizer.tokenize(["[BRAND]<k>s"])
    assert ids.to_list() == added.build().tokenize(["[BRAND]<k>s"]).to_list()
    text = tokenizer.detokenize(ids).numpy()[0].decode().replace(" ", "")
    assert text == "[BRAND]<k>s"


def test_in_a_graph_and_beside_a_mask(added):
    tokenizer = added.build()
    brand = added.pieces.index("[BRAND]")
    data = tf.data.Dataset.from_tensors(["[BRAND]"]).map(tokenizer.tokenize)
    assert next(iter(data)).to_list() == [[brand]]
    if isinstance(added, WordPieceModel):
        rows = tokenizer.tokenize_with_masks(["[MASK][BRAND][MASK]"]).to_list()
        assert rows == [[4, brand, 4]]


def test_only_ascii_is_folded():
    """A Kelvin sign is a `k` to Unicode; the library finds it, for it folds before."""
    model = MODELS["uncased"]
    model = with_added_tokens(model, tokens(model, where="f.json"))
    brand, k = (model.pieces.index(piece) for piece in ("[BRAND]", "<k>"))
    rows = model.build().tokenize(["<\u212a>[brAND]", "<K>"]).to_list()
    assert k not in rows[0]
    assert brand in rows[0]
    assert rows[1] == [k]


def test_special_ones_are_no_text():
    size = len(PIECES)
    model = with_added_tokens(MODELS["cased"], [token("[CITY]", size, special=True)])
    assert model.pieces[size] == "[CITY]"
    assert size not in model.build().tokenize(["[CITY]"]).to_list()[0]


def test_ids_that_are_left_out_are_reserved():
    size = len(PIECES)
    model = with_added_tokens(MODELS["cased"], [token("[CITY]", size + 2)])
    assert model.pieces[size:] == ("[unused1]", "[unused2]", "[CITY]")


def test_without_rows_in_the_model_they_are_left_out():
    size = len(PIECES)
    added = [token("[A]", size), token("[B]", size + 1)]
    model = with_added_tokens(MODELS["cased"], added, num_rows=size + 1)
    assert model.pieces == (*PIECES, "[A]")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            token("the", 3),
            f"'the' has the id 3, but {len(PIECES) - 1} in the vocabulary",
        ),
        (token("[A]", 3), "which is '[SEP]' in the vocabulary"),
        (token("[A]", 10**9), "has the id 1,000,000,000, far from the"),
        (token("[A]", len(PIECES), flags=("lstrip",)), "'[A]' has lstrip=true"),
        (token("a\nb", len(PIECES)), "goes over the end of a line"),
        (token("", len(PIECES)), "it is empty"),
    ],
)
def test_what_cannot_be_added(wrong, said):
    with pytest.raises(ArtifactError, match=r"^f.json: ") as error:
        with_added_tokens(MODELS["cased"], [wrong])
    assert said in str(error.value)


def write(folder, **files):
    pieces = "".join(f"{piece}\n" for piece in PIECES)
    (folder / "vocab.txt").write_text(pieces, "utf-8")
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


def test_the_files_beside_a_vocabulary(tmp_path):
    size = len(PIECES)
    write(
        tmp_path,
        added_tokens={"[CITY]": size, "<s>": size + 1, "<x>": size + 2},
        special_tokens_map={"bos_token": {"content": "<s>"}},
        tokenizer_config={"additional_special_tokens": ["<x>"]},
    )
    model = import_tokenizer(tmp_path)
    assert model.pieces[size:] == ("[CITY]", "<s>", "<x>")
    assert model.framing.found_whole == ("[CITY]",)


def test_the_settings_of_newer_checkpoints(tmp_path):
    size = len(PIECES)
    told = {
        "0": {"content": "[PAD]", "special": True, "lstrip": True},
        str(size): {"content": "[CITY]", "normalized": False},
        str(size + 1): {"content": "<s>", "special": True},
    }
    write(tmp_path, tokenizer_config={"added_tokens_decoder": told})
    model = import_tokenizer(tmp_path, lowercase=True)
    assert model.pieces[size:] == ("[CITY]", "<s>")
    assert model.framing.whole_pieces == ("[CITY]",)


def test_those_of_a_tokenizer_json(tmp_path):
    model = MODELS["uncased"]
    library = rust(with_added_tokens(model, tokens(model, where="f.json")))
    library.add_special_tokens(["<pad>"])
    library.save(str(tmp_path / "tokenizer.json"))
    found = import_tokenizer(tmp_path)
    assert found.pieces == (*PIECES, *CONTENTS, "<pad>")
    assert set(found.framing.folded_pieces) == set(CONTENTS)


@pytest.mark.parametrize(
    "told",
    [{"[CITY]": "21"}, {"[CITY]": -1}, {"[CITY]": 1.5}, {"[CITY]": True}],
)
def test_damaged_files(tmp_path, told):
    write(tmp_path, added_tokens=told)
    said = r'added_tokens.json: {"content": "\[CITY\]", .* is no added token'
    with pytest.raises(ArtifactError, match=said):
        import_tokenizer(tmp_path)


def test_a_trimmed_vocabulary_still_has_them(added):
    trimmed = trim(added, {"a": 3}).model
    (ids,) = trimmed.build().tokenize(["[BRAND] the end"]).to_list()
    assert {"[BRAND]", "the end"} <= {trimmed.pieces[i] for i in ids}
