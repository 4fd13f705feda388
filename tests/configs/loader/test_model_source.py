"""`model: {preset: ...}` and `model: {init_from: ...}` stand for a whole model."""

import shutil
from pathlib import Path

import pytest

from tests.finished_runs import imported_run, trained_run
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.run_folder import save_config
from transbeam.configs.loader.yaml_config import flatten, load_run, parse_run
from transbeam.configs.loader.yaml_dump import dump_run
from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.model import EncoderConfig

CONFIGS = Path(__file__).parents[3] / "configs"
PRESETS = sorted(path.stem for path in (CONFIGS / "presets").glob("*.yaml"))
# Three lines, so that what a test adds begins on line 4.
SMALL = """\
name: small
data: {source: {kind: csv, path: a.csv, columns: {label: stars}}}
objective: {kind: classification, labels: [good, bad]}
"""
# The model of the runs that others begin with.
THERE = (
    SMALL.replace("small", "there")
    + """\
tokenizer: {kind: wordpiece, vocabulary_size: 100, lowercase: false}
model:
  kind: encoder
  num_layers: 3
  hidden_dim: 48
  max_sequence_length: 128
  vocabulary_multiple: 8
  dropout: 0.2
  attention: {kind: full, num_heads: 6, dropout: 0.0}
  feedforward: {kind: dense, intermediate_dim: 96}
  pooler: {kind: mean}
training: {steps: 10, schedule: {kind: linear}}
"""
)


@pytest.fixture(autouse=True)
def there(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return imported_run(Path("runs/there"), parse_run(THERE, "there.yaml"))


def parse(addition: str, *overrides: str):
    return parse_run(SMALL + addition, "my.yaml", overrides, with_model=True)


def error_of(addition: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(addition, *overrides)
    return str(caught.value)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_the_model_of_its_file(name: str) -> None:
    run = parse_run(SMALL + f"model: {{preset: {name}}}", "my.yaml")
    preset = load_run(CONFIGS / f"presets/{name}.yaml")
    assert run.model == preset.model
    assert run.tokenizer == parse("").tokenizer


def test_keys_beside_a_preset_override_it_at_every_depth() -> None:
    run = parse("model: {preset: bert_base, num_layers: 2, attention: {dropout: 0.0}}")
    assert (run.model.num_layers, run.model.hidden_dim) == (2, 768)
    assert run.model.attention == FullAttentionConfig(num_heads=12, dropout=0.0)
    # Linformer's attention has a rank, and full attention has none.
    run = parse("model: {preset: linformer_base, attention: {kind: full}}")
    assert run.model.attention == FullAttentionConfig(num_heads=12)


def test_a_preset_replaces_a_model_that_is_described_key_by_key() -> None:
    written = "model: {hidden_dim: 48, norm: {placement: pre}}\n"
    bert = parse("model: {preset: bert_base}").model
    assert parse(written, "model.preset=bert_base").model == bert
    Path("base.yaml").write_text(SMALL + written)
    extended = "extends: base.yaml\nname: own\nmodel: {preset: bert_base}\n"
    assert parse_run(extended, "own.yaml").model == bert


def test_another_preset_keeps_the_keys_beside_the_first() -> None:
    run = parse("model: {preset: bert_base, dropout: 0.3}", "model.preset=bert_large")
    assert (run.model.num_layers, run.model.dropout) == (24, 0.3)


def test_keys_of_the_command_line_are_over_a_preset_in_any_order() -> None:
    overrides = ("model.dropout=0.3", "model.preset=bert_base", "model.num_layers=2")
    run = parse("model: {hidden_dim: 48, num_heads: 3}", *overrides)
    assert (run.model.num_layers, run.model.dropout) == (2, 0.3)
    assert run.model.hidden_dim == 768


@pytest.mark.parametrize(
    ("addition", "message"),
    [
        ("model: {preset: bert_bas}", "my.yaml:4: model.preset: no such preset: 'bert_b"
         "as'. Did you mean 'bert_base'? Known here: bert_base, bert_large,"),
        ("model: {preset: configs/presets/gpt2_xl.yaml}", "Did you mean 'gpt2_xl'?"),
        ("model: {preset: 7}", "my.yaml:4: model.preset: expected text, found the num"),
        ("model:\n  presets: bert_base", "my.yaml:5: model.presets: unknown key. Did "
         "you mean 'preset'?"),
        ("preset: bert_base", "unknown key. Did you mean 'model.preset'?"),
        ("model: {preset: bert_base, attention: {num_heads: 7}}", "my.yaml:4: model: "
         "hidden_dim=768 is not a multiple of attention.num_heads=7."),
        ("model: {preset: t5_small}", "my.yaml:3: model.kind=seq2seq does not go "
         "with objective.kind=classification"),
        ("model:\n  init_from: runs/there\n  preset: bert_base", "my.yaml:6: "
         "model.preset: names a whole model, as does `init_from: runs/there` "
         "(my.yaml:5). Remove one of them."),
    ],
)  # fmt: skip
def test_presets_that_are_refused(addition: str, message: str) -> None:
    assert message in error_of(addition)


BY_HAND = """\
tokenizer: {kind: pretrained, path: runs/there/PLACE/tokenizer}
model:
  num_layers: 3
  hidden_dim: 48
  max_sequence_length: 128
  vocabulary_multiple: 8
  dropout: 0.2
  attention: {num_heads: 6, dropout: 0.0}
  feedforward: {intermediate_dim: 96}
  pooler: {kind: mean}
training: {steps: 10000, init_from: runs/there}
"""


@pytest.mark.parametrize("place", ["imported", "data"])
def test_the_same_by_hand_is_the_same_run(there: Path, place: str) -> None:
    """So are its fingerprints, and the stages that one finds made by the other."""
    if place == "data":
        shutil.rmtree(there)
        trained_run(there, parse_run(THERE, "there.yaml"))
    run = parse("model: {init_from: runs/there}")
    by_hand = parse(BY_HAND.replace("PLACE", place))
    assert run == by_hand
    assert flatten(run) == flatten(by_hand)
    for name, config in (("run", run), ("by_hand", by_hand)):
        Path(name).mkdir()
        save_config(Path(name), config)
    written = Path("run/run.yaml").read_text()
    assert written == Path("by_hand/run.yaml").read_text()
    assert "# Fingerprint of these values: " in written
    assert "preset" not in written


def test_what_was_resolved_needs_the_other_run_no_more(there: Path) -> None:
    run = parse("model: {init_from: runs/there}")
    shutil.rmtree(there)
    assert parse_run(dump_run(run), "run.yaml", with_model=True) == run


def test_a_run_that_trains_what_it_imported_is_begun_with_as_trained(there) -> None:
    wider = parse_run(THERE, "there.yaml", ["model.num_layers=5"])
    trained_run(there, wider)
    run = parse("model: {init_from: runs/there}")
    assert run.model == wider.model
    assert run.tokenizer.path == "runs/there/data/tokenizer"


def test_what_changes_no_weight_may_differ() -> None:
    run = parse(
        "model: {init_from: runs/there, dropout: 0.4, pooler: null, attention: "
        "{dropout: 0.1}, initializer: {stddev: 0.1}}\ntraining: {steps: 5}\n"
    )
    assert (run.model.dropout, run.model.attention.dropout) == (0.4, 0.1)
    assert run.model.pooler is None
    assert (run.training.steps, run.training.init_from) == (5, "runs/there")


def test_a_window_model_answers_questions_with_other_global_tokens() -> None:
    """As Longformer is pre-trained without them and fine-tuned with them."""
    window = "{kind: global_window, num_heads: 6, window_size: 32, dropout: 0.0}"
    other = parse_run(THERE, "window.yaml", [f"model.attention={window}"])
    imported_run(Path("runs/window"), other)
    text = SMALL[: SMALL.index("objective:")].replace("csv", "squad")
    text = (
        text.replace(", columns: {label: stars}", "") + "objective: {kind: span_qa}\n"
    )
    added = "num_global_tokens: 66, global_tokens: first_segment"
    model = f"model: {{init_from: runs/window, attention: {{{added}}}}}\n"
    run = parse_run(text + model, "my.yaml", with_model=True)
    assert run.model.attention.num_global_tokens == 66
    wider = model.replace("num_global", "window_size: 64, num_global")
    with pytest.raises(ConfigError, match=r"attention\.window_size: 32 there, 64 here"):
        parse_run(text + wider, "my.yaml", with_model=True)


def test_adapters_find_weights_to_begin_with() -> None:
    run = parse(
        "model: {init_from: runs/there}\n"
        "training: {steps: 5, adaptation: {kind: lora, rank: 2}}\n"
    )
    assert run.training.adaptation.kind == "lora"


def test_the_older_spelling_left_null_takes_no_weights_away() -> None:
    run = parse(FROM + "training: {steps: 5, init_from: null}")
    assert run.training.init_from == "runs/there"


def test_null_is_nothing_and_takes_it_away() -> None:
    model = parse("model: {init_from: runs/there, num_layers: 2}", "model.init_from=")
    assert model.model == EncoderConfig(num_layers=2)
    assert model.training.init_from is None


def test_a_run_takes_the_place_of_what_an_extended_file_begins_with() -> None:
    base = THERE.replace("steps: 10,", "steps: 10, init_from: runs/older,")
    Path("base.yaml").write_text(f"{base}seed: 5\n")
    own = "extends: base.yaml\nname: own\nmodel: {init_from: runs/there}\n"
    run = parse_run(own, "own.yaml")
    assert run.tokenizer.path == "runs/there/imported/tokenizer"
    assert run.training.init_from == "runs/there"
    assert (run.training.steps, run.seed) == (10, 5)


def test_another_run_by_the_command_line(there: Path) -> None:
    """It replaces what a resolved configuration says key by key."""
    other = parse_run(THERE, "other.yaml", ["model.num_layers=1"])
    imported_run(Path("runs/other"), other)
    text = dump_run(parse("model: {init_from: runs/there}"))
    run = parse_run(text, "run.yaml", ["model.init_from=runs/other"])
    assert run.model == other.model
    assert run.tokenizer.path == "runs/other/imported/tokenizer"
    assert run.training.init_from == "runs/other"


def test_a_tokenizer_is_needed_where_the_run_has_none(there: Path) -> None:
    (there / "imported/tokenizer").rmdir()
    assert (
        "my.yaml:4: model.init_from: runs/there was imported without a tokenizer, so "
        "none comes with its weights. Name the one it was trained with"
    ) in error_of("model: {init_from: runs/there}")
    run = parse(
        "model: {init_from: runs/there}", "tokenizer={kind: pretrained, path: a}"
    )
    assert run.tokenizer.path == "a"


def test_a_pretrained_tokenizer_may_lie_elsewhere() -> None:
    """The training holds its ids against those of the run."""
    run = parse("model: {init_from: runs/there}\ntokenizer: {path: vocab.txt}")
    assert (run.tokenizer.kind, run.tokenizer.path) == ("pretrained", "vocab.txt")


def test_images_need_no_tokenizer() -> None:
    text = (CONFIGS / "tiny/vit_base.yaml").read_text()
    imported_run(Path("runs/vit"), parse_run(text, "vit.yaml"), tokenizer=False)
    own = text[: text.index("model:")] + "model: {init_from: runs/vit}\n"
    run = parse_run(own, "own.yaml", with_model=True)
    assert run.model == parse_run(text, "vit.yaml").model
    assert run.tokenizer == parse("").tokenizer


FROM = "model: {init_from: runs/there}\n"


@pytest.mark.parametrize(
    ("addition", "message"),
    [
        ("model: {init_from: runs/gone}", "my.yaml:4: model.init_from: runs/gone: has "
         "no trained model: neither `transbeam train` nor `transbeam import` has"),
        ("model: {init_from: runs/there/imported}", "it is the folder of a stage. Name "
         "that of the run: runs/there."),
        ("model: {init_from: checkpoint}", "checkpoint: has no trained model: it is a "
         "checkpoint of another program. Bring it in with `transbeam import check"),
        ("model: {init_from: 's3://a/b'}", "my.yaml:4: model.init_from: s3://a/b: ex"),
        ("model: {init_from: ~nobody-here/a}", "there is no such user"),
        ("model: {init_from: ''}", "my.yaml:4: model.init_from: '': expected a path"),
        ("model:\n  init_from: runs/there\n  num_layers: 6", "my.yaml:6: "
         "model.num_layers: 3 there, 6 here: model.init_from=runs/there takes the "
         "weights of that run's model, which these keys change. Remove them; only "
         "dropout, initializer, pooler and which tokens are global may differ"),
        ("model: {init_from: runs/there, max_sequence_length: 256}", "my.yaml:4: "
         "model.max_sequence_length: 128 there, 256 here"),
        (FROM + "training: {steps: 5, init_from: runs/other}", "my.yaml:4: "
         "model.init_from: a training begins once, and `training.init_from` is the "
         "older spelling of the same (my.yaml:5). Remove one of them."),
        (FROM + "training: {steps: 5, initial_weights: a.h5}", "my.yaml:4: training: "
         "init_from=runs/there and initial_weights=a.h5: a training begins once."),
        (FROM + "tokenizer: {kind: byte_bpe}", "my.yaml:5: tokenizer.kind: a newly "
         "trained tokenizer gives other ids than that of runs/there, which "
         "model.init_from brings (my.yaml:4). Remove `tokenizer`."),
        (FROM + "training: {batch_size: 5}", "training: its length is missing"),
    ],
)  # fmt: skip
def test_runs_that_are_refused(addition: str, message: str) -> None:
    Path("checkpoint").mkdir()
    Path("checkpoint/config.json").touch()
    assert message in error_of(addition)


def test_features_that_are_drawn_need_the_seed_of_the_run(there: Path) -> None:
    drawn = ["model.attention.kind=kernel", "seed=3"]
    shutil.rmtree(there)
    imported_run(there, parse_run(THERE, "there.yaml", drawn))
    assert "my.yaml:5: seed: 3 there, 4 here" in error_of(FROM + "seed: 4")
    assert parse(FROM + "seed: 3").seed == 3


@pytest.mark.parametrize("file", ["run.yaml", "imported/weights.safetensors"])
def test_a_file_of_the_run_that_is_gone(there: Path, file: str) -> None:
    (there / file).unlink()
    assert f"my.yaml:4: model.init_from: runs/there/{file}: is not there" in error_of(
        FROM
    )


def test_a_damaged_run_is_refused_at_the_line_that_names_it(there: Path) -> None:
    (there / "run.yaml").write_text("nam: a\n")
    message = error_of(FROM)
    assert message.startswith("my.yaml:4: model.init_from: runs/there/run.yaml:1: nam:")
    (there / "imported/stage.json").write_text("{")
    assert error_of(FROM).startswith("my.yaml:4: model.init_from: runs/there/imported/")


def test_runs_that_lead_back_to_each_other(there: Path) -> None:
    (there / "run.yaml").write_text(THERE + "extends: ../../a.yaml\n")
    Path("a.yaml").write_text(SMALL + FROM)
    with pytest.raises(ConfigError, match=r"a\.yaml:4: model\.init_from: .*leads back"):
        load_run("a.yaml")
