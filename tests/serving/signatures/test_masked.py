"""Answers of the signatures of the exported SavedModel."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from tests.data.hostile_strings import HOSTILE_BYTES, HOSTILE_TEXTS
from tests.serving.conftest import LENGTH, TINY
from transbeam.serving.client.interface import ServerError
from transbeam.serving.parity.masked import MaskedParityChecker
from transbeam.serving.signatures.masked import MaskedTask

TOP_K = TINY.export.top_k
HIDDEN = TINY.model.hidden_dim
MASKED = [
    "returns a [MASK] of the same shape",
    "the [MASK] of the [MASK] is a [MASK] .",
    "[MASK]",
    "no mask",
    "",
]


def framed(trained, tokens):
    """`[CLS] … [SEP]` of one row of ids, and its mask, both (1, T)."""
    ids = np.array([[2, *tokens.to_list()[0][: LENGTH - 2], 3]], np.int32)
    return {"token_ids": ids, "padding_mask": np.ones_like(ids)}


def specs_of(tensors):
    return {
        name: (
            tf.as_dtype(info.dtype).name,
            [None if axis.size < 0 else axis.size for axis in info.tensor_shape.dim],
        )
        for name, info in tensors.items()
    }


def test_names_dtypes_and_shapes(exported, trained):
    file = exported.saved_model / "saved_model.pb"
    (graph,) = saved_model_pb2.SavedModel.FromString(file.read_bytes()).meta_graphs
    signatures = {
        name: definition
        for name, definition in graph.signature_def.items()
        if not name.startswith("__")
    }
    found = {name: specs_of(one.outputs) for name, one in signatures.items()}
    pieces = trained.tokenizer.vocabulary_size
    assert found == {
        "serving_default": {
            "fills": ("string", [None, None, TOP_K]),
            "scores": ("float32", [None, None, TOP_K]),
            "truncated": ("bool", [None]),
        },
        "refine": {
            "fills": ("string", [None, None, 1]),
            "scores": ("float32", [None, None, 1]),
            "truncated": ("bool", [None]),
        },
        "embed": {
            "embedding": ("float32", [None, HIDDEN]),
            "truncated": ("bool", [None]),
        },
        "tokenize": {
            "token_ids": ("int32", [None, None]),
            "length": ("int32", [None]),
            "truncated": ("bool", [None]),
        },
        "fill_mask": {"logits": ("float32", [None, None, pieces])},
        "attention": {
            "tokens": ("string", [None, None]),
            "token_ids": ("int32", [None, None]),
            "length": ("int32", [None]),
            "attention": ("float32", [None, 2, 2, None, None]),
            "truncated": ("bool", [None]),
        },
    }
    for name, signature in signatures.items():
        inputs = specs_of(signature.inputs)
        if name == "fill_mask":
            ids = ("token_ids", "padding_mask", "masked_positions")
            assert inputs == {name: ("int32", [None, None]) for name in ids}
        elif name == "refine":
            assert inputs == {
                "text": ("string", [None]),
                "iterations": ("int32", [None]),
            }
        else:
            assert inputs == {"text": ("string", [None])}


def test_scores_of_ids_are_those_of_keras(client, trained):
    tokens = trained.tokenizer.tokenize_with_masks(["the [MASK] of a [MASK]", "a list"])
    texts = [framed(trained, tokens[row : row + 1]) for row in range(2)]
    width = texts[0]["token_ids"].shape[1]
    inputs = {
        name: np.concatenate(
            [np.pad(of[name], ((0, 0), (0, width - of[name].shape[1]))) for of in texts]
        )
        for name in ("token_ids", "padding_mask")
    }
    positions = np.array([[2, 5], [1, 0]], np.int32)
    inputs["masked_positions"] = positions
    found = client.ask("fill_mask", inputs)["logits"]
    for row, alone in enumerate(texts):
        expected = trained.model(
            {**alone, "masked_positions": positions[row : row + 1]}
        )
        np.testing.assert_allclose(found[row], expected["logits"][0], atol=2e-5)


def test_fills_are_the_best_of_keras(ask, trained):
    text = "the [MASK] of a list , [MASK] the same"
    tokens = trained.tokenizer.tokenize_with_masks([text])
    inputs = framed(trained, tokens)
    positions = np.flatnonzero(inputs["token_ids"][0] == 4)
    assert len(positions) == 2
    inputs["masked_positions"] = positions[None].astype(np.int32)
    logits = trained.model(inputs)["logits"].numpy()[0]
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    order = np.argsort(-probabilities, axis=-1)[:, :TOP_K]
    pieces = np.array(trained.tokenizer.vocabulary)[order]

    answer = ask("serving_default", [text])

    assert np.vectorize(bytes.decode)(answer["fills"][0]).tolist() == pieces.tolist()
    np.testing.assert_allclose(
        answer["scores"][0], np.take_along_axis(probabilities, order, -1), rtol=1e-5
    )


def test_masks_of_a_batch_are_padded_to_the_most(ask):
    answer = ask("serving_default", MASKED)
    real = np.array([1, 3, 1, 0, 0])[:, None] > np.arange(3)
    assert answer["fills"].shape == (5, 3, TOP_K)
    assert (answer["fills"][real] != b"").all()
    assert (answer["fills"][~real] == b"").all()
    assert (answer["scores"][real] > 0).all()
    assert (answer["scores"][~real] == 0).all()
    assert not answer["truncated"].any()


def test_a_text_alone_is_answered_as_in_a_batch(ask):
    texts = [*MASKED, "a [MASK] " * 12]
    together = ask("serving_default", texts)
    vectors = ask("embed", texts)["embedding"]
    for row, text in enumerate(texts):
        alone = ask("serving_default", [text])
        masks = alone["fills"].shape[1]
        assert alone["fills"][0].tolist() == together["fills"][row, :masks].tolist()
        np.testing.assert_allclose(
            alone["scores"][0], together["scores"][row, :masks], rtol=2e-5
        )
        np.testing.assert_allclose(
            ask("embed", [text])["embedding"][0], vectors[row], atol=2e-6
        )


def test_embedding_is_the_mean_of_all_tokens_special_ones_included(ask, trained, body):
    text = "the shape of a [MASK] list"  # here `[MASK]` is text like any other
    inputs = framed(trained, trained.tokenizer.tokenize([text]))
    vectors = body(inputs)["sequence_output"].numpy()
    np.testing.assert_allclose(
        ask("embed", [text])["embedding"], vectors.mean(axis=1), atol=2e-6
    )


def test_the_body_has_the_model_s_own_weights(trained, body):
    theirs = {id(weight) for weight in trained.model.weights}
    assert {id(weight) for weight in body.weights} < theirs
    assert sorted(body.input) == ["padding_mask", "token_ids"]


def test_tokenize_gives_the_ids_of_the_engine(ask, trained):
    texts = [*(text.encode() for text in HOSTILE_TEXTS), *HOSTILE_BYTES]
    expected = trained.tokenizer.tokenize(texts).to_list()
    answer = ask("tokenize", texts)
    for row, ids in enumerate(expected):
        framed = [2, *ids[: LENGTH - 2], 3]
        length = answer["length"][row]
        assert answer["token_ids"][row, :length].tolist() == framed, texts[row]
        assert not answer["token_ids"][row, length:].any()
        assert answer["truncated"][row] == (len(ids) > LENGTH - 2)
    # Padded to what has room for the longest, not to what the model could read.
    assert ask("tokenize", [b"a", b"a b"])["token_ids"].shape == (2, 16)


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_truncation_sets_in_after_the_longest_that_fits(ask, extra):
    words = LENGTH - 2 + extra
    text = " ".join(["a"] * (words - 1) + ["[MASK]"])
    answer = ask("serving_default", [text, "[MASK]"])
    assert answer["truncated"].tolist() == [extra > 0, False]
    # A mask that was cut off has no answer; the other text's is untouched.
    assert (answer["fills"][:, 0, 0] == b"").tolist() == [extra > 0, False]


def test_empty_batch(ask):
    fills = ask("serving_default", [])
    assert fills["fills"].shape == fills["scores"].shape == (0, 0, TOP_K)
    assert fills["truncated"].shape == (0,)
    assert ask("embed", [])["embedding"].shape == (0, HIDDEN)
    tokens = ask("tokenize", [])
    assert tokens["token_ids"].shape == (0, 16)  # the narrowest there is
    assert tokens["length"].shape == (0,)


def test_any_bytes_get_a_finite_answer(ask):
    texts = [
        b"",
        b"\xff\xfe\x00\xe6\xbc",
        b"a [MASK] \xf0\x9f\x98 [MASK]",
        b"x" * 10_000,
        b"[MASK]" * 10_000,
        "é漢\u0301".encode() * 3_000,
        *(text.encode() for text in HOSTILE_TEXTS),
        *HOSTILE_BYTES,
    ]
    answer = ask("serving_default", texts)
    masks = (answer["fills"][:, :, 0] != b"").sum(axis=1)
    assert masks[:6].tolist() == [0, 0, 2, 0, LENGTH - 2, 0]
    assert np.isfinite(answer["scores"]).all()
    assert (answer["scores"].sum(axis=-1) <= 1 + 1e-5).all()
    assert np.isfinite(ask("embed", texts)["embedding"]).all()


def test_embeddings_of_length_one(ask, trained):
    export = replace(trained.config.export, normalize_embeddings=True)
    config = replace(trained.config, export=export)
    task = MaskedTask(replace(trained, config=config))
    texts = ["returns a tensor", "the quick brown fox", ""]
    found = task.embedder.embed(tf.constant(texts))["embedding"].numpy()
    means = ask("embed", texts)["embedding"]
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(found, means / lengths, atol=1e-5)
    expected = MaskedParityChecker(replace(trained, config=config), texts[:1]).expected[
        0
    ]
    np.testing.assert_allclose(expected.embedding, found[0], atol=1e-5)


def refined(client, texts, iterations):
    rounds = np.array(iterations, np.int32)
    return client.ask("refine", {"text": texts, "iterations": rounds})


def test_one_iteration_fills_each_mask_alone(client, trained):
    texts = ["the [MASK] of a [MASK] .", "no mask", "[MASK]"]
    found = refined(client, texts, [1, 1, 1])
    alone = client.ask("serving_default", {"text": texts})
    special = {piece.encode() for piece in trained.tokenizer.vocabulary[:5]}
    assert not special & {*alone["fills"][:, :, 0].ravel()}  # or the two would differ
    assert found["fills"].tolist() == alone["fills"][:, :, :1].tolist()
    np.testing.assert_allclose(found["scores"], alone["scores"][:, :, :1], rtol=1e-4)


def test_texts_without_masks_have_no_fills(client):
    found = refined(client, ["no mask", ""], [2])
    assert found["fills"].shape == (2, 0, 1)


def test_each_text_has_iterations_of_its_own(client):
    texts = ["[MASK] [MASK] of [MASK] [MASK]", "the [MASK] [MASK]"]
    together = refined(client, texts, [3, 1])
    for row, (text, rounds) in enumerate(zip(texts, [3, 1], strict=True)):
        alone = refined(client, [text], [rounds])["fills"][0]
        assert together["fills"][row, : len(alone)].tolist() == alone.tolist()


def test_no_iterations_are_refused(client):
    with pytest.raises(ServerError, match="iterations: found a number below 1"):
        refined(client, ["[MASK]"], [0])
