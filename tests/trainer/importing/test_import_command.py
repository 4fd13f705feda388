"""A checkpoint of others becomes a run's folder that trains and exports."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

import transbeam
from tests.configs.loader.test_export_support import IMAGES
from tests.model.weights.hugging_face_checkpoints import CASES
from tests.small_run import paragraphs
from tests.trainer.importing.hugging_face_checkpoints import (
    PIECES,
    case_of,
    write_bert,
    write_gpt2,
)
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.loader.yaml_config import load_run, parse_run
from transbeam.model.build import build_model
from transbeam.model.weights.assign import variables_by_path
from transbeam.model.weights.safetensors_store import load_initial_weights
from transbeam.pipeline.tokenizers.files.tokenizer_folder import read_tokenizer
from transbeam.serving.base.trained_run import load_trained
from transbeam.serving.signatures.task_factory import make_signature_task
from transbeam.trainer.importing.import_command import next_step


@pytest.fixture
def checkpoint(tmp_path: Path) -> Callable[..., Path]:
    def write(name: str, **changed: object) -> Path:
        return write_bert(tmp_path / "published model", name, **changed)

    return write


def initial(run_folder: Path, config=None) -> dict[str, np.ndarray]:
    """The initial weights of a training."""
    config = config or load_run(run_folder / "run.yaml", with_model=True)
    model = build_model(config.model, config.objective, len(PIECES))
    load_initial_weights(model, run_folder / "imported/weights.safetensors")
    return {path: weight.numpy() for path, weight in variables_by_path(model).items()}


@pytest.mark.thorough(
    instead="test_as_it_came_it_is_a_trained_model_without_records, "
    "test_what_to_type_next"
)
def test_it_exports_makes_records_and_trains(checkpoint, command, tmp_path):
    folder, run_folder = checkpoint("bert_masked"), tmp_path / "run"
    (tmp_path / "corpus.txt").write_text("\n\n".join(paragraphs(120)))
    result = command(
        *("import", folder, "--run", run_folder),
        *("--set", f"data.source={{kind: text, path: {tmp_path}/corpus.txt}}"),
        *("--set", "data.sequence_length=32", "--set", "export.tflite=[]"),
        *("--set", "training.steps=1", "--set", "training.batch_size=2"),
        # So small a step that it stays where it began.
        *("--set", "training.schedule={peak: 1e-9, warmup_steps: 0}"),
        *("--set", "data.validation_fraction=0.2"),
    )
    assert result["code"] == 0
    assert result["exportable"]
    assert result["new"] == result["left_out"] == []
    file = run_folder / "run.yaml"
    weights = initial(run_folder)
    published = case_of("bert_masked").tensors()
    np.testing.assert_array_equal(
        weights["encoder_layer_1/self_attention/key/kernel"],
        published["bert.encoder.layer.1.attention.self.key.weight"].T,
    )

    exported = command("export", file, "--run", run_folder)
    assert exported["code"] == 0
    assert Path(exported["saved_model"]["path"]).is_dir()

    assert command("data", file, "--run", run_folder)["code"] == 0
    assert command("train", file, "--run", run_folder)["code"] == 0
    after = load_trained(run_folder).model
    for path, weight in variables_by_path(after).items():
        np.testing.assert_allclose(
            weight.numpy(), weights[path], rtol=0, atol=1e-6, err_msg=path
        )
    # What was there before is kept.
    shelf = {
        path.name.partition("-")[0] for path in (run_folder / "superseded").iterdir()
    }
    assert shelf == {"data", "training"}


@pytest.mark.thorough(instead="test_what_to_type_next")
def test_a_classifier_is_exported_as_it_came(checkpoint, command, tmp_path):
    run_folder = tmp_path / "run"
    command("import", checkpoint("bert_classifier"), "--run", run_folder)
    file = run_folder / "run.yaml"
    exported = command("export", file, "--run", run_folder)
    assert exported["code"] == 0
    assert all(row["passed"] for row in exported["parity"])
    asked = command("predict", file, "--run", run_folder, "--text", "the loss")
    labels = load_run(file, with_model=True).objective.labels
    assert asked["predictions"][0]["label"] in labels


def test_a_classifier_on_a_decoder_reads_the_text_alone(command, tmp_path):
    """As transformers' tokenizer of GPT-2 and its head do; exported as it came."""
    folder, run_folder = write_gpt2(tmp_path / "g", "gpt2_classifier"), tmp_path / "run"
    assert command("import", folder, "--run", run_folder)["exportable"]
    trained = load_trained(run_folder)
    assert trained.config.objective.labels == ("bad", "so-so", "good")
    endpoints = make_signature_task(trained).endpoints()
    texts = ["the thing", "", "a"]
    read = endpoints["tokenize"].function(tf.constant(texts))
    plain = trained.tokenizer.tokenize(texts).to_list()
    plain[1] = [trained.tokenizer.special.end]
    for ids, row, length in zip(plain, read["token_ids"], read["length"], strict=True):
        assert row[:length].numpy().tolist() == ids
    scores = endpoints["serving_default"].function(tf.constant(texts))["scores"]
    for ids, found in zip(plain, scores.numpy(), strict=True):
        row = np.array([ids], "int32")
        inputs = {"token_ids": row, "padding_mask": np.ones_like(row)}
        expected = tf.nn.softmax(trained.model(inputs)["logits"])[0].numpy()
        np.testing.assert_allclose(np.sort(found), np.sort(expected), atol=1e-6)


def test_a_head_reads_the_end_token_that_its_tokenizer_adds(command, tmp_path, capsys):
    folder, run_folder = write_gpt2(tmp_path / "g", "gpt2_classifier"), tmp_path / "run"
    (folder / "tokenizer_config.json").write_text('{"add_eos_token": true}')
    assert command("import", folder, "--run", run_folder)["exportable"]
    assert "add_eos_token" not in capsys.readouterr().err
    trained = load_trained(run_folder)
    assert trained.config.model.pooler.kind == "end_token"
    tokenize = make_signature_task(trained).endpoints()["tokenize"].function
    (row,) = tokenize(tf.constant(["the"]))["token_ids"].numpy().tolist()
    end = trained.tokenizer.special.end
    ids = [*trained.tokenizer.tokenize(["the"]).to_list()[0], end]
    assert row[: len(ids)] == ids


def test_as_it_came_it_is_a_trained_model_without_records(
    checkpoint, command, tmp_path
):
    run_folder = tmp_path / "run"
    command("import", checkpoint("bert_masked"), "--run", run_folder)
    weights = initial(run_folder)
    for path, weight in variables_by_path(load_trained(run_folder).model).items():
        np.testing.assert_array_equal(weight.numpy(), weights[path], err_msg=path)
    told = command("train", run_folder / "run.yaml", "--run", run_folder)
    assert told["code"] == 2
    assert (
        "there are no records to train on. Make them: transbeam data" in told["error"]
    )


def test_epochs_of_a_later_training_do_not_hinder_an_export(
    checkpoint, command, tmp_path
):
    """They cannot be converted to steps, as there are no records yet."""
    run_folder = tmp_path / "run"
    words = ("import", checkpoint("bert_masked"), "--run", run_folder)
    command(*words, "--set", "training.epochs=3")
    config = load_run(run_folder / "run.yaml")
    assert (config.training.steps, config.training.epochs) == (None, 3)
    assert load_trained(run_folder, config).config == config
    trained = command("train", run_folder)
    assert trained["code"] == 2
    assert "no records to train on" in trained["error"]


def test_a_body_alone_gets_a_new_head(checkpoint, command, tmp_path):
    folder, run_folder = checkpoint("bert"), tmp_path / "run"
    result = command("import", folder, "--run", run_folder)
    assert result["left_out"] == ["pooler.dense.bias", "pooler.dense.weight"]
    assert {path.partition("/")[0] for path in result["new"]} == {
        "head_dense",
        "head_norm",
        "head_bias",
    }
    assert not load_trained(run_folder).has_head
    assert result["exportable"]  # its vectors
    weights = initial(run_folder)
    table = case_of("bert").tensors()["embeddings.word_embeddings.weight"]
    np.testing.assert_array_equal(weights["token_embedding/embeddings"], table)


def test_the_same_again_is_skipped_and_another_is_kept(checkpoint, command, tmp_path):
    folder, run_folder = checkpoint("bert_masked"), tmp_path / "run"
    command("import", folder, "--run", run_folder)
    assert command("import", folder, "--run", run_folder)["skipped"]
    checkpoint("bert_masked", hidden_act="relu")
    again = command("import", folder, "--run", run_folder)
    assert "skipped" not in again
    assert load_run(run_folder / "run.yaml").model.feedforward.activation == "relu"
    shelf = [path.name for path in (run_folder / "superseded").iterdir()]
    assert any(name.startswith("imported-") for name in shelf)


def test_a_configuration_that_was_edited_is_kept(checkpoint, command, tmp_path):
    folder, run_folder = checkpoint("bert_masked"), tmp_path / "run"
    command("import", folder, "--run", run_folder)
    (run_folder / "run.yaml").write_text("mine")
    command("import", folder, "--run", run_folder, "--set", "training.steps=20000")
    assert (run_folder / "run.before-import.yaml").read_text() == "mine"
    (run_folder / "run.yaml").unlink()
    command("import", folder, "--run", run_folder, "--set", "training.steps=20000")
    assert load_run(run_folder / "run.yaml").training.steps == 20000


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "vit_classifier"])
def test_other_families_have_a_configuration_and_weights(name, command, tmp_path):
    folder = CASES[name].write(tmp_path / name)
    result = command("import", folder, "--run", tmp_path / "run")
    assert result["family"] == name.partition("_")[0]
    config = load_run(tmp_path / "run/run.yaml", with_model=True)
    assert config.model.hidden_dim == 8
    model = build_model(config.model, config.objective, 11)
    assert (
        load_initial_weights(model, tmp_path / "run/imported/weights.safetensors") == []
    )


def test_tokens_that_the_weights_do_not_have(checkpoint, command, tmp_path):
    folder = checkpoint("bert_masked")
    with (folder / "vocab.txt").open("a") as file:
        file.write("surplus\n")
    told = command("import", folder, "--run", tmp_path / "run")
    assert told["code"] == 2
    assert (
        f"the tokenizer has {len(PIECES) + 1} pieces, and the weights are for"
        in (told["error"])
    )


def test_rows_that_no_token_has(checkpoint, command, tmp_path):
    """Weights may have more rows than the tokenizer has pieces, for speed."""
    folder = checkpoint("bert_masked")
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES[:-2]))
    run_folder = tmp_path / "run"
    assert command("import", folder, "--run", run_folder)["code"] == 0
    trained = load_trained(run_folder)
    weights = variables_by_path(trained.model)
    assert weights["token_embedding/embeddings"].shape[0] == len(PIECES)
    assert weights["head_bias/bias"].shape[0] == len(PIECES) - 2
    assert trained.model.output["logits"].shape[-1] == len(PIECES) - 2


def test_how_text_is_folded_comes_with_the_vocabulary(checkpoint, command, tmp_path):
    folder = checkpoint("bert_masked")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    command("import", folder, "--run", tmp_path / "run")
    model = read_tokenizer(tmp_path / "run/imported/tokenizer").model
    assert model.lowercase is model.strip_accents is False
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": "no"}')
    assert command("import", folder, "--run", tmp_path / "run")["tokenizer"] is None


def test_without_a_tokenizer_there_is_a_warning(command, checkpoint, tmp_path, capsys):
    folder = checkpoint("bert_masked")
    (folder / "vocab.txt").unlink()
    code = transbeam.main(["import", str(folder), "--run", str(tmp_path / "run")])
    assert code == 0
    out, err = capsys.readouterr()
    assert "no tokenizer is imported" in err
    assert "`transbeam run" not in out
    assert "without a tokenizer only Python can use it: put the tokenizer's" in out
    assert not (tmp_path / "run/training").exists()


def test_without_a_tokenizer_no_stage_begins(command, checkpoint, tmp_path, capsys):
    folder, run_folder = checkpoint("bert_masked"), tmp_path / "run"
    text = (folder / "vocab.txt").read_text()
    (folder / "vocab.txt").unlink()
    (tmp_path / "corpus.txt").write_text("one\n\ntwo")
    source = f"data.source={{kind: text, path: {tmp_path}/corpus.txt}}"
    result = command("import", folder, "--run", run_folder, "--set", source)
    assert result["tokenizer"] is None
    assert not result["exportable"]
    for stage in ("data", "run"):
        told = command(stage, run_folder / "run.yaml", "--run", run_folder)
        assert told["code"] == 2
        assert f"{run_folder}/imported/tokenizer: no such file" in told["error"]
        assert not (run_folder / "data").exists()
    assert transbeam.main(["check", str(run_folder / "run.yaml")]) == 0
    warning = f"tokenizer.path={run_folder}/imported/tokenizer: there is no such"
    assert warning in capsys.readouterr().err
    # The advice of the summary helps.
    (folder / "vocab.txt").write_text(text)
    result = command("import", folder, "--run", run_folder, "--set", source)
    assert result["tokenizer"] == f"{run_folder}/imported/tokenizer"
    assert result["exportable"]


@pytest.mark.parametrize(
    ("name", "named", "typed"),
    [
        ("bert_masked", "bert", "{run}/run.yaml"),
        ("bert_masked", "other", "{run}/run.yaml --run {run}"),
        ("bert_classifier", "bert", "{run}/run.yaml"),
        ("bert_tagger", "bert", "{run}/run.yaml"),
    ],
)
def test_what_to_type_next(
    checkpoint, command, tmp_path, monkeypatch, name, named, typed
):
    folder = checkpoint(name)
    monkeypatch.chdir(tmp_path)
    run = f"runs/{named}"
    result = command("import", folder, "--run", run, "--set", "name=bert")
    assert f"`transbeam export {typed.format(run=run)}` makes" in result["summary"]
    assert result["summary"].endswith(f"data.source of {run}/run.yaml")
    assert result["exportable"]
    assert Path(run, "training").exists()


def test_what_to_type_next_where_the_head_is_new(checkpoint, command, tmp_path):
    run = tmp_path / "text"
    told = command("import", checkpoint("bert"), "--run", run)["summary"]
    assert f"{run}` makes its vectors of texts ready, for `transbeam serve`" in told
    run = tmp_path / "images"
    folder = CASES["vit"].write(tmp_path / "vit")
    result = command("import", folder, "--run", run)
    assert not result["exportable"]
    assert not (run / "training").exists()
    told = result["summary"]
    assert "its head is new and has learned nothing: name your corpus in" in told
    assert told.endswith(f"`transbeam run {run}/run.yaml --run {run}`")


def test_what_to_type_next_where_nothing_can_be_exported():
    grey_and_alpha = {"objective.channels": 2, "model.patches.num_channels": 2}
    overrides = [f"{key}={value}" for key, value in grey_and_alpha.items()]
    config = parse_run(IMAGES, "f", overrides)
    run = Path("runs/x")
    told = next_step(config, None, run / "run.yaml", run)
    assert told.startswith(
        "name your corpus in data.source of runs/x/run.yaml, then `transbeam data "
        "runs/x/run.yaml` and `transbeam train runs/x/run.yaml`; this version of "
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bert_masked", "text"),
        ("bert_classifier", "csv"),
        ("bert_tagger", "conll"),
        ("bert_reader", "squad"),
    ],
)
def test_nothing_is_trained_on_that_nobody_chose(
    checkpoint, command, tmp_path, name, kind
):
    run_folder = tmp_path / "run"
    command("import", checkpoint(name), "--run", run_folder)
    source = load_run(run_folder / "run.yaml", with_model=True).data.source
    assert source.kind == kind
    told = command("run", run_folder / "run.yaml", "--run", run_folder)
    assert told["code"] == 2
    assert f"data.source: no file matches '{source.path}'" in told["error"]


def test_a_model_of_images_is_exported_as_it_came(command, tmp_path):
    folder = CASES["vit_classifier"].write(tmp_path / "vit")
    run_folder = tmp_path / "run"
    result = command("import", folder, "--run", run_folder)
    assert result["exportable"]
    assert "`transbeam export" in result["summary"]
    weights = load_trained(run_folder).model.get_layer("classifier").kernel.numpy()
    published = CASES["vit_classifier"].tensors()["classifier.weight"]
    np.testing.assert_array_equal(weights, published.T)


def test_questions_fit_into_short_records(checkpoint, command, tmp_path):
    folder = checkpoint("bert_reader")
    result = command("import", folder, "--run", tmp_path / "run")
    assert result["exportable"]
    objective = load_run(tmp_path / "run/run.yaml", with_model=True).objective
    assert objective.max_question_length == 30


def test_overrides_are_heard_before_defaults_are_held_against_each_other(
    checkpoint, command, tmp_path
):
    folder = checkpoint("bert_reader")
    command(
        *("import", folder, "--run", tmp_path / "run"),
        *("--set", "objective.max_question_length=70"),
        *("--set", "data.sequence_length=40"),
        *("--set", "objective.max_question_length=9"),
    )
    config = load_run(tmp_path / "run/run.yaml", with_model=True)
    assert config.objective.max_question_length == 9
    assert config.data.sequence_length == 40


@pytest.mark.parametrize("place", [".", "run"])
def test_a_run_in_the_checkpoint_s_folder_is_refused(
    checkpoint, tmp_path, capsys, place
):
    folder = checkpoint("bert_masked")
    before = sorted(folder.iterdir())
    assert transbeam.main(["import", str(folder), "--run", str(folder / place)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "is the checkpoint's folder, or right in it" in said
    assert sorted(folder.iterdir()) == before


def test_a_run_further_down_is_made_once(checkpoint, command):
    folder = checkpoint("bert_masked")
    command("import", folder, "--run", folder / "runs/bert")
    assert command("import", folder, "--run", folder / "runs/bert")["skipped"]


def test_a_cross_encoder_s_scores_are_not_put_through_anything(
    checkpoint, tmp_path, capsys
):
    told = {"id2label": {"0": "LABEL_0"}, "sentence_transformers": {"version": "5"}}
    folder = checkpoint("bert_classifier", **told)
    tensors = load_file(folder / "model.safetensors")
    for name in ("classifier.weight", "classifier.bias"):
        tensors[name] = tensors[name][:1]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    assert transbeam.main(["import", str(folder), "--run", str(tmp_path / "r")]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "scores are returned without the Sigmoid that sentence-tra" in said


@pytest.mark.parametrize("kind", ["regression", "pair_regression"])
def test_one_label_is_a_number(checkpoint, command, tmp_path, kind):
    folder = checkpoint("bert_classifier", id2label={"0": "LABEL_0"})
    tensors = load_file(folder / "model.safetensors")
    for name in ("classifier.weight", "classifier.bias"):
        tensors[name] = tensors[name][:1]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    overrides = () if kind == "regression" else ("--set", f"objective.kind={kind}")
    command("import", folder, "--run", tmp_path / "run", *overrides)
    trained = load_trained(tmp_path / "run")
    assert trained.config.objective.kind == kind
    np.testing.assert_array_equal(
        trained.model.get_layer("regressor").kernel.numpy(),
        tensors["classifier.weight"].T,
    )


def test_what_stands_around_the_names_of_weights_is_taken_away_and_said(
    checkpoint, command, tmp_path, capsys
):
    folder = checkpoint("bert_masked")
    tensors = load_file(folder / "model.safetensors")
    wrapped = {f"module._orig_mod.{name}": tensor for name, tensor in tensors.items()}
    save_file(wrapped, folder / "model.safetensors", {"format": "pt"})
    code = transbeam.main(["import", str(folder), "--run", str(tmp_path / "run")])
    assert code == 0
    said = "".join(capsys.readouterr())
    assert "components removed from the weights' names: _orig_mod., module.\n" in said
    table = tensors["bert.embeddings.word_embeddings.weight"]
    weights = initial(tmp_path / "run")
    np.testing.assert_array_equal(weights["token_embedding/embeddings"], table)


def test_added_tokens_have_their_rows(checkpoint, command, tmp_path):
    folder = checkpoint("bert_masked")
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES[:-2]))
    size = len(PIECES)
    added = {"[CITY]": size - 2, "<brand>": size - 1}
    (folder / "added_tokens.json").write_text(json.dumps(added))
    command("import", folder, "--run", tmp_path / "run")
    trained = load_trained(tmp_path / "run")
    assert trained.tokenizer.vocabulary_size == size
    rows = trained.tokenizer.tokenize(["[city]<brand>", "a[CITY]"]).to_list()
    assert rows == [[size - 2, size - 1], [PIECES.index("a"), size - 2]]


def test_added_tokens_without_rows_are_named(checkpoint, tmp_path, capsys):
    folder = checkpoint("bert_masked")
    added = {"[CITY]": len(PIECES), "<brand>": len(PIECES) + 1}
    (folder / "added_tokens.json").write_text(json.dumps(added))
    code = transbeam.main(["import", str(folder), "--run", str(tmp_path / "run")])
    assert code == 0
    said = " ".join(capsys.readouterr().err.split())
    size = len(PIECES)
    assert f"the weights have no rows beyond {size - 1}: '[CITY]' ({size})" in said
    tokenizer = read_tokenizer(tmp_path / "run/imported/tokenizer").model
    assert tokenizer.pieces == tuple(PIECES)


def test_a_tokenizer_that_was_not_fetched_is_refused(checkpoint, command, tmp_path):
    folder = checkpoint("bert_masked")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
    (folder / "vocab.txt").write_text(pointer)
    told = command("import", folder, "--run", tmp_path / "run")
    assert told["code"] == 2
    assert f"{folder}/vocab.txt: is a pointer of Git LFS" in told["error"]
    assert not (tmp_path / "run").exists()


def test_no_place_is_named_where_nothing_is(checkpoint, command, tmp_path):
    """`run.yaml` is not written when its keys do not fit each other."""
    folder = checkpoint("bert_masked", max_position_embeddings=64)
    told = command(
        *("import", folder, "--run", tmp_path / "run"),
        *("--set", "objective={kind: causal}"),
    )
    assert told["error"].startswith(
        f"the run made of {folder}: model.kind=encoder does not go with objective.kind="
    )
    told = command(
        *("import", folder, "--run", tmp_path / "run"),
        *("--set", "data.layout={kind: bucketed, lengths: [32, 48]}"),
    )
    assert "run.yaml:" not in told["error"]
    assert not (tmp_path / "run").exists()


def test_a_model_that_an_override_makes_far_too_large(checkpoint, command, tmp_path):
    told = command(
        *("import", checkpoint("bert_masked"), "--run", tmp_path / "run"),
        *("--set", "model.num_layers=1000000"),
    )
    assert told["code"] == 2
    assert "(1,000,000 blocks, 8 wide" in told["error"]
    assert not (tmp_path / "run").exists()


def test_what_does_not_fit_is_refused(checkpoint, command, tmp_path):
    folder = checkpoint("bert_masked")
    told = command(
        "import", folder, "--run", tmp_path / "run", "--set", "model.layers=3"
    )
    assert told["code"] == 2
    assert "model.layers: unknown key" in told["error"]
    told = command(
        "import", folder, "--run", tmp_path / "run", "--set", "model.num_layers=3"
    )
    assert told["code"] == 2
    assert "encoder.layer.2.attention.self.query.weight: missing" in told["error"]
    assert not (tmp_path / "run").exists()


def test_beginning_with_another_models_weights(checkpoint, command, tmp_path):
    command("import", checkpoint("bert_masked"), "--run", tmp_path / "run")
    file = tmp_path / "run/imported/weights.safetensors"
    config = load_run(tmp_path / "run/run.yaml", ["model.hidden_dim=6"])
    model = build_model(config.model, config.objective, len(PIECES))
    with pytest.raises(ArtifactError, match=r"head_dense/kernel: \(8, 8\), expected"):
        load_initial_weights(model, file)
    with pytest.raises(ArtifactError, match="is not of ours"):
        load_initial_weights(model, tmp_path / "published model/model.safetensors")
    with pytest.raises(ArtifactError, match="cannot be read"):
        load_initial_weights(model, tmp_path / "nowhere.safetensors")
