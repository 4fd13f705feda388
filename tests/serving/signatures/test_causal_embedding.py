"""Embeddings of a decoder's texts, as Keras computes them alone and by hand."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from tests.objective_configs import config_of
from tests.serving.untrained import untrained_of
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.embedding import KerasEmbedder
from transbeam.serving.signatures.embedding import Embedder, find_body
from transbeam.serving.signatures.task_factory import make_signature_task

TEXTS = ["a tensor of the same shape", "", "it is", "a " * 60]


@pytest.fixture(scope="module")
def causal(tmp_path_factory) -> TrainedRun:
    folder = tmp_path_factory.getbasetemp() / "tokenizers"
    folder.mkdir(exist_ok=True)
    return untrained_of(config_of("causal"), folder)


def pooled_by(trained: TrainedRun, pooling: str) -> TrainedRun:
    export = replace(trained.config.export, embedding_pooling=pooling)
    return replace(trained, config=replace(trained.config, export=export))


@pytest.mark.parametrize("pooling", ["last", "end_token", "mean", "max"])
def test_vectors_are_those_of_each_text_alone(causal, pooling):
    trained = pooled_by(causal, pooling)
    keras, special = KerasEmbedder(trained), trained.tokenizer.special
    found = Embedder(trained).embed(tf.constant(TEXTS))
    assert found["truncated"].numpy().tolist() == [False, False, False, True]
    for text, vector in zip(TEXTS, found["embedding"].numpy(), strict=True):
        ids = keras.ids(text)
        assert (ids[-1] == special.end) == (pooling == "end_token")
        np.testing.assert_allclose(vector, keras.vector(ids), rtol=0, atol=1e-5)


def test_the_last_token_by_the_mask_on_either_side(causal):
    embedder, body = Embedder(pooled_by(causal, "last")), find_body(causal.model)
    ids = np.array([[5, 0, 7, 0, 0], [0, 0, 5, 7, 8]], "int32")
    mask = np.array([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]], "int32")
    states = body({"token_ids": ids, "padding_mask": mask})["sequence_output"].numpy()
    found = embedder.embed_ids(tf.constant(ids), tf.constant(mask))["embedding"]
    np.testing.assert_array_equal(found, [states[0, 2], states[1, 4]])


def test_a_language_model_embeds_and_a_body_does_nothing_else(causal):
    task = make_signature_task(causal)
    assert "embed" in task.endpoints()
    assert "embed" not in task.phone_endpoints()
    body = make_signature_task(replace(causal, has_head=False))
    assert {*body.endpoints()} == {"serving_default", "embed", "tokenize", "attention"}
    assert {*body.phone_endpoints()} == {"embed"}
