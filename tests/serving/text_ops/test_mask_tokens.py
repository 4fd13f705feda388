"""Masks in texts and pieces in answers, of every kind of tokenizer."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.serving.conftest import TINY, invocation_of, make_run
from tests.serving.session import asking
from tests.serving.signatures.parity_scenario import remembered
from transbeam.configs.schema.tokenizer import ByteBPEConfig, UnigramConfig
from transbeam.serving.base.trained_run import load_trained
from transbeam.serving.client.saved_model_client import LocalClient
from transbeam.serving.export_stage import export
from transbeam.serving.parity.export_parity import require_passed
from transbeam.serving.parity.masked import MaskedParityChecker
from transbeam.serving.predict.prediction import predict
from transbeam.serving.text_ops.mask_tokens import answer_pieces, tokenize_with_masks

KINDS = {
    "wordpiece": TINY.tokenizer,
    "roberta": ByteBPEConfig(vocabulary_size=300, specials="roberta"),
    "albert": UnigramConfig(vocabulary_size=80, specials="albert"),
}
TEXTS = [
    "the [MASK] of a list",
    "[MASK]",
    "",
    "no mask",
    "[MASK][MASK] of [MASK]",
    "a list of [MASK]s .",
    "[MASK]  two spaces  [MASK]",
]


@pytest.fixture(scope="module", params=KINDS)
def run(request, tmp_path_factory):
    """A run of each kind, not exported: its folder and what is trained."""
    model = replace(TINY.model, num_layers=1)
    config = replace(TINY, tokenizer=KINDS[request.param], model=model)
    folder = make_run(tmp_path_factory.mktemp("masks") / "run", config)
    return folder, config, load_trained(folder)


def words_between(tokenizer, text):
    """By hand: what stands between masks, each part without the spaces before one."""
    *parts, last = text.split("[MASK]")
    ids = []
    for part in parts:
        ids += [*tokenizer.tokenize([part.rstrip(" ")]).to_list()[0]]
        ids.append(tokenizer.special.mask)
    return ids + tokenizer.tokenize([last]).to_list()[0]


def test_masks_stand_where_they_are_written(run):
    tokenizer = run[2].tokenizer
    found = tokenize_with_masks(tokenizer, tf.constant(TEXTS)).to_list()
    assert found == [words_between(tokenizer, text) for text in TEXTS]
    counts = [row.count(tokenizer.special.mask) for row in found]
    assert counts == [text.count("[MASK]") for text in TEXTS]
    nothing = tokenize_with_masks(tokenizer, tf.constant([], tf.string))
    assert nothing.to_list() == []


def test_without_masks_a_text_is_as_always(run):
    tokenizer = run[2].tokenizer
    texts = [text for text in HOSTILE_TEXTS if "[MASK]" not in text]
    found = tokenize_with_masks(tokenizer, tf.constant(texts))
    assert found.to_list() == tokenizer.tokenize(texts).to_list()


def test_the_space_before_a_mask_is_the_hidden_word_s(run):
    tokenizer = run[2].tokenizer
    (whole,) = tokenizer.tokenize(["the list of ints"]).to_list()
    found = tokenize_with_masks(tokenizer, tf.constant(["the [MASK] of ints"]))
    (hidden,) = found.to_list()
    before, after = (
        hidden.index(tokenizer.special.mask),
        hidden[::-1].index(tokenizer.special.mask),
    )
    assert hidden[:before] == whole[:before]
    assert hidden[len(hidden) - after :] == whole[len(whole) - after :]
    assert tokenizer.starts_word[whole[before]]


def test_pieces_say_whether_they_continue_a_word(run):
    tokenizer = run[2].tokenizer
    pieces = answer_pieces(tokenizer)
    assert len(pieces) == tokenizer.vocabulary_size
    assert all(pieces)
    (ids,) = tokenizer.tokenize(["the tensors list"]).to_list()
    text = ""
    for number in ids:
        piece = pieces[number].decode()
        continues = piece.startswith("##")
        text += piece.removeprefix("##") if continues else f" {piece.strip()}"
    assert text.strip() == "the tensors list"


def test_what_is_asked_of_the_signatures_is_keras_s(run):
    _, _, trained = run
    ask, judge = remembered(asking(trained)), MaskedParityChecker(trained, TEXTS)
    rows = judge.saved_model_rows("signatures", ask)
    require_passed(rows)
    assert len(rows) == 4

    def worse(signature, texts):
        found = ask(signature, texts)
        if "fills" in found:
            found["fills"] = np.roll(found["fills"], 1, axis=2)
        return found

    rows = judge.saved_model_rows("signatures", worse)
    assert [row.passed for row in rows] == [True, False, True, True]


@pytest.mark.thorough(instead="test_what_is_asked_of_the_signatures_is_keras_s")
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_exported_and_asked(kind, tmp_path):
    # Of two blocks, whose weights at random a file of int8 does not lose.
    config = replace(TINY, tokenizer=KINDS[kind])
    folder = make_run(tmp_path / "run", config)
    result = export(invocation_of(folder, config))
    assert all(row["passed"] for row in result["parity"])
    with LocalClient(folder / "export/saved_model") as client:
        (found,) = predict(client, ["the [MASK] of a list"])
    assert len(found["masks"]) == 1
    filled = found["filled"]
    assert filled.startswith("the")
    assert filled.endswith("of a list")
    best = found["masks"][0][0]["piece"].encode()
    assert best in answer_pieces(load_trained(folder).tokenizer)
