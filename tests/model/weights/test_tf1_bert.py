"""A checkpoint of the first BERT answers as the same weights do in transformers."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.model.conftest import tensorflow_only
from tests.model.weights.conftest import built
from tests.model.weights.hugging_face_checkpoints import CASES
from tests.model.weights.inputs import source_ids, source_mask
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.model.weights.checkpoint_import import read_checkpoint

pytestmark = tensorflow_only
GOLDEN = np.load(Path(__file__).with_name("golden.npz"))

# What google-research/bert calls things, after transformers' names.
RENAMED = (
    (".", "/"),
    ("layer/", "layer_"),
    ("_embeddings/weight", "_embeddings"),
    ("predictions/bias", "predictions/output_bias"),
    ("relationship/weight", "relationship/output_weights"),
    ("relationship/bias", "relationship/output_bias"),
    ("LayerNorm/weight", "LayerNorm/gamma"),
    ("LayerNorm/bias", "LayerNorm/beta"),
    ("/weight", "/kernel"),
)


def write(folder: Path, tensors: dict[str, np.ndarray], **changed: object) -> Path:
    """As the code of the first BERT leaves it after training."""
    folder.mkdir(exist_ok=True)
    variables = {"global_step": np.int64(7)}
    for name, array in tensors.items():
        for old, new in RENAMED:
            name = name.replace(old, new)
        variables[name] = array.T if name.endswith("kernel") else array
        variables[f"{name}/adam_m"] = variables[f"{name}/adam_v"] = variables[name]
    tf.raw_ops.SaveV2(
        prefix=str(folder / "bert_model.ckpt"),
        tensor_names=list(variables),
        shape_and_slices=[""] * len(variables),
        tensors=[tf.constant(array) for array in variables.values()],
    )
    config = CASES["bert"].config
    named = ("architectures", "model_type", "layer_norm_eps", "pad_token_id")
    config = {key: value for key, value in config.items() if key not in named}
    text = json.dumps({**config, "directionality": "bidi", **changed})
    (folder / "bert_config.json").write_text(text)
    return folder


def test_same_answers(tmp_path):
    folder = write(tmp_path / "uncased", CASES["bert_pairs"].tensors())
    checkpoint = read_checkpoint(folder)
    assert checkpoint.format == "tf1"
    assert checkpoint.objective == SentencePairsConfig()
    ids, mask = source_ids("bert"), source_mask()
    outputs = built(checkpoint)(
        {
            "token_ids": ids,
            "padding_mask": mask,
            "segment_ids": ids % 2 * mask,
            "masked_positions": np.tile(np.arange(6, dtype="int32"), (2, 1)),
        }
    )
    real = mask.astype(bool)
    for ours, theirs in (
        (outputs["logits"].numpy()[real], "prediction_logits"),
        (outputs["pair_logits"].numpy(), "seq_relationship_logits"),
    ):
        expected = GOLDEN[f"bert_pairs/{theirs}"]
        expected = expected[real] if theirs == "prediction_logits" else expected
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5)


def test_a_body_alone(tmp_path):
    folder = write(tmp_path, CASES["bert"].tensors())
    with pytest.raises(ArtifactError, match="bert/embeddings/word_embeddings: missing"):
        built(read_checkpoint(folder))
    body = {f"bert.{name}": array for name, array in CASES["bert"].tensors().items()}
    checkpoint = read_checkpoint(write(tmp_path, body))
    assert checkpoint.objective is None
    built(checkpoint)


def test_wrong_ones_are_refused(tmp_path):
    folder = write(tmp_path, CASES["bert_pairs"].tensors(), vocab_size=12)
    with pytest.raises(
        ArtifactError, match=r"word_embeddings: \(11, 8\), expected \(12, 8\)"
    ):
        built(read_checkpoint(folder))
    index = folder / "bert_model.ckpt.index"
    index.write_bytes(index.read_bytes()[:-30])
    with pytest.raises(ArtifactError, match="no whole TensorFlow checkpoint"):
        read_checkpoint(folder)
    index.unlink()
    with pytest.raises(ArtifactError, match="expected one TensorFlow checkpoint"):
        read_checkpoint(folder)
