"""Errors name file, line and dotted key, and what to do."""

import pytest

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.yaml_config import load_run, parse_run

# Four lines, so that what a test adds begins on line 5.
SMALL = """\
name: small
data:
  source: {kind: text, path: corpus.txt}
training: {steps: 1000}
"""


def error_of(text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_run(text, "run.yaml", overrides, with_model=True)
    return str(caught.value)


# What is added to SMALL, and a part of the error it makes.
WRONG_KEYS = {
    "model:\n  num_layer: 3": "run.yaml:6: model.num_layer: unknown key. Did you mean "
    "'num_layers'? Known here: preset, init_from, num_layers, hidden_dim,",
    "num_layers: 3": "run.yaml:5: num_layers: unknown key. Did you mean "
    "'model.num_layers'? Known here: extends, name, seed, data,",
    "name: again": "run.yaml:5: name: given twice, first at run.yaml:1.",
    "model:\n  dropout: 0.1\n  seed: 1\n  dropout: 0.2": "run.yaml:8: model.dropout: "
    "given twice, first at run.yaml:6.",
    "1: one": "run.yaml:5: a key must be text, not the number 1.",
    "? [a]\n: b": "run.yaml:5: a key must be text, not a list.",
    "<<: {seed: 1}": "run.yaml:5: merge keys (<<) are not used here.",
}
WRONG_VALUES = {
    "seed: four": "run.yaml:5: seed: expected a whole number, found the text 'four'.",
    "seed: true": "run.yaml:5: seed: expected a whole number, found true.",
    "seed: '4'": "a whole number, found the text '4'. Remove the quotes: 4.",
    "seed: 4.0": "expected a whole number, found the number 4.0. Write 4.",
    "seed: 007": "expected a whole number, found the text '007'.",
    "seed: [4]": "run.yaml:5: seed: expected a whole number, found a list.",
    "seed: {a: 4}": "run.yaml:5: seed: expected a whole number, found a section.",
    "seed:": "run.yaml:5: seed: expected a whole number, found nothing.",
    "seed: -1": "run.yaml:5: seed: -1 is out of range: it must be at least 0.",
    "seed: 9223372036854775808": "does not fit 64 bits",
    "model: {dropout: 1}": "1.0 is out of range: it must be from 0.0 to 0.99.",
    "model: {dropout: yes}": "model.dropout: expected a number, found the text 'yes'.",
    "model: {dropout: true}": "model.dropout: expected a number, found true.",
    "model: {dropout: '0.1'}": "found the text '0.1'. Remove the quotes: 0.1.",
    "model: {dropout: .nan}": "model.dropout: the number .nan is not finite.",
    "model: {dropout: -.inf}": "model.dropout: the number -.inf is not finite.",
    "model: {dropout: 1e999}": "model.dropout: the number 1e999 is not finite.",
    "model: {dropout: nan}": "model.dropout: expected a number, found the text 'nan'.",
    "tokenizer: {lowercase: off}": "expected true or false, found the text 'off'. "
    "Write false.",
    "tokenizer: {lowercase: null}": "expected true or false, found null.",
    "tokenizer: {lowercase: 1}": "expected true or false, found the number 1.",
    "model:\n  norm:\n    placement: prae": "run.yaml:7: model.norm.placement: "
    "expected 'pre' or 'post', found the text 'prae'. Did you mean 'pre'?",
    "export: {tflite: float32}": "export.tflite: expected a list of 'float32' or "
    "'float16' or 'dynamic_int8' or 'int8' or 'weight_int8' or 'weight_int4' or "
    "'dynamic_int4', found the text 'float32'. Write [float32].",
    "export:\n  tflite:\n    - float32\n    - int9": "run.yaml:8: export.tflite[1]: "
    "expected 'float32' or 'float16' or 'dynamic_int8' or 'int8' or 'weight_int8' or "
    "'weight_int4' or 'dynamic_int4', found the text 'int9'. Did you mean 'int8'?",
}
WRONG_KINDS = {
    "model: {position: {kind: sinus}}": "run.yaml:5: model.position.kind: no such "
    "kind: the text 'sinus'. Did you mean 'sinusoidal'? Known here: learned, sinus",
    "model: {attention: {kind: ful}}": "model.attention.kind: no such kind: the text "
    "'ful'. Did you mean 'full'?",
    "model: {attention: {kind: [full]}}": "model.attention.kind: no such kind: a list.",
    "export: {kind: x}": "run.yaml:5: export.kind: unknown key.",
    "model: {position: sinusoidal}": "model.position: expected a section (keys and "
    "values), found the text 'sinusoidal'. Write {kind: sinusoidal}.",
    "model:\n  position:\n    max_wavelength: 3": "run.yaml:7: model.position."
    "max_wavelength: is a key of kind 'sinusoidal', but the kind here is 'learned' "
    "(the default). Write `kind: sinusoidal`, or remove this key.",
}
BROKEN_RULES = {
    "model:\n  attention:\n    num_heads: 3": "run.yaml:7: model: hidden_dim=256 is "
    "not a multiple of attention.num_heads=3.",
    "model:\n  hidden_dim: 30": "run.yaml:6: model: hidden_dim=30 is not a multiple",
    "model:\n  num_layers: 2\n  max_sequence_length: 64": "run.yaml:7: "
    "data.sequence_length=128 is more than model.max_sequence_length=64. Make",
    "export:\n  examples: [nothing]": "run.yaml:6: export.examples: 'nothing' has no",
}
WRONG_YAML = {
    "seed: &a 1": "run.yaml:5: seed: anchors and aliases (& and *) are not used here",
    "seed: *a": "run.yaml:5: seed: anchors and aliases (& and *) are not used here",
    "seed: !!int 4": "run.yaml:5: seed: tags such as tag:yaml.org,2002:int are not",
    "---\nseed: 1": "run.yaml:5: a second document (`---`)",
    "seed: [1\n\n": "run.yaml:5: not valid YAML: while parsing a flow sequence, ",
    "seed: '1\n\n": "run.yaml:5: not valid YAML: while scanning a quoted scalar, ",
    "model:\n\tseed: 1": "run.yaml:6: not valid YAML: while scanning for the next "
    "token, found character '\\t' that cannot start any token. Indent with spaces, not",
    'seed: "\\U00110000"': "not valid YAML: no such character.",
    'seed: "\\ud800"': "run.yaml:5: seed: a character that is not text.",
    'seed: "\\0"': "run.yaml:5: seed: a character that is not text.",
    "seed: \x07": "run.yaml:5: the character U+0007 is not text.",
    "seed: " + "[" * 100 + "]" * 100: "nested deeper than 30 levels.",
}
WRONG = WRONG_KEYS | WRONG_VALUES | WRONG_KINDS | BROKEN_RULES | WRONG_YAML


@pytest.mark.parametrize(("addition", "part"), WRONG.items())
def test_error_says_where_and_what(addition, part):
    message = error_of(SMALL + addition + "\n")
    assert part in message
    assert message.startswith("run.yaml:")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "run.yaml: the file is empty; `transbeam explain` lists the keys."),
        ("# nothing\n\n", "run.yaml: the file is empty; "),
        ("- a", "run.yaml:1: expected a section (keys and values), found a list."),
        ("\nabc", "run.yaml:2: expected a section (keys and values), found the text"),
        ("name: 3", 'run.yaml:1: name: expected text, found the number 3. Put it in '
         'quotes: "3".'),
        ("name: *.txt", "A text that starts with & or * or ! needs quotes."),
        ("name: a/b\ndata: {source: {kind: text, path: x}}\ntraining: {steps: 100}",
         "run.yaml:1: name='a/b' cannot name a folder"),
        ("seed: 1\nname: x\ntraining: {steps: 100}",
         "run.yaml:1: data: this required key is missing. Corpus, cleaning and "
         "records."),
        ("name: x\n\ntraining:\n  batch_size: 2\ndata: {source: {kind: text, path: x}}",
         "run.yaml:3: training: its length is missing. Write `steps: 1000`, "),
        ("name: x\ndata:\n  source:\n    path: x",
         "run.yaml:3: data.source.kind: this required key is missing. Known here: "
         "text, zip, wikipedia, warc, python_docs, "),
    ],
)  # fmt: skip
def test_whole_file_that_is_wrong(text, message):
    assert message in error_of(text)


def test_files_that_cannot_be_read(tmp_path):
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("name: x\n# Grüße\n".encode("latin-1"))
    for path, message in {
        tmp_path / "none.yaml": "none.yaml: there is no such file.",
        tmp_path: "no run.yaml is in this folder or in those of its stages.",
        latin: "latin.yaml:2: byte 0xfc is not UTF-8; save the file as UTF-8.",
        latin / "run.yaml": "run.yaml: cannot be read: Not a directory.",
        "a\0b": "cannot be read: embedded null byte.",
    }.items():
        with pytest.raises(ConfigError) as caught:
            load_run(path)
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("steps", "--set steps: expected KEY=VALUE, such as --set training.steps=100."),
        ("model..x=1", "--set model..x=1: expected KEY=VALUE"),
        ("=1", "--set =1: expected KEY=VALUE"),
        ("modle.x=1", "--set modle.x=1: modle: unknown key. Did you mean 'model'?"),
        ("model.num_layer=1", "--set model.num_layer=1: model.num_layer: unknown key."),
        ("training.steps=x", "--set training.steps=x: training.steps: expected a "),
        ("training.batch_size=",
         "training.batch_size: expected a whole number, found nothing."),
        ("training={steps: 50, schedule: {warmup_steps: 51}}",
         "training: schedule.warmup_steps=51 is more than steps=50."),
        ("name.x=1", "name: expected a section, found the text 'small' (run.yaml:1)"),
        ("name=a: b: c", "--set name=a: b: c: not valid YAML: mapping values"),
    ],
)  # fmt: skip
def test_override_that_is_wrong(override, message):
    assert message in error_of(SMALL, override)


@pytest.mark.parametrize("place", ["2", "-1", "x", "0x"])
def test_override_of_a_place_that_a_list_does_not_have(place):
    text = SMALL + 'export:\n  examples: ["[MASK]", "a [MASK]"]\n'
    assert error_of(text, f"export.examples.{place}=b") == (
        f"--set export.examples.{place}=b: export.examples: {place!r} is not an "
        "index of the list (run.yaml:6). The list has 2 elements, counted from 0."
    )


def test_override_of_a_kind_does_not_drop_keys_in_silence():
    text = SMALL + "model:\n  position:\n    kind: sinusoidal\n    max_wavelength: 5\n"
    override = "model.position.kind=learned"
    assert error_of(text, override) == (
        "run.yaml:8: model.position.max_wavelength: is a key of kind 'sinusoidal', but "
        "the kind here is 'learned' (--set model.position.kind=learned). Write `kind: "
        "sinusoidal`, or remove this key. --set 'model.position={kind: learned}' "
        "replaces the whole section."
    )
