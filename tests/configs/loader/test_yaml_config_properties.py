"""For random configurations and random text: the round trip, and no other error."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.reflection import (
    ConfigKey,
    section_keys,
    section_kind,
    section_kinds,
    split_optional,
)
from transbeam.configs.loader.yaml_config import load_run, parse_run
from transbeam.configs.loader.yaml_dump import dump_run
from transbeam.configs.schema.run import RunConfig

DEMO = Path(__file__).parents[3] / "configs" / "demo.yaml"

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
COLUMN = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0{}"), min_size=1
)
# Where the rules between the keys would refuse most random values.
CHOSEN = {
    "name": st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]*", fullmatch=True),
    "hidden_dim": st.sampled_from([12, 24, 768]),
    "embedding_dim": st.none() | st.integers(1, 12),
    "num_heads": st.sampled_from([2, 6]),
    "num_key_value_heads": st.none() | st.sampled_from([1, 2]),
    "head_dim": st.none() | st.sampled_from([2, 128]),
    "window_size": st.integers(1, 512).map(lambda half: 2 * half),
    "num_global_tokens": st.integers(1, 64),
    "block_size": st.integers(1, 16),
    "num_random_blocks": st.integers(0, 3),
    "rank": st.integers(1, 64),
    "num_buckets": st.sampled_from([4, 8, 32]),
    "max_distance": st.integers(17, 10**9),
    "beta_fast": st.floats(2, 100),
    "beta_slow": st.floats(0.1, 1),
    "image_size": st.just(32),
    "patch_size": st.sampled_from([8, 16, 32]),
    "sequence_length": st.just(64),
    "lengths": st.sets(st.integers(4, 63)).map(lambda found: (*sorted(found), 64)),
    "max_sequence_length": st.integers(64, 4096),
    "num_segments": st.just(0),
    "prompt": st.sampled_from(["{text}", "Say {second_text} of {text}: "]),
    "answer": st.sampled_from(["{target_text}", "It is {label}."]),
    "mask_fraction": st.floats(0, 0.5),
    "random_fraction": st.floats(0, 0.5),
    "steps": st.integers(100, 10**9),
    "batch_size": st.sampled_from([12, 96]),
    "accumulation": st.sampled_from([1, 2, 12]),
    "warmup_steps": st.integers(1, 50),
    "decay_fraction": st.floats(0, 0.5),
    "sparsity": st.floats(0.5, 0.99),
    "initial_sparsity": st.floats(0, 0.5),
    "begin_step": st.integers(0, 50),
    "end_step": st.integers(50, 100),
    "targets": st.lists(TEXT, min_size=1, max_size=3).map(tuple),
    "not_decayed": st.lists(TEXT.map(re.escape), max_size=3).map(tuple),
    "text": COLUMN | st.just("{a}: {b}"),
    "second_text": st.none() | COLUMN,
    "negative_text": st.none() | COLUMN,
    "target_text": st.none() | COLUMN,
    "choices": st.none() | st.lists(COLUMN, min_size=2, max_size=3).map(tuple),
    "where": st.none() | st.dictionaries(TEXT, TEXT, min_size=1, max_size=3),
    "frozen": st.lists(TEXT, min_size=1, max_size=3).map(tuple),
    "label": TEXT,
    "label_names": st.none() | st.dictionaries(TEXT, st.just("name"), min_size=1),
    "hash_range": st.sampled_from([None, (0.0, 0.8), (0.25, 1.0)]),
    "encoding": st.sampled_from(["utf-8", "detect", "utf-16", "cp1252"]),
    "delimiter": st.sampled_from([",", "\t", ";"]),
    "allowed": st.sets(st.sampled_from(["en", "de"]), min_size=1).map(tuple),
    "tflite_prefill": st.sets(st.integers(1, 512), min_size=1).map(tuple),
    "examples": st.lists(TEXT.map("{}[MASK]".format), max_size=3).map(tuple),
}


def values_of(key: ConfigKey) -> st.SearchStrategy[Any]:
    if key.name in CHOSEN and "Literal" not in str(key.annotation):
        return CHOSEN[key.name]
    annotation, optional = split_optional(key.annotation)
    values = values_of_type(annotation, key)
    return st.none() | values if optional else values


def values_of_type(annotation: Any, key: ConfigKey) -> st.SearchStrategy[Any]:
    if kinds := section_kinds(annotation):
        return st.one_of(*map(sections, kinds.values()))
    if get_origin(annotation) is tuple:
        element = values_of_type(get_args(annotation)[0], key)
        least = 2 if key.name == "labels" else 0  # of different ones, to choose from
        return st.lists(element, min_size=least, max_size=3, unique=least > 0).map(
            tuple
        )
    if get_origin(annotation) is Mapping:
        element = values_of_type(get_args(annotation)[1], key)
        return st.dictionaries(TEXT, element, max_size=3)
    if get_origin(annotation) is Literal:
        return st.sampled_from(get_args(annotation))
    if annotation is int:
        least = -(2**63) + 1 if key.minimum is None else key.minimum
        return st.integers(least, key.maximum or 2**63 - 1)
    if annotation is float:
        return st.floats(
            key.minimum, key.maximum, allow_nan=False, allow_infinity=False
        )
    return {bool: st.booleans(), str: TEXT}[annotation]


@st.composite  # whose repr is short, however much there is below
def sections(draw: st.DrawFn, section: type) -> Any:
    return draw(built(section))


@cache  # making the strategies anew for each draw takes longer than drawing
def built(section: type) -> st.SearchStrategy[Any]:
    keys = section_keys(section).values()
    tag = section_kind(section)
    always, half = {}, {}
    for key in keys:
        if key.name != "kind" or not tag:
            # With all keys random, a rule between two of them refuses nearly every run.
            random = always if key.required or key.name in CHOSEN else half
            random[key.name] = values_of(key)
    values = st.fixed_dictionaries(always, optional=half)
    found = values.map(lambda chosen: build(section, chosen))
    return found.filter(lambda section: section is not None)


def build(section: type, values: dict[str, Any]) -> Any:
    """The section, or None where its rules refuse the values."""
    if values.get("epochs") is not None:
        values = {**values, "steps": None}  # one of them is given
    try:
        return section(**values)
    except ConfigError:
        return None


@given(sections(RunConfig))
def test_dumped_run_loads_as_it_was(run):
    assert parse_run(dump_run(run), "f") == run


def error_of(text: str, *overrides: str) -> str | None:
    """The error that loading ends with, if any; nothing else may be raised."""
    try:
        parse_run(text, "f", overrides)
    except ConfigError as error:
        return str(error)
    return None


@given(TEXT)
def test_no_text_fails_with_anything_but_a_config_error(text):
    assert error_of(text).startswith("f:")


@given(st.binary())
def test_no_file_fails_with_anything_but_a_config_error(tmp_path_factory, content):
    file = tmp_path_factory.getbasetemp() / "random.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"random\.yaml"):
        load_run(file)


PIECES = [": ", "\n", "  ", "- ", "[", "]", "{", "}", "'", '"', "&a", "*a", "!", "|"]
PIECES += [
    ">",
    "#",
    "%",
    "@",
    "`",
    "? ",
    "---",
    "...",
    "<<",
    "\t",
    "\\",
    ",",
    "0x",
    "~",
]


@given(st.data())
def test_no_damage_to_a_file_fails_with_anything_but_a_config_error(data):
    text = DEMO.read_text()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = start + data.draw(st.integers(0, 3))
        piece = data.draw(st.sampled_from(PIECES) | TEXT)
        text = text[:start] + piece + text[end:]
    error = error_of(text)
    assert error is None or error.startswith("f:")


@given(TEXT, TEXT)
def test_no_override_fails_with_anything_but_a_config_error(key, value):
    assert error_of("", f"{key}={value}").startswith("f: the file is empty")
    text = "name: x\ndata: {source: {kind: text, path: x}}\ntraining: {steps: 100}"
    for override in (f"name={value}", f"model.{key}={value}"):
        error = error_of(text, override)
        assert error is None or error.startswith(f"--set {override}: ")
