"""`explain` shows every key of the schema, as a text and as JSON."""

import json
from collections import Counter

import pytest

from configs.errors import ConfigError
from configs.explain import explain, explain_json
from configs.run import RunConfig
from configs.schema import walk


def test_one_part_with_its_kinds_and_their_keys():
    assert explain("model.position", width=70) == (
        "model.position:              How a token's place is told.\n"
        "  kind: learned              One learned vector per position, added to\n"
        "                             the token's (BERT, GPT-2). The default.\n"
        "  kind: sinusoidal           Fixed sines and cosines of growing\n"
        "                             wavelength (Vaswani et al., 2017, 3.5).\n"
        "    max_wavelength: 10000.0  Longest wavelength. [number at least 1.0]\n"
        "  kind: alibi                Attention scores fall with the distance\n"
        "                             (Press et al., 2022), in both directions."
    )
    assert explain("model.position.kind", 70) == explain("model.position", 70)


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("training.steps", "training.steps: (required)  Optimizer updates. [whole nu"),
        ("training.steps", "[whole number at least 1]"),
        ("model.norm.placement", "['pre' or 'post']"),
        ("tokenizer.strip_accents", "tokenizer.strip_accents: null  "),
        ("tokenizer.strip_accents", "[true or false or null]"),
        ("export.tflite", "export.tflite: [float32, dynamic_int8]  "),
        ("seed", "seed: 0  "),
        ("data.source", "  Where the text comes from. Required."),
    ],
)  # fmt: skip
def test_types_defaults_and_ranges(key, line):
    assert line in explain(key, width=200)


def test_whole_tree_has_every_key_once():
    lines = explain(width=10_000).splitlines()
    shown = Counter(line.strip().partition(":")[0] for line in lines)
    # What may stand in a validation source was told of the source.
    told = [(p, k) for p, k in walk(RunConfig) if "validation_source." not in p]
    assert shown == Counter(key.name for _, key in told)
    assert "[the same kinds as source]" in explain("data", width=10_000)
    assert "kind: wikipedia" in explain("data.validation_source")


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
        ("a.b", "a.b: unknown key. Known: name, seed, data, tokenizer, objective,"),
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
        "clip_norm",
    ]
    assert "minimum_characters" in explain_json("data.cleaning")["keys"]
    position = explain_json("model.position")
    assert position["default_kind"] == "learned"
    assert list(position["kinds"]["sinusoidal"]["keys"]) == ["max_wavelength"]
    assert explain_json("data.source")["required"] is True


def test_json_of_the_whole_can_be_written():
    tree = json.loads(json.dumps(explain_json(), allow_nan=False))
    assert tree["keys"]["training"]["keys"]["steps"]["minimum"] == 1
