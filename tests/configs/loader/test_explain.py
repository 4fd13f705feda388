"""`explain` shows every key of the schema, as a text and as JSON."""

import json
import re

import pytest

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.reflection import walk
from transbeam.configs.loader.explain import explain, explain_json
from transbeam.configs.schema.run import RunConfig


def test_one_part_with_its_kinds_and_their_keys():
    assert explain("model.position.stretch", width=70) == (
        "model.position.stretch:          Scaling of the frequencies for texts\n"
        "                                 longer than those in training.\n"
        "  kind: none                     Rotary embeddings with the original\n"
        "                                 frequencies, without scaling. The\n"
        "                                 default.\n"
        "  kind: linear                   Position interpolation: positions\n"
        "                                 divided by a factor (Chen et al.,\n"
        "                                 2023).\n"
        "    factor: (required)           Ratio of the desired length to the\n"
        "                                 trained length. [number at least 1.0]\n"
        "  kind: ntk                      NTK-aware base: lowest frequency\n"
        "                                 divided by the factor, highest\n"
        "                                 unchanged.\n"
        "    # as in linear:              factor\n"
        "  kind: yarn                     YaRN: scaling by the rotations within\n"
        "                                 the trained length (Peng et al.,\n"
        "                                 2023).\n"
        "    # as in linear:              factor\n"
        "    original_length: (required)  Maximum sequence length in training,\n"
        "                                 in tokens. [whole number at least 1]\n"
        "    beta_fast: 32.0              Frequencies with more rotations than\n"
        "                                 this within original_length are kept.\n"
        "                                 [number at least 0.0]\n"
        "    beta_slow: 1.0               Frequencies with fewer rotations than\n"
        "                                 this are divided by the factor; those\n"
        "                                 between beta_slow and beta_fast are\n"
        "                                 interpolated. [number at least 0.001]"
    )
    assert explain("model.position.kind", 70) == explain("model.position", 70)


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("training.steps", "training.steps: null  Number of optimizer updates."),
        ("training.steps", "[whole number or null at least 1]"),
        ("name", "name: (required)"),
        ("model.norm.placement", "['pre' or 'post']"),
        ("tokenizer.strip_accents", "tokenizer.strip_accents: null  "),
        ("tokenizer.strip_accents", "[true or false or null]"),
        ("export.tflite", "export.tflite: [float32, dynamic_int8]  "),
        ("seed", "seed: 0  "),
        ("data.source", "  Source of the documents. Required."),
    ],
)  # fmt: skip
def test_types_defaults_and_ranges(key, line):
    assert line in explain(key, width=200)


def test_whole_tree_names_every_key_and_tells_none_twice():
    lines = [line.strip() for line in explain(width=10_000).splitlines()]
    named = {line.partition(":")[0] for line in lines}
    named |= {
        name for line in lines if line[0] == "#" for name in re.findall(r"\w+", line)
    }
    assert {key.name for _, key in walk(RunConfig)} <= named
    for told_once in ("hidden_dim: 256", "num_heads: 4", "window_size: 512", "stddev"):
        assert sum(line.startswith(told_once) for line in lines) == 1
    assert "[the same kinds as source]" in explain("data", width=10_000)
    assert "kind: wikipedia" in explain("data.validation_source")


def test_families_say_what_they_share_and_where_they_differ():
    rows = explain("model", width=10_000).splitlines()
    decoder = rows[rows.index(next(row for row in rows if "kind: decoder" in row)) :]
    shared, norm, attention, tied, pooler, seq2seq = decoder[1:7]
    assert shared.split()[:6] == [
        "#",
        "as",
        "in",
        "encoder:",
        "preset,",
        "init_from,",
    ]
    assert norm.strip().startswith(
        "norm: {kind: layer_norm, placement: pre, epsilon: 1e-05}  Normalization"
    )
    assert norm.endswith("[the same kinds as norm of encoder]")
    assert attention.endswith(
        "[the kinds full, sliding_window, kernel of attention of encoder]"
    )
    assert tied.strip().startswith("tie_embeddings: true  ")
    assert pooler.strip().startswith("pooler: ")
    assert pooler.endswith("[the same keys as pooler of encoder]")
    assert seq2seq.strip().startswith("kind: seq2seq  ")


def test_key_of_several_values_that_is_called_kind():
    assert "  kind: first        `first`: the vector of" in explain("model.pooler", 90)
    assert explain_json("model.pooler")["keys"]["kind"]["default"] == "first"


def test_no_line_is_wider_than_asked_for():
    assert max(map(len, explain(width=90).splitlines())) <= 90


def test_every_key_has_a_doc():
    assert [
        key for key, found in walk(RunConfig) if not found.doc and key[-4:] != "kind"
    ] == []


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (
            "model.positions",
            "model.positions: unknown key. Did you mean 'model.position'?",
        ),
        ("num_layers", "num_layers: unknown key. Did you mean 'model.num_layers'?"),
        ("training.peak", "Did you mean 'training.schedule.peak'?"),
        ("a.b", "a.b: unknown key. Known: extends, name, seed, data, tokenizer,"),
    ],
)
def test_unknown_key(key, message):
    with pytest.raises(ConfigError) as caught:
        explain(key)
    assert message in str(caught.value)
    with pytest.raises(ConfigError):
        explain_json(key)


def test_json_of_a_plain_key_a_section_and_a_choice():
    assert explain_json("model.dropout") == {
        "type": "number",
        "doc": "Dropout after the embeddings and after each sub-layer.",
        "required": False,
        "default": 0.1,
        "minimum": 0.0,
        "maximum": 0.99,
    }
    assert list(explain_json("training.optimizer")["kinds"]["adamw"]["keys"]) == [
        "beta_1",
        "beta_2",
        "epsilon",
        "weight_decay",
        "not_decayed",
    ]
    assert "minimum_characters" in explain_json("data.cleaning")["keys"]
    position = explain_json("model.position")
    assert position["default_kind"] == "learned"
    assert list(position["kinds"]["sinusoidal"]["keys"]) == ["max_wavelength"]
    assert explain_json("data.source")["required"] is True


def test_json_of_the_whole_can_be_written():
    tree = json.loads(json.dumps(explain_json(), allow_nan=False))
    assert tree["keys"]["training"]["keys"]["steps"]["minimum"] == 1
