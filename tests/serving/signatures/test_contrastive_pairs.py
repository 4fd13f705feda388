"""Signatures of models that embed texts, beside those of other models' embeddings."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from tests.objective_configs import config_of
from tests.serving.untrained import untrained_of
from transbeam.configs.schema.model import PoolerConfig
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.embedding import EmbeddingParityChecker
from transbeam.serving.signatures.embedding import EmbeddingTask
from transbeam.serving.signatures.task_factory import make_signature_task

TEXTS = ["", "a list", "the shape of a tuple " * 9, "no \N{SNOWMAN} word"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tokenizers")


def embedder(
    folder,
    kind: str,
    pooler: PoolerConfig | None = None,
    model: str | None = None,
    **export,
):
    config = config_of(kind, model)
    return untrained_of(
        replace(
            config,
            model=replace(config.model, pooler=pooler),
            export=replace(config.export, **export),
        ),
        folder,
    )


def embed(trained: TrainedRun) -> np.ndarray:
    task = make_signature_task(trained)
    asked = [task.endpoints()[name] for name in ("embed", "serving_default")]
    one, other = (of.function(tf.constant(TEXTS))["embedding"].numpy() for of in asked)
    np.testing.assert_array_equal(one, other)
    return one


@pytest.mark.parametrize(
    ("kind", "pooling"),
    [
        *(("masked", pooling) for pooling in ("mean", "first", "max")),
        *(("causal", pooling) for pooling in ("last", "end_token", "mean", "max")),
    ],
)
@pytest.mark.parametrize("normalize", [False, True])
def test_embeddings_are_those_of_a_language_model_with_the_same_body(
    folder, kind, pooling, normalize
) -> None:
    keys = {"normalize_embeddings": normalize, "embedding_length": 12}
    language = embedder(folder, kind, embedding_pooling=pooling, **keys)
    language = replace(language, has_head=False)
    model = language.config.model.kind
    is_default = pooling == {"encoder": "mean", "decoder": "last"}[model]
    pooler = None if is_default else PoolerConfig(kind=pooling)
    pairs = embedder(folder, "contrastive_pairs", pooler, model, **keys)
    body = {weight.path: weight for weight in language.model.weights}
    for weight in pairs.model.weights:
        weight.assign(body[weight.path])
    np.testing.assert_allclose(embed(pairs), embed(language), atol=1e-6)


def test_the_signatures_are_those_of_an_embedding_export(folder) -> None:
    masked = replace(embedder(folder, "masked"), has_head=False)
    pairs = embedder(folder, "contrastive_pairs")
    ours, theirs = (make_signature_task(of) for of in (pairs, masked))
    assert isinstance(ours, EmbeddingTask)
    assert ours.endpoints().keys() == theirs.endpoints().keys()
    for name, endpoint in ours.endpoints().items():
        assert endpoint.inputs == theirs.endpoints()[name].inputs
    assert ours.phone_endpoints().keys() == theirs.phone_endpoints().keys()


@pytest.mark.parametrize(
    ("model", "pooler"),
    [
        ("encoder", PoolerConfig(kind="attention", projection=True)),
        ("decoder", PoolerConfig(kind="attention", projection=True)),
        ("decoder", PoolerConfig(kind="end_token", projection=True)),
    ],
)
def test_what_was_trained_is_exported(folder, model, pooler) -> None:
    """A pooler with weights of its own, too."""
    keys = {"normalize_embeddings": True}
    trained = embedder(folder, "contrastive_pairs", pooler, model, **keys)
    task = make_signature_task(trained)
    tokens = task.endpoints()["tokenize"].function(tf.constant(TEXTS))
    ids = tokens["token_ids"]
    mask = tf.cast(tf.sequence_mask(tokens["length"]), tf.int32)
    expected = trained.model({"token_ids": ids, "padding_mask": mask})["embedding"]
    np.testing.assert_allclose(embed(trained), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "normalize"),
    [("encoder", False), ("encoder", True), ("decoder", False)],
)
def test_other_vectors_fail_the_parity_check(folder, model, normalize) -> None:
    pooler = PoolerConfig(kind="end_token") if model == "decoder" else None
    keys = {"normalize_embeddings": normalize}
    trained = embedder(folder, "contrastive_pairs", pooler, model, **keys)
    task = make_signature_task(trained)
    checker = EmbeddingParityChecker(trained, TEXTS)

    def ask(signature, inputs):
        found = task.endpoints()[signature].function(tf.constant(inputs["text"]))
        return {name: value.numpy() for name, value in found.items()}

    def altered(signature, inputs):
        found = ask(signature, inputs)
        if "embedding" in found:
            found["embedding"] = found["embedding"] * 1.01
        return found

    assert all(row.passed for row in checker.saved_model_rows("form", ask))
    rows = checker.saved_model_rows("form", altered)
    assert [row.passed for row in rows] == [True, False, False]
