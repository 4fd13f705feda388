"""Texts of tokens of each kind of tokenizer."""

import numpy as np
import pytest
import tensorflow as tf

from tests.serving.untrained import learned
from transbeam.configs.schema.tokenizer import (
    ByteBPEConfig,
    UnigramConfig,
    WordPieceConfig,
)
from transbeam.pipeline.tokenizers.files.tokenizer_folder import read_tokenizer
from transbeam.serving.server.openai_api.openai_errors import OpenAIRequestError
from transbeam.serving.server.openai_api.token_texts import TokenTexts

KINDS = [
    WordPieceConfig(vocabulary_size=600),
    ByteBPEConfig(vocabulary_size=400),
    UnigramConfig(vocabulary_size=400),
]
TEXT = "It returns the value, or raises an error (see below)."


@pytest.fixture(scope="module", params=KINDS, ids=lambda config: config.kind)
def model(request, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "token-texts"
    return read_tokenizer(learned(folder, request.param)).model


@pytest.fixture(scope="module")
def tokens(model):
    return TokenTexts(model)


@pytest.fixture(scope="module")
def ids(model):
    return model.build().tokenize([TEXT]).numpy()[0]


def whole(model, ids):
    ragged = tf.RaggedTensor.from_row_lengths(ids, [len(ids)])
    return model.build().detokenize(ragged).numpy()[0]


def test_texts_of_tokens_are_the_text(model, tokens, ids):
    found = [text for (text,) in tokens.token_texts(ids, ids[:, None])]
    assert b"".join(found) == tokens.text(ids.tolist()) == whole(model, ids)
    assert min(map(len, found[1:])) > 0


@pytest.mark.parametrize("place", [1, 3, 7])
def test_a_text_goes_on_after_what_precedes_it(model, tokens, ids, place):
    before, new = ids[:place].tolist(), ids[place:]
    rest = whole(model, ids)[len(whole(model, ids[:place])) :]
    assert tokens.text(new.tolist(), before) == rest
    found = tokens.token_texts(new, new[:, None], before)
    assert b"".join(text for (text,) in found) == rest


def test_candidates_have_the_texts_that_they_would_have_there(tokens, ids):
    swapped = np.stack([ids, np.roll(ids, 1)], axis=1)
    found = tokens.token_texts(ids, swapped)
    for place in (2, 5):
        before = ids[:place].tolist()
        other = tokens.text([int(swapped[place, 1])], before)
        assert found[place] == [tokens.text([int(ids[place])], before), other]


def test_special_tokens_have_names_and_no_text(model, tokens, ids):
    end = model.special.end
    framed = np.array([*ids[:3], end, *ids[3:]])
    found = [text for (text,) in tokens.token_texts(framed, framed[:, None])]
    assert found.pop(3) == model.pieces[end].encode()
    assert b"".join(found) == tokens.text(framed.tolist()) == whole(model, ids)
    assert tokens.are_tokens_of(framed.tolist(), ids.tolist())
    assert not tokens.are_tokens_of(ids[1:].tolist(), ids.tolist())


def test_no_tokens(tokens):
    none = np.zeros(0, np.int64)
    assert tokens.text([]) == b""
    assert tokens.token_texts(none, none[:, None]) == []
    assert tokens.token_texts(np.array([7]), np.zeros((1, 0), np.int64)) == [[]]


def test_ids_beyond_the_vocabulary(model, tokens):
    size = tokens.vocabulary_size
    assert size == len(model.pieces)
    tokens.check([[0], [1, size - 1]], "prompt")
    with pytest.raises(OpenAIRequestError, match=f"prompt: .*found {size}"):
        tokens.check([[0], [1, size]], "prompt")


def test_a_character_of_several_tokens(tmp_path):
    model = read_tokenizer(learned(tmp_path, KINDS[1])).model
    ids = model.build().tokenize(["☃"]).numpy()[0]
    assert len(ids) == 3
    found = TokenTexts(model).token_texts(ids, ids[:, None])
    assert found == [[b"\xe2"], [b"\x98"], [b"\x83"]]
