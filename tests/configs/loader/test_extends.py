"""`extends`: a file's keys over those of another, each with its own place."""

from pathlib import Path

import pytest

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.extends import read_root
from transbeam.configs.loader.parse_dataclasses import bind_section
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.loader.yaml_dump import dump_run
from transbeam.configs.loader.yaml_merge import put_over
from transbeam.configs.schema.block import (
    LearnedPositionConfig,
    SinusoidalPositionConfig,
)
from transbeam.configs.schema.run import RunConfig

BASE = """\
name: base
seed: 7
data:
  source: {kind: csv, path: a.csv, columns: {text: review}}
  sequence_length: 64
model:
  num_layers: 2
  hidden_dim: 96
  position: {kind: sinusoidal, max_wavelength: 500}
training: {steps: 1000, schedule: {kind: linear, peak: 1e-4}}
export: {examples: ["A [MASK].", "The [MASK]."]}
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Loads `own.yaml` of some files."""
    monkeypatch.chdir(tmp_path)

    def write_and_load(*overrides: str, **files: str) -> RunConfig:
        for name, text in files.items():
            path = Path(name.replace("__", "/") + ".yaml")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
        return load_run("own.yaml", overrides)

    return write_and_load


def error_of(load, *overrides: str, **files: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(*overrides, **files)
    return str(caught.value)


def test_sections_are_merged_at_every_depth_and_all_else_is_replaced(load) -> None:
    own = """\
extends: base.yaml
name: own
data: {source: {columns: {label: stars}}}
model: {hidden_dim: 48}
training: {schedule: {peak: 2e-4}}
export: {examples: ["One [MASK]."]}
"""
    run, base = load(base=BASE, own=own), load_run("base.yaml")
    assert (run.name, run.seed, run.data.sequence_length) == ("own", 7, 64)
    assert run.data.source.path == "a.csv"
    assert run.data.source.columns.text == "review"
    assert run.data.source.columns.label == "stars"
    assert (run.model.num_layers, run.model.hidden_dim) == (2, 48)
    assert run.model.position == base.model.position
    assert run.training.schedule.kind == "linear"
    assert run.training.schedule.peak == 2e-4
    assert run.export.examples == ("One [MASK].",)


@pytest.mark.parametrize(
    ("own", "overrides", "steps", "epochs"),
    [
        ("epochs: 3", (), None, 3),
        ("epochs: 3", ("training.steps=5",), 5, None),
        ("batch_size: 8", ("training.epochs=2",), None, 2),
        ("batch_size: 8", ("training.epochs=2", "training.epochs=0.5"), None, 0.5),
        ("{epochs: null, batch_size: 8}", (), 1000, None),
        ("{epochs: 3, steps: null}", (), None, 3),
        ("{epochs: 3}", ("training.epochs=null", "training.steps=7"), 7, None),
    ],
)
def test_a_length_replaces_the_other_kind_of_length(
    load, own, overrides, steps, epochs
) -> None:
    own = f"extends: base.yaml\nname: own\ntraining:\n  {own}\n"
    training = load(*overrides, base=BASE, own=own).training
    assert (training.steps, training.epochs) == (steps, epochs)
    assert training.schedule.kind == "linear"


def test_two_overrides_of_the_length_are_refused(load) -> None:
    both = ("training.steps=5", "training.epochs=2")
    own = BASE.replace("name: base", "name: own")
    assert error_of(load, *both, own=own).startswith(
        "--set training.epochs=2: training.epochs: --set training.steps=5 also says "
        "how long to train. Remove one of them"
    )
    assert "--set training.epochs=2 also says" in error_of(load, *both[::-1], own=own)


def test_a_name_is_not_taken_over_or_both_would_write_into_one_folder(load) -> None:
    message = error_of(load, base=BASE, own="extends: base.yaml\nseed: 1\n")
    assert message.startswith("own.yaml:1: name: this required key is missing.")


def test_keys_of_another_kind_are_left_behind(load) -> None:
    own = "extends: base.yaml\nname: own\nmodel: {position: {kind: learned}}\n"
    assert load(base=BASE, own=own).model.position == LearnedPositionConfig()
    # Keys that both kinds have stay.
    own = "extends: base.yaml\nname: own\ntraining: {schedule: {kind: cosine}}\n"
    assert load(base=BASE, own=own).training.schedule.peak == 1e-4


def test_keys_of_another_kind_beside_it_are_refused_as_ever(load) -> None:
    own = "extends: base.yaml\nname: own\nmodel: {position: {kind: learned, base: 1}}\n"
    assert "own.yaml:3: model.position.base: is a key of kind 'rope'" in error_of(
        load, base=BASE, own=own
    )
    own = "extends: base.yaml\nname: own\nmodel: {position: {kind: learned}}\n"
    override = "model.position.max_wavelength=5"
    assert f"--set {override}: model.position.max_wavelength: is a key of" in error_of(
        load, override, base=BASE, own=own
    )
    # A slip in the file below is none of another kind.
    base = BASE.replace("max_wavelength", "max_wavelenth")
    own = "extends: base.yaml\nname: own\nmodel: {position: {kind: learned}}\n"
    assert "base.yaml:9: model.position.max_wavelenth: unknown key" in error_of(
        load, base=base, own=own
    )


def test_what_is_written_without_a_value(load) -> None:
    own = "extends: base.yaml\nname: own\nmodel:\ntraining: {clip_norm: null}\n"
    run = load(base=BASE + "evaluation: {}\n", own=own)
    assert run.model.num_layers == 2
    assert run.training.clip_norm is None
    assert load(own="extends:\n" + BASE).name == "base"


def test_a_chain_is_relative_to_each_file(load) -> None:
    run = load(
        "model.num_layers=6",
        other__root=BASE,
        other__base="extends: root.yaml\nmodel: {num_layers: 4, dropout: 0.0}\n",
        own="extends: other/base.yaml\nname: own\nmodel: {dropout: 0.3}\n",
    )
    assert (run.model.num_layers, run.model.dropout) == (6, 0.3)
    assert run.model.hidden_dim == 96


def test_overrides_are_over_all_files(load) -> None:
    own = "extends: base.yaml\nname: own\nmodel: {position: {max_wavelength: 9}}\n"
    run = load("model.position={kind: sinusoidal}", base=BASE, own=own)
    assert run.model.position == SinusoidalPositionConfig()
    assert "--set extends=a.yaml: extends: is a key of a file" in error_of(
        load, "extends=a.yaml", own=own
    )


@pytest.mark.parametrize(
    ("own", "base", "message"),
    [
        ("name: own", "seed: four\n", "base.yaml:1: seed: expected a whole number"),
        ("name: own", "mode: 1\n", "base.yaml:1: mode: unknown key. Did you mean 'mo"),
        (
            "name: own\nmodel: {hidden_dim: 50}",
            "model: {attention: {num_heads: 6}}\n",
            "own.yaml:3: model: hidden_dim=50 is not a multiple of attention.num_heads",
        ),
        (
            "name: own\nmodel: {attention: {num_heads: 7}}",
            "\nmodel: {hidden_dim: 48}\n",
            "own.yaml:3: model: hidden_dim=48 is not a multiple of attention.num_heads",
        ),
        (
            "name: own",
            "- a\n",
            "base.yaml:1: expected a section (keys and values)",
        ),
        ("name: own", "", "base.yaml: the file is empty"),
        (
            "name: own",
            "extends: own.yaml\n",
            "base.yaml:1: extends: leads back to a file before it: own.yaml → "
            "base.yaml → own.yaml.",
        ),
        ("name: own", "extends: base.yaml\n", "base.yaml → base.yaml."),
        (
            "name: own",
            "extends: gone.yaml\n",
            "base.yaml:1: extends: gone.yaml: there is no such file; expected a YAML "
            "file, relative to base.yaml.",
        ),
        (
            "name: own",
            "extends: [a]\n",
            "base.yaml:1: extends: expected text, found",
        ),
        ("name: own", "extends: .\n", "base.yaml:1: extends: .: is a folder; expected"),
    ],
)
def test_errors_name_the_file_in_which_the_key_stands(
    load, own: str, base: str, message: str
) -> None:
    rest = "data: {source: {kind: text, path: a.txt}}\n"
    own = f"extends: base.yaml\n{own}\n{rest}"
    assert message in error_of(load, base=base, own=own)


PRESETS = sorted((Path(__file__).parents[3] / "configs/presets").glob("*.yaml"))


@pytest.mark.parametrize(
    ("under", "over"),
    [*zip(PRESETS, [*PRESETS[11:], *PRESETS[:11]], strict=True)],
    ids=lambda path: path.stem,
)
def test_a_whole_run_over_another_is_that_run(under: Path, over: Path) -> None:
    """Nothing of the lower one is left where the upper one says all."""
    runs = [load_run(path) for path in (under, over)]
    roots = [read_root(dump_run(run), "f") for run in runs]
    assert bind_section(RunConfig, put_over(*roots), "") == runs[1]


def test_a_file_that_is_extended_need_not_be_whole(load) -> None:
    own = "extends: base.yaml\nname: own\ndata: {source: {kind: text, path: a.txt}}\n"
    assert load(base="seed: 3\n", own=own).seed == 3
