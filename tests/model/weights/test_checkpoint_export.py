"""Imported tensors are exported bit for bit, under the same names."""

import dataclasses
import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.model.weights.conftest import built
from tests.model.weights.hugging_face_checkpoints import CASES, numbers
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.schema.block import AlibiPositionConfig, NoFeedForwardConfig
from transbeam.configs.schema.model import DecoderConfig, EncoderConfig, PoolerConfig
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.model.decoder import build_decoder
from transbeam.model.encoder import build_encoder
from transbeam.model.weights.assign import assign, variable_shapes, variables_by_path
from transbeam.model.weights.checkpoint_export import export_checkpoint
from transbeam.model.weights.checkpoint_import import read_checkpoint
from transbeam.model.weights.checkpoints.model_family import Description
from transbeam.model.weights.hugging_face.families import FAMILIES


def read_all(folder: Path) -> dict[str, np.ndarray]:
    files = [load_file(path) for path in sorted(folder.glob("*.safetensors"))]
    return {name: array for file in files for name, array in file.items()}


def assert_equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_bit_for_bit_and_name_for_name(case, folder, tmp_path):
    checkpoint = read_checkpoint(folder)
    model = built(checkpoint)
    written = tmp_path / "written"
    family = export_checkpoint(
        variables_by_path(model), checkpoint.description, written
    )
    assert family == CASES[case].config["model_type"]
    assert_equal(read_all(written), CASES[case].tensors())
    assert read_checkpoint(written).description == checkpoint.description
    # What transformers computes by is written as it was.
    theirs = json.loads((written / "config.json").read_text())
    ignored = {"rope_scaling"}  # with one word more
    for key, value in CASES[case].config.items():
        if key not in ignored:
            assert theirs[key] == value, key


def test_arrays_do_as_well_as_a_model(tmp_path):
    """A mapping of paths to arrays, with no Keras model anywhere."""
    folder = CASES["gpt2"].write(tmp_path / "gpt2")
    checkpoint = read_checkpoint(folder)
    weights = dict(checkpoint.weights(variable_shapes(built(checkpoint))))
    export_checkpoint(weights, checkpoint.description, tmp_path / "written")
    assert_equal(read_all(tmp_path / "written"), CASES["gpt2"].tensors())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_read_as_what_it_is_and_written_rounded(dtype, tmp_path):
    folder = CASES["llama"].write(tmp_path / "llama")
    half = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[dtype]
    tensors = {n: a.astype(half) for n, a in CASES["llama"].tensors().items()}
    save_file(tensors, folder / "model.safetensors")
    checkpoint = read_checkpoint(folder)
    model = built(checkpoint)
    path = "decoder_layer_1/self_attention/key/kernel"
    kernel = variables_by_path(model)[path].numpy()
    assert kernel.dtype == np.float32
    there = tensors["model.layers.1.self_attn.k_proj.weight"].astype("float32").T
    np.testing.assert_array_equal(kernel, there)

    export_checkpoint(
        variables_by_path(model), checkpoint.description, tmp_path / "out", dtype=dtype
    )
    assert_equal(read_all(tmp_path / "out"), tensors)
    assert (
        json.loads((tmp_path / "out/config.json").read_text())["torch_dtype"] == dtype
    )


def test_shards_are_written_read_and_small_enough(tmp_path):
    folder = CASES["t5"].write(tmp_path / "t5")
    checkpoint = read_checkpoint(folder)
    model = built(checkpoint)
    out = tmp_path / "out"
    # Leaves one file that the shards are to replace.
    export_checkpoint(variables_by_path(model), checkpoint.description, out)
    export_checkpoint(
        variables_by_path(model), checkpoint.description, out, max_shard_bytes=2000
    )
    files = sorted(out.glob("*.safetensors"))
    assert len(files) > 3
    assert files[0].name == f"model-00001-of-{len(files):05}.safetensors"
    for file in files:
        assert sum(array.nbytes for array in load_file(file).values()) <= 2000
    index = json.loads((out / "model.safetensors.index.json").read_text())
    total = sum(array.nbytes for array in CASES["t5"].tensors().values())
    assert index["metadata"]["total_size"] == total
    for name, file in index["weight_map"].items():
        assert name in load_file(out / file)
    assert_equal(read_all(out), CASES["t5"].tensors())
    again = built(read_checkpoint(out))
    for path, weight in variables_by_path(again).items():
        np.testing.assert_array_equal(
            weight.numpy(), variables_by_path(model)[path].numpy()
        )
    # And back to one file.
    export_checkpoint(variables_by_path(model), checkpoint.description, out)
    assert sorted(path.name for path in out.iterdir()) == [
        "config.json",
        "model.safetensors",
    ]


def test_rows_past_the_vocabulary_are_zero_and_are_not_written(tmp_path):
    folder = CASES["llama"].write(tmp_path / "llama")
    checkpoint = read_checkpoint(folder)
    config = dataclasses.replace(checkpoint.config, vocabulary_multiple=8)
    padded = dataclasses.replace(checkpoint.description, config=config)
    checkpoint = dataclasses.replace(checkpoint, description=padded)
    model = built(checkpoint)
    weights = variables_by_path(model)
    table = weights["token_embedding/embeddings"].numpy()
    assert table.shape == (16, 8)
    np.testing.assert_array_equal(table[11:], 0)
    export_checkpoint(weights, padded, tmp_path / "out")
    assert_equal(read_all(tmp_path / "out"), CASES["llama"].tensors())


@pytest.mark.parametrize("with_prefix", [False, True])
def test_gpt2_as_its_authors_named_it(with_prefix, tmp_path):
    """No prefix, and the causal masks among the weights."""
    case = CASES["gpt2"]
    folder = case.write(tmp_path / "gpt2")
    prefix = "transformer." if with_prefix else ""
    tensors = {
        prefix + name.removeprefix("transformer."): array
        for name, array in case.tensors().items()
    }
    for i in range(2):
        mask = np.tril(np.ones((1, 1, 10, 10), "float32"))
        tensors[f"{prefix}h.{i}.attn.bias"] = mask
        tensors[f"{prefix}h.{i}.attn.masked_bias"] = np.float32([-1e4])
    tensors["lm_head.weight"] = tensors[f"{prefix}wte.weight"]
    save_file(tensors, folder / "model.safetensors")
    checkpoint = read_checkpoint(folder)
    export_checkpoint(
        variables_by_path(built(checkpoint)), checkpoint.description, tmp_path / "out"
    )
    assert_equal(read_all(tmp_path / "out"), case.tensors())


def test_the_first_bert_with_gamma_beta_and_every_head(tmp_path):
    """The most used checkpoint of all is of masked tokens, and holds more."""
    case = CASES["bert_pairs"]
    folder = case.write(tmp_path / "bert", architectures=["BertForMaskedLM"])
    tensors = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): array
        for name, array in case.tensors().items()
    }
    tensors["bert.embeddings.position_ids"] = np.arange(10)[None]
    table = tensors["bert.embeddings.word_embeddings.weight"]
    tensors["cls.predictions.decoder.weight"] = table
    tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"]
    save_file(tensors, folder / "model.safetensors")
    checkpoint = read_checkpoint(folder)
    assert checkpoint.objective == MaskedConfig()
    model = built(checkpoint)
    assert checkpoint.left_out(variable_shapes(model)) == [
        "bert.pooler.dense.bias",
        "bert.pooler.dense.weight",
        "cls.seq_relationship.bias",
        "cls.seq_relationship.weight",
    ]
    export_checkpoint(
        variables_by_path(model), checkpoint.description, tmp_path / "out"
    )
    kept = {
        name: array
        for name, array in case.tensors().items()
        if "pooler" not in name and "seq_relationship" not in name
    }
    assert_equal(read_all(tmp_path / "out"), kept)


def test_tied_tables_may_be_there_twice(tmp_path):
    case = CASES["t5"]
    folder = case.write(tmp_path / "t5")
    tensors = case.tensors()
    names = ("encoder.embed_tokens", "decoder.embed_tokens", "lm_head")
    tensors |= {f"{name}.weight": tensors["shared.weight"] for name in names}
    unread = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    tensors[unread] = numbers(unread, (8, 2))
    save_file(tensors, folder / "model.safetensors")
    checkpoint = read_checkpoint(folder)
    export_checkpoint(
        variables_by_path(built(checkpoint)), checkpoint.description, tmp_path / "out"
    )
    assert_equal(read_all(tmp_path / "out"), case.tensors())


def test_t5_1_1_as_transformers_5_writes_it(tmp_path):
    """It says that it ties, and that it does not scale; two tables are there."""
    old = read_checkpoint(CASES["t5_1_1"].write(tmp_path / "old"))
    new = read_checkpoint(
        CASES["t5_1_1"].write(
            tmp_path / "new", tie_word_embeddings=True, scale_decoder_outputs=False
        )
    )
    assert new.description == old.description
    assert new.config.tie_embeddings is new.config.scale_logits is False


def test_what_a_family_cannot_hold_is_refused_by_name(tmp_path):
    config = EncoderConfig(
        num_layers=1, hidden_dim=8, num_segments=2, position=AlibiPositionConfig()
    )
    weights = variables_by_path(build_encoder(config, 10))
    told = Description(config=config, vocabulary_size=10)
    with pytest.raises(ArtifactError) as error:
        export_checkpoint(weights, told, tmp_path, family="bert")
    assert "position.kind is 'alibi', not 'learned'" in str(error.value)
    with pytest.raises(ArtifactError, match="the model is none") as error:
        export_checkpoint(weights, told, tmp_path)
    for family in ("bert", "roberta", "distilbert", "gpt2", "llama", "t5", "vit"):
        assert f"  {family}: " in str(error.value)
    assert not any(tmp_path.iterdir())


def test_attention_only_models_are_refused_by_every_family(tmp_path):
    config = DecoderConfig(
        num_layers=1, hidden_dim=8, feedforward=NoFeedForwardConfig()
    )
    weights = variables_by_path(build_decoder(config, 10))
    description = Description(config=config, vocabulary_size=10)
    with pytest.raises(ArtifactError) as error:
        export_checkpoint(weights, description, tmp_path)
    reason = "feedforward.kind is 'none', and blocks of this format have a feed-forward"
    for family in FAMILIES:
        assert f"  {family}: {reason}" in str(error.value)
    assert not any(tmp_path.iterdir())


def test_unknown_families_and_formats(tmp_path):
    config = EncoderConfig(num_layers=1, hidden_dim=8)
    weights = variables_by_path(build_encoder(config, 10))
    told = Description(config=config, vocabulary_size=10)
    with pytest.raises(ArtifactError, match=r"'gpt3' is no family.*Known here: bert"):
        export_checkpoint(weights, told, tmp_path, family="gpt3")
    with pytest.raises(ValueError, match="dtype='int8'; known here: float32"):
        export_checkpoint(weights, told, tmp_path, dtype="int8")


def test_attention_pooling_has_no_name_in_bert(tmp_path):
    config = EncoderConfig(
        num_layers=1,
        hidden_dim=8,
        num_segments=2,
        pooler=PoolerConfig(kind="attention"),
    )
    weights = variables_by_path(build_encoder(config, 10))
    told = Description(config=config, vocabulary_size=10)
    with pytest.raises(ArtifactError, match="pooling/query"):
        export_checkpoint(weights, told, tmp_path, family="bert")


def test_assign_refuses_what_is_not_the_models():
    model = build_encoder(EncoderConfig(num_layers=1, hidden_dim=8), 10)
    good = {path: weight.numpy() for path, weight in variables_by_path(model).items()}
    norm = "embeddings_norm/gamma"
    with pytest.raises(ArtifactError, match=f"no values are given for {norm}"):
        assign(model, ((p, v) for p, v in good.items() if p != norm))
    with pytest.raises(ArtifactError, match="stranger: is no weight"):
        assign(model, {**good, "stranger": np.ones(3)}.items())
    with pytest.raises(
        ArtifactError, match=r"gamma: has shape \(3,\), expected \(8,\)"
    ):
        assign(model, {**good, norm: np.ones(3)}.items())
    with pytest.raises(ArtifactError, match="gamma: 1 of 8 numbers are not finite"):
        assign(model, {**good, norm: np.array([np.nan, *range(7)])}.items())


@pytest.mark.parametrize(
    ("case", "given", "written"),
    [
        ("gpt2", {}, {"bos_token_id": None, "eos_token_id": None}),
        ("llama", {}, {"bos_token_id": None, "eos_token_id": None}),
        ("gpt2", {"eos_token_id": 7}, {"bos_token_id": None, "eos_token_id": 7}),
        (
            "llama",
            {"bos_token_id": 1, "eos_token_id": [2, 9], "pad_token_id": -1},
            {"bos_token_id": 1, "eos_token_id": [2, 9], "pad_token_id": -1},
        ),
        ("bert", {"pad_token_id": 3}, {"pad_token_id": 3}),
        ("roberta", {"eos_token_id": 4}, {"bos_token_id": 0, "eos_token_id": 4}),
    ],
)
def test_ids_that_begin_and_end_a_text(case, given, written, tmp_path):
    """Left out, transformers would take those of the published models."""
    unset = dict.fromkeys(("bos_token_id", "eos_token_id"))
    folder = CASES[case].write(tmp_path / "in", **{**unset, **given})
    checkpoint = read_checkpoint(folder)
    weights = variables_by_path(built(checkpoint))
    export_checkpoint(weights, checkpoint.description, tmp_path / "out")
    theirs = json.loads((tmp_path / "out/config.json").read_text())
    assert {key: theirs[key] for key in written} == written
