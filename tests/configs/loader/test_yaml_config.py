"""Valid configurations load, with defaults, overrides and the way back to text."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.finished_runs import runs_before_tasks
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option
from transbeam.configs.loader.parse_dataclasses import bind_section
from transbeam.configs.loader.yaml_config import flatten, load_run, parse_run
from transbeam.configs.loader.yaml_dump import dump_run
from transbeam.configs.loader.yaml_nodes import compose
from transbeam.configs.schema.block import (
    LearnedPositionConfig,
    SinusoidalPositionConfig,
)
from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.model import EncoderConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import (
    MixturePartConfig,
    MixtureSourceConfig,
    PythonDocsSourceConfig,
    TextSourceConfig,
)
from transbeam.configs.schema.training import TrainingConfig

CONFIGS = Path(__file__).parents[3] / "configs"
SMALL = """\
name: small
data:
  source: {kind: text, path: corpus.txt}
training: {steps: 1000}
"""


def test_small_run_gets_the_defaults_of_the_dataclasses():
    expected = RunConfig(
        name="small",
        data=DataConfig(source=TextSourceConfig(path="corpus.txt")),
        training=TrainingConfig(steps=1000),
    )
    assert parse_run(SMALL, "run.yaml") == expected


SHIPPED = [p for p in CONFIGS.glob("**/*.yaml") if p.parent.name != "suites"]


@pytest.mark.parametrize("path", sorted(SHIPPED), ids=str)
def test_shipped_configurations_load(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs_before_tasks(Path("runs"))
    assert load_run(path, with_model=True).name


@pytest.mark.parametrize(
    ("written", "value"),
    [("6e-4", 6e-4), ("1e-3", 1e-3), ("1", 1.0), (".5", 0.5), ("2.", 2.0), ("+1", 1.0)],
)
def test_forms_of_a_number(written, value):
    run = parse_run(SMALL, "run.yaml", [f"training.schedule.peak={written}"])
    assert run.training.schedule.peak == value
    assert isinstance(run.training.schedule.peak, float)


def test_words_that_yaml_1_1_takes_for_something_else_are_text():
    text = SMALL.replace("corpus.txt", "no") + "export: {examples: ['[MASK] 12:30']}\n"
    run = parse_run(text, "run.yaml")
    assert run.data.source == TextSourceConfig(path="no")
    assert run.export.examples == ("[MASK] 12:30",)


def test_underscores_in_whole_numbers():
    assert parse_run(SMALL, "f", ["training.steps=1_000_000"]).training.steps == 10**6


def test_null_where_it_is_allowed():
    assert parse_run(SMALL + "tokenizer: {strip_accents: null}", "f") == parse_run(
        SMALL, "f"
    )


def test_section_whose_keys_are_all_commented_out():
    text = SMALL + "export:\n  # version: 2\n"
    assert parse_run(text, "f") == parse_run(SMALL, "f")
    assert parse_run(text, "f", ["export.version=2"]).export.version == 2


def test_kind_may_be_left_out_where_there_is_a_default():
    assert parse_run(SMALL + "model: {position: {}}", "f").model == EncoderConfig()
    chosen = parse_run(SMALL + "model: {position: {kind: sinusoidal}}", "f")
    assert chosen.model.position == SinusoidalPositionConfig()


def test_byte_order_mark_and_windows_line_ends(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    assert load_run(file) == parse_run(SMALL, "f")


def test_overrides_replace_add_and_the_last_one_wins():
    overrides = [
        "training.steps=5",
        "training.steps=2000",
        "data.source={kind: python_docs, packages: [numpy]}",
        "model.position.kind=sinusoidal",
        "model.position.max_wavelength=500",
    ]
    run = parse_run(SMALL, "f", overrides)
    assert run.training.steps == 2000
    assert run.data.source == PythonDocsSourceConfig(packages=("numpy",))
    assert run.model.position == SinusoidalPositionConfig(max_wavelength=500.0)


def test_override_may_replace_a_section_as_a_whole():
    text = SMALL + "model: {position: {kind: sinusoidal, max_wavelength: 5}}\n"
    run = parse_run(text, "f", ["model.position={kind: learned}"])
    assert run.model.position == LearnedPositionConfig()


def test_override_in_a_list():
    parts = "[{source: {kind: text, path: a}}, {source: {kind: text, path: b}}]"
    overrides = [
        f"data.source={{kind: mixture, parts: {parts}}}",
        "data.source.parts.1.source.path=c",
        "data.source.parts.0={source: {kind: text, path: d}, weight: 2}",
    ]
    source = parse_run(SMALL, "f", overrides).data.source
    assert source == MixtureSourceConfig(
        parts=(
            MixturePartConfig(source=TextSourceConfig(path="d"), weight=2.0),
            MixturePartConfig(source=TextSourceConfig(path="c")),
        )
    )


@dataclass(frozen=True, kw_only=True)
class Leaf:
    size: int | None = option(None, minimum=2)


@dataclass(frozen=True, kw_only=True)
class Tree:
    leaves: tuple[Leaf, ...] = ()
    crown: Leaf | None = None


def bound(text: str) -> Tree:
    return bind_section(Tree, compose(text, "f:{}".format), path="")


def test_lists_of_sections_and_sections_that_may_be_null():
    assert bound("leaves: [{size: 3}, {}]\ncrown: null") == Tree(
        leaves=(Leaf(size=3), Leaf())
    )
    assert bound("crown: {size: null}").crown == Leaf()
    with pytest.raises(ConfigError, match=r"f:2: leaves\[0\]\.size: 1 is out of range"):
        bound("leaves:\n  - size: 1")


def test_dump_writes_every_default_and_quotes_what_would_not_come_back():
    overrides = [
        'data.source.path="6e-4"',
        r'export.examples=["\N[MASK]", "[MASK]: a"]',
    ]
    run = parse_run(SMALL, "f", overrides)
    assert run.export.examples == ("\x85[MASK]", "[MASK]: a")
    text = dump_run(run)
    assert 'path: "6e-4"\n' in text
    assert '- "\\N[MASK]"\n' in text
    assert "  num_layers: 4\n" in text
    assert "  strip_accents: null\n" in text
    assert parse_run(text, "f") == run


def test_flatten_has_every_leaf_under_its_dotted_key():
    run = parse_run(SMALL, "f")
    flat = flatten(run)
    assert flat["name"] == "small"
    assert flat["data.source.kind"] == "text"
    assert flat["export.tflite"] == ["float32", "dynamic_int8"]
    assert flat["tokenizer.strip_accents"] is None
    assert flatten(run, "seed", "data") == {
        key: value
        for key, value in flat.items()
        if key.split(".")[0] in ("seed", "data")
    }
