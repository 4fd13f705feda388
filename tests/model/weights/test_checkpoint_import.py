"""All errors of a checkpoint are reported at once, by name."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.model.weights.conftest import built
from tests.model.weights.hugging_face_checkpoints import CASES, YARN
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.schema.block import (
    LinearStretchConfig,
    NoStretchConfig,
    YarnStretchConfig,
)
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.model.encoder import build_encoder
from transbeam.model.weights.assign import variable_shapes
from transbeam.model.weights.checkpoint_import import read_checkpoint


def refusal(folder: Path) -> str:
    with pytest.raises(ArtifactError) as error:
        built(read_checkpoint(folder))
    return str(error.value)


def put(folder: Path, tensors: dict[str, np.ndarray]) -> None:
    save_file(tensors, folder / "model.safetensors")


def test_all_that_is_wrong_is_named_at_once(tmp_path):
    case = CASES["bert_masked"]
    folder = case.write(tmp_path)
    tensors = case.tensors()
    layer = "bert.encoder.layer.1"
    del tensors[f"{layer}.attention.self.query.bias"]
    del tensors["cls.predictions.bias"]
    tensors[f"{layer}.output.dense.weight"] = np.zeros((12, 8), "float32")
    tensors["bert.encoder.layer.2.output.dense.bias"] = np.zeros(8, "float32")
    tensors["adapter.weight"] = np.zeros((2, 3), "float32")
    put(folder, tensors)
    lines = refusal(folder).splitlines()
    assert lines[0] == f"{folder}: 5 tensors are not as the model needs:"
    assert sorted(lines[1:-1]) == [
        "  adapter.weight: (2, 3), expected no such tensor",
        "  bert.encoder.layer.2.output.dense.bias: (8,), expected no such tensor",
        "  cls.predictions.bias: missing, expected (11,)",
        "  encoder.layer.1.attention.self.query.bias: missing, expected (8,)",
        "  encoder.layer.1.output.dense.weight: (12, 8), expected (8, 12)",
    ]


def test_biases_that_the_configuration_denies_are_strangers(tmp_path):
    case = CASES["llama_tied_with_biases"]
    message = refusal(case.write(tmp_path, mlp_bias=False))
    for name in ("gate", "up", "down"):
        assert f"model.layers.1.mlp.{name}_proj.bias: " in message
    assert "6 tensors" in message


def test_a_second_table_that_is_not_the_first(tmp_path):
    message = refusal(CASES["llama"].write(tmp_path, tie_word_embeddings=True))
    assert "lm_head.weight is not model.embed_tokens.weight again" in message


def test_a_table_of_scores_that_is_missing(tmp_path):
    case = CASES["llama_tied_with_biases"]
    message = refusal(case.write(tmp_path, tie_word_embeddings=False))
    assert "lm_head.weight: missing, expected (11, 8)" in message


def test_names_with_and_without_prefix(tmp_path):
    case = CASES["gpt2"]
    folder = case.write(tmp_path)
    tensors = case.tensors()
    put(folder, {**tensors, "wte.weight": tensors["transformer.wte.weight"]})
    message = refusal(folder)
    assert "wte.weight" in message
    assert "transformer.wte.weight" in message
    assert "which are one weight" in message


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "last.ckpt"])
def test_pickles_are_refused_and_never_opened(name, tmp_path):
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "it_ran",))

    folder = CASES["bert"].write(tmp_path / "checkpoint")
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps(Trap()))
    message = refusal(folder)
    assert f"{name} is a pickle, and reading one runs the program in it" in message
    assert "safe_serialization=True" in message
    assert not (tmp_path / "it_ran").exists()


def test_pickles_are_told_of_without_a_config_too(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    assert f"{tmp_path}: pytorch_model.bin is a pickle" in refusal(tmp_path)
    (tmp_path / "training_args.bin").write_bytes(b"")
    told = "pytorch_model.bin, training_args.bin are pickles, and"
    assert told in refusal(tmp_path)


def test_safetensors_beside_a_pickle_are_read(tmp_path):
    folder = CASES["bert"].write(tmp_path)
    (folder / "pytorch_model.bin").write_bytes(b"not even a pickle")
    built(read_checkpoint(folder))


def test_a_quantised_checkpoint(tmp_path):
    folder = CASES["bert"].write(tmp_path)
    tensors = CASES["bert"].tensors()
    name = "encoder.layer.0.intermediate.dense.weight"
    put(folder, {**tensors, name: tensors[name].astype("int8")})
    message = refusal(folder)
    assert f"{name} holds numbers of format I8, expected one of F64" in message
    assert "the weights are quantised" in message
    name = name.replace("weight", "qweight")
    put(folder, {**tensors, name: np.zeros((1, 8), "int32")})
    message = refusal(folder)
    assert f"{name} holds numbers of format I32" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("told", "method"),
    [
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "gptq"),
        ({"quantization": {"bits": 4, "group_size": 64}}, "quantization"),
    ],
)
def test_a_configuration_that_says_it_is_quantised(tmp_path, told, method):
    message = refusal(CASES["gpt2"].write(tmp_path, **told))
    assert f"{tmp_path}/config.json: {next(iter(told))}: the weights are " in message
    assert f"quantised ({method}), which cannot be read" in message
    assert "\n" not in message


@pytest.mark.parametrize("with_config", [True, False])
def test_an_adapter_is_no_model(tmp_path, with_config):
    if with_config:
        CASES["gpt2"].write(tmp_path)
    told = {"peft_type": "LORA", "base_model_name_or_path": "some/base"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(told))
    message = refusal(tmp_path)
    assert message.startswith(
        f"{tmp_path}/adapter_config.json: the folder holds LORA weights for some/base"
    )
    assert "merge_and_unload" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "model.safetensors.index.json"]
)
def test_files_that_git_lfs_has_not_fetched(tmp_path, name):
    folder = CASES["bert"].write(tmp_path)
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
    (folder / name).write_text(pointer)
    message = refusal(folder)
    assert message.startswith(f"{folder}/{name}: is a pointer of Git LFS")
    assert "git lfs pull" in message


@pytest.mark.parametrize(
    ("case", "put_around"),
    [
        ("bert_masked", "_orig_mod.{}"),
        ("bert_masked", "module.{}"),
        ("bert", "student.module.{}"),
        ("gpt2", "model.{}"),
        ("llama_tied_with_biases", "module.{}"),
        ("t5", "_fsdp_wrapped_module.{}"),
    ],
)
def test_what_is_around_all_names_is_no_part_of_them(tmp_path, case, put_around):
    tensors = CASES[case].tensors()
    folder = CASES[case].write(tmp_path)
    expected = [weight.numpy() for weight in built(read_checkpoint(folder)).weights]
    put(folder, {put_around.format(name): tensors[name] for name in tensors})
    checkpoint = read_checkpoint(folder)
    assert list(checkpoint.wrappers) == [put_around.format("")]
    for weight, values in zip(built(checkpoint).weights, expected, strict=True):
        np.testing.assert_array_equal(weight.numpy(), values)


def test_blocks_that_were_compiled_one_by_one(tmp_path):
    tensors = CASES["bert"].tensors()
    folder = CASES["bert"].write(tmp_path)
    layer = "encoder.layer.1."
    put(folder, {k.replace(layer, f"{layer}_orig_mod."): v for k, v in tensors.items()})
    checkpoint = read_checkpoint(folder)
    assert list(checkpoint.wrappers) == ["_orig_mod."]
    built(checkpoint)


@pytest.mark.parametrize(
    ("part", "around"),
    [
        ("bert.", "bert.model."),
        ("bert.", "student.bert."),
        ("bert.encoder.", "module.bert.encoder."),
    ],
)
def test_what_is_around_the_names_of_the_body_alone(tmp_path, part, around):
    case = CASES["bert_masked"]
    folder = case.write(tmp_path)
    expected = [weight.numpy() for weight in built(read_checkpoint(folder)).weights]
    put(folder, {name.replace(part, around): t for name, t in case.tensors().items()})
    checkpoint = read_checkpoint(folder)
    assert len(checkpoint.wrappers) == 1
    for weight, values in zip(built(checkpoint).weights, expected, strict=True):
        np.testing.assert_array_equal(weight.numpy(), values)


def test_two_models_of_one_kind_are_not_one(tmp_path):
    folder = CASES["bert"].write(tmp_path)
    tensors = CASES["bert"].tensors()
    put(folder, tensors | {f"ema.{name}": t for name, t in tensors.items()})
    assert "which are one weight" in refusal(folder)


@pytest.mark.parametrize("case", sorted(CASES))
def test_of_names_without_any_of_it_nothing_is_taken(tmp_path, case):
    assert read_checkpoint(CASES[case].write(tmp_path)).wrappers == []


def test_numbers_that_are_not_finite(tmp_path):
    folder = CASES["bert"].write(tmp_path)
    tensors = CASES["bert"].tensors()
    tensors["pooler.dense.bias"][3] = np.inf
    put(folder, tensors)
    assert "pooler/bias: 1 of 8 numbers are not finite" in refusal(folder)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: data[:-10], "no whole safetensors file"),
        (lambda data: b"", "no whole safetensors file"),
        (lambda data: b"x" * 200, "no whole safetensors file"),
    ],
)
def test_damaged_files(spoil, said, tmp_path):
    file = CASES["bert"].write(tmp_path) / "model.safetensors"
    file.write_bytes(spoil(file.read_bytes()))
    assert said in refusal(tmp_path)


def test_nothing_there(tmp_path):
    assert "no such folder. Nothing is downloaded" in refusal(tmp_path / "nowhere")
    (tmp_path / "model").write_bytes(b"")
    assert "is a file. Give the folder it is in" in refusal(tmp_path / "model")
    assert f"{tmp_path}: contains no checkpoint; expected config.json with model" in (
        refusal(tmp_path)
    )
    (tmp_path / "config.json").mkdir()
    assert "config.json: cannot be read (Is a directory)" in refusal(tmp_path)
    (tmp_path / "config.json").rmdir()
    (tmp_path / "config.json").write_text("[" * 100_000)
    assert "config.json: is not JSON" in refusal(tmp_path)
    (tmp_path / "config.json").write_text("{")
    assert "config.json: is not JSON" in refusal(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    assert "is no JSON object" in refusal(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    assert "model_type is 'mamba', expected one of bert, roberta" in refusal(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CASES["bert"].config))
    assert "contains no model.safetensors" in refusal(tmp_path)
    for name in ("a", "b"):
        save_file({"x": np.ones(1)}, tmp_path / f"{name}.safetensors")
    assert "several safetensors files (a.safetensors, b.safet" in refusal(tmp_path)


def index(folder: Path, weight_map: object) -> None:
    text = json.dumps({"weight_map": weight_map})
    (folder / "model.safetensors.index.json").write_text(text)


def test_an_index_that_does_not_fit(tmp_path):
    folder = CASES["bert"].write(tmp_path)
    file = "model.safetensors"
    index(folder, dict.fromkeys(CASES["bert"].shapes, file) | {"lost": file})
    assert "names tensors that are in no file: lost" in refusal(folder)
    index(folder, {"x": "model-00002-of-00002.safetensors"})
    assert "model-00002-of-00002.safetensors: no such file, but" in refusal(folder)
    index(folder, {"x": "../elsewhere/model.safetensors"})
    assert "names files outside of its folder" in refusal(folder)
    index(folder, {"x": ".."})
    assert "weight_map has '..', expected the name of a safetensors" in refusal(folder)
    index(folder, {"x": "pytorch_model-00001-of-00001.bin"})
    assert "weight_map has 'pytorch_model-00001-of-00001.bin'" in refusal(folder)
    index(folder, {"x": 3, "y": file})
    assert "weight_map has 3, expected" in refusal(folder)
    index(folder, {"x": []})
    assert "no index of safetensors files" in refusal(folder)
    index(folder, {})  # the file beside it may be of something else
    assert "its weight_map is empty" in refusal(folder)
    index(folder, ["x"])
    assert "no index of safetensors files" in refusal(folder)


def test_a_tensor_that_is_in_two_files(tmp_path):
    folder = CASES["bert"].write(tmp_path)
    (folder / "model.safetensors").rename(folder / "a.safetensors")
    name = "pooler.dense.bias"
    save_file({name: np.ones(8, "float32")}, folder / "b.safetensors")
    files = dict.fromkeys(CASES["bert"].shapes, "a.safetensors")
    index(folder, files | {name: "b.safetensors"})
    assert f"b.safetensors: has {name}, as another file of the" in refusal(folder)


def test_a_link_to_no_file(tmp_path):
    folder = CASES["bert"].write(tmp_path)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("blobs/gone")
    assert refusal(folder).endswith(
        "model.safetensors: is a link to no file. Fetch the checkpoint again"
    )


def test_shards_and_a_whole_file(tmp_path):
    """Other programs read the one or the other."""
    folder = CASES["bert"].write(tmp_path)
    save_file(CASES["bert"].tensors(), folder / "a.safetensors")
    index(folder, dict.fromkeys(CASES["bert"].shapes, "a.safetensors"))
    assert "has model.safetensors, and model.safetensors.index.json names" in (
        refusal(folder)
    )


def test_a_head_that_is_not_there(tmp_path):
    """As models of sentences have it: named for what they were trained from."""
    folder = CASES["bert"].write(tmp_path, architectures=["BertForMaskedLM"])
    message = refusal(folder)
    assert "5 tensors are not as the model needs" in message
    assert "Take that key out to read the model without a head" in message
    assert read_checkpoint(folder, body_alone=True).objective is None
    tensors = CASES["bert"].tensors()
    del tensors["encoder.layer.0.output.dense.bias"]
    put(folder, tensors)
    assert "must be of one model" in refusal(folder)


def test_a_model_saved_with_its_adapters(tmp_path):
    tensors = CASES["bert_masked"].tensors()
    query = "bert.encoder.layer.0.attention.self.query"
    tensors[f"{query}.base_layer.weight"] = tensors.pop(f"{query}.weight")
    tensors[f"{query}.lora_A.default.weight"] = np.ones((2, 8), "float32")
    folder = CASES["bert_masked"].write(tmp_path)
    put(folder, {f"base_model.model.{name}": t for name, t in tensors.items()})
    message = refusal(folder)
    assert "base_layer.weight: the model was saved with adapters (LoRA)" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("case", "changed", "said"),
    [
        ("bert", {"hidden_act": "mish"}, "hidden_act is 'mish', expected one of gelu"),
        ("bert", {"hidden_size": None}, "hidden_size is missing, expected a whole"),
        ("bert", {"hidden_size": "8"}, "hidden_size is '8', expected a whole number"),
        (
            "bert",
            {"position_embedding_type": "relative_key"},
            "position_embedding_type is 'relative_key', expected 'absolute'",
        ),
        ("bert", {"is_decoder": True}, "is_decoder is True, expected False"),
        ("bert", {"type_vocab_size": 0}, "type_vocab_size is 0, expected a whole"),
        (
            "bert",
            {"architectures": ["BertForMultipleChoice"]},
            "architectures is ['BertForMultipleChoice'], expected one of BertModel",
        ),
        (
            "bert_masked",
            {"tie_word_embeddings": False},
            "tie_word_embeddings is False, expected True",
        ),
        (
            "gpt2",
            {"scale_attn_by_inverse_layer_idx": True},
            "scale_attn_by_inverse_layer_idx is True, expected False",
        ),
        (
            "llama",
            {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
            "rope_scaling: rope_type is 'llama3', expected one of default, linear",
        ),
        (
            "llama",
            {"rope_scaling": {**YARN, "mscale": 0.7}},
            "rope_scaling: mscale is 0.7, expected no such key",
        ),
        (
            "llama",
            {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
            "rope_parameters: partial_rotary_factor is 0.5",
        ),
        (
            "llama",
            {"partial_rotary_factor": 0.5},
            "partial_rotary_factor is 0.5, expected 1.0",
        ),
        ("llama", {"hidden_act": 7}, "hidden_act is 7, expected one of gelu"),
        ("t5", {"feed_forward_proj": "maxout"}, "feed_forward_proj is 'maxout'"),
        ("vit", {"pooler_act": "relu"}, "pooler_act is 'relu', expected 'tanh'"),
        (
            "bert_classifier",
            {"id2label": {"x": "y"}},
            'id2label is {"x": "y"}, expected names of classes by their numbers, 0',
        ),
        (
            "bert_classifier",  # whose third class would be called `good`
            {"id2label": {"0": "bad", "1": "so-so", "3": "good"}},
            "expected names of classes by their numbers, 0 to 2",
        ),
        (
            "bert_classifier",
            {"id2label": {"-1": "bad", "0": "so-so", "1": "good"}},
            "expected names of classes by their numbers, 0 to 2",
        ),
        (
            "bert_classifier",
            {"id2label": {"0": None, "1": "so-so", "2": "good"}},
            "expected names of classes by their numbers, 0 to 2",
        ),
        ("bert_tagger", {"id2label": {"0": "a"}}, "id2label: "),
        (
            "bert_classifier",
            {"id2label": ["a", "b"]},
            "id2label is ['a', 'b'], expected a JSON object",
        ),
        (
            "bert_classifier",
            {"problem_type": "ranking"},
            "problem_type is 'ranking', expected one of single_label_classification",
        ),
        (
            "vit_classifier",
            {"problem_type": "regression"},
            "problem_type is 'regression', expected 'single_label_classification'",
        ),
        ("bert", {"num_attention_heads": 3}, "hidden_dim=8 is not a multiple of"),
        (
            "llama",
            {"num_attention_heads": 0},
            "num_attention_heads is 0, expected a whole number of at least 1",
        ),
        (
            "roberta",
            {"max_position_embeddings": 2},
            "max_position_embeddings is 2, expected a whole number of at least 3",
        ),
        ("gpt2", {"n_layer": 10**30}, "expected at most 2,147,483,647"),
        ("bert", {"hidden_dropout_prob": 1.5}, "dropout=1.5 is out of range"),
        ("bert", {"layer_norm_eps": float("nan")}, "expected a finite number"),
        ("bert", {"layer_norm_eps": 10**400}, "expected a finite number"),
        ("gpt2", {"eos_token_id": "0"}, "eos_token_id is '0', expected the id of a"),
        (
            "bert",
            {"num_hidden_layers": 1_000_000},
            "describes a model of 532,000,272 weights (1,000,000 blocks, 8 wide, 11 "
            "tokens), and the tensors are 1,336 numbers",
        ),
        ("bert", {"hidden_size": 2**30}, "(2 blocks, 1,073,741,824 wide, 11 tokens)"),
        ("bert", {"vocab_size": 2**30}, "(2 blocks, 8 wide, 1,073,741,824 tokens)"),
    ],
)
def test_settings_that_our_models_do_not_have(case, changed, said, tmp_path):
    message = refusal(CASES[case].write(tmp_path, **changed))
    assert message.startswith(str(tmp_path))
    assert said in message


HOSTILE = (
    *(0, -1, 10**9, 1e308, float("nan"), True, None),
    *("", [], [1], [[]], {}, {"1": "a"}, {"0": [], "1": {}}),
)


@pytest.mark.parametrize("case", ["bert_classifier", "llama_yarn", "t5", "vit"])
def test_no_setting_breaks_more_than_a_rule(case, tmp_path):
    folder = CASES[case].write(tmp_path)
    keys = {*CASES[case].config, "rope_parameters", "problem_type", "eos_token_id"}
    refused = 0
    for key in keys:
        for value in HOSTILE:
            text = json.dumps({**CASES[case].config, key: value})
            (folder / "config.json").write_text(text)
            try:
                read_checkpoint(folder)
            except ArtifactError:
                refused += 1
    assert refused > 3 * len(keys)


def test_one_tensor_alone(tmp_path):
    folder = CASES["bert"].write(tmp_path)
    put(folder, {**CASES["bert"].tensors(), "adapter.weight": np.zeros(2, "float32")})
    assert ": 1 tensor is not as the model needs:" in refusal(folder)


@pytest.mark.parametrize(
    ("changed", "stretch"),
    [
        ({}, NoStretchConfig()),
        (
            {"rope_scaling": {"type": "linear", "factor": 2}},
            LinearStretchConfig(factor=2.0),
        ),
        # Changes nothing for texts within max_position_embeddings.
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, NoStretchConfig()),
        (
            {"rope_scaling": {"type": "yarn", "factor": 2.0}},
            YarnStretchConfig(factor=2.0, original_length=64),
        ),
        (
            {"rope_theta": None, "rope_parameters": {**YARN, "rope_theta": 100.0}},
            YarnStretchConfig(factor=4.0, original_length=16, beta_fast=4.0),
        ),
    ],
)
def test_stretches_of_rope(changed, stretch, tmp_path):
    config = read_checkpoint(CASES["llama"].write(tmp_path, **changed)).config
    assert config.position.base == 100.0
    assert config.position.stretch == stretch


def test_without_architectures_there_is_no_head(tmp_path):
    case = CASES["bert_masked"]
    checkpoint = read_checkpoint(case.write(tmp_path, architectures=None))
    assert checkpoint.objective is None
    assert read_checkpoint(case.write(tmp_path)).objective == MaskedConfig()


def test_a_model_that_the_checkpoint_was_not_made_for(tmp_path):
    checkpoint = read_checkpoint(CASES["distilbert"].write(tmp_path))
    bert = read_checkpoint(CASES["bert"].write(tmp_path / "bert"))
    shapes = variable_shapes(build_encoder(bert.config, 11))
    with pytest.raises(ArtifactError, match=r"segment_embedding/embeddings \(2, 8\)"):
        checkpoint.weights(shapes)
