"""A sentence-transformers folder gives its own vectors, without training."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import transbeam
from tests.model.weights.hugging_face_checkpoints import CASES
from tests.objective_configs import config_of
from tests.small_run import paragraphs
from tests.trainer.conftest import eagerly
from tests.trainer.importing.hugging_face_checkpoints import (
    PIECES,
    write_bert,
    write_gpt2,
)
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.loader.yaml_config import load_run
from transbeam.model.weights.assign import variables_by_path
from transbeam.pipeline.tokenizers.files.tokenizer_folder import read_tokenizer
from transbeam.serving.base.trained_run import load_trained
from transbeam.serving.parity.base.parity_texts import row_inputs
from transbeam.serving.parity.embedding import EmbeddingParityChecker, KerasEmbedder
from transbeam.serving.signatures.embedding import find_body
from transbeam.serving.signatures.task_factory import make_signature_task
from transbeam.trainer.importing.import_command import is_ready
from transbeam.trainer.importing.sentence_transformer import (
    read_sentence_transformer,
    score_activation,
)

TRANSFORMER = "sentence_transformers.models.Transformer"
POOLING = "sentence_transformers.models.Pooling"
NORMALIZE = "sentence_transformers.models.Normalize"
TEXTS = ["a b c", "", "a b c d e f g h i j k l m n o p"]


def write(
    folder: Path,
    *,
    mode: str = "pooling_mode_mean_tokens",
    more: tuple[str, ...] = (),
    length: int | None = None,
    body: str = "",
) -> Path:
    """A folder as sentence-transformers saves it."""
    write_bert(folder / body, "bert")
    kinds = [TRANSFORMER, POOLING, *more]
    places = [body, "1_Pooling", *(f"{i}_More" for i in range(2, 2 + len(more)))]
    modules = [
        {"idx": i, "name": str(i), "path": place, "type": kind}
        for i, (kind, place) in enumerate(zip(kinds, places, strict=True))
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    told = {"word_embedding_dimension": 8, mode: True, "pooling_mode_other": False}
    (folder / "1_Pooling/config.json").write_text(json.dumps(told))
    if length is not None:
        told = {"max_seq_length": length, "do_lower_case": False}
        (folder / body / "sentence_bert_config.json").write_text(json.dumps(told))
    return folder


@pytest.mark.parametrize(
    ("mode", "pooled"),
    [
        ("pooling_mode_mean_tokens", lambda vectors: vectors.mean(axis=0)),
        ("pooling_mode_cls_token", lambda vectors: vectors[0]),
        ("pooling_mode_max_tokens", lambda vectors: vectors.max(axis=0)),
    ],
)
@pytest.mark.parametrize("normalize", [False, True])
def test_vectors_are_made_as_the_folder_says(
    command, tmp_path, mode, pooled, normalize
):
    more = (NORMALIZE,) * normalize
    folder = write(tmp_path / "theirs", mode=mode, more=more, length=9)
    assert command("import", folder, "--run", tmp_path / "run")["exportable"]
    trained = load_trained(tmp_path / "run")
    endpoints = make_signature_task(trained).endpoints()
    assert {"serving_default", "embed", "tokenize", "attention"} == set(endpoints)
    found = endpoints["serving_default"].function(tf.constant(TEXTS))
    assert found["truncated"].numpy().tolist() == [False, False, True]
    body, special = find_body(trained.model), trained.tokenizer.special
    for text, vector in zip(TEXTS, found["embedding"].numpy(), strict=True):
        tokens = trained.tokenizer.tokenize([text]).to_list()[0][:7]
        ids = np.array([[special.begin, *tokens, special.end]])
        row = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
        expected = pooled(np.asarray(body(row)["sequence_output"])[0])
        if normalize:
            expected = expected / np.linalg.norm(expected)
        np.testing.assert_allclose(vector, expected, rtol=0, atol=1e-5)


@pytest.mark.thorough(instead="test_vectors_are_made_as_the_folder_says")
def test_vectors_are_exported_and_asked_for_without_training(command, tmp_path):
    folder = write(tmp_path / "theirs", more=(NORMALIZE,), length=9)
    run_folder = tmp_path / "run"
    command("import", folder, "--run", run_folder)
    file = run_folder / "run.yaml"
    tflite = ("--set", "export.tflite=[float32]")
    exported = command("export", file, "--run", run_folder, *tflite)
    assert exported["code"] == 0
    assert {row["check"] for row in exported["parity"]} >= {
        "embed, vector entry, largest difference",
        "vector entry, largest difference",
    }
    asked = command("predict", file, "--run", run_folder, "--text", "the loss")
    vector = asked["predictions"][0]["embedding"]
    assert len(vector) == 8
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    phone = command("export", file, "--run", run_folder, "--target", "phone", *tflite)
    assert phone["code"] == 0
    readme = (run_folder / "phone/README.md").read_text()
    assert "It gives a text a vector" in readme
    assert "fill_mask" not in readme


def test_a_difference_from_keras_is_seen(command, tmp_path):
    command("import", write(tmp_path / "theirs"), "--run", tmp_path / "run")
    trained = load_trained(tmp_path / "run")
    endpoints = make_signature_task(trained).endpoints()
    judge = EmbeddingParityChecker(trained, TEXTS)

    def ask(signature, columns):
        found = endpoints[signature].function(tf.constant(columns["text"]))
        return {name: np.array(values) for name, values in found.items()}

    def ask_another(signature, columns):
        found = ask(signature, columns)
        if signature == "embed":
            found["embedding"][1, 3] += 0.01
        return found

    assert all(row.passed for row in judge.saved_model_rows("it", ask))
    failed = [r for r in judge.saved_model_rows("it", ask_another) if not r.passed]
    assert [row.check for row in failed] == ["embed, vector entry, largest difference"]


def test_a_body_in_a_folder_of_its_own(command, tmp_path):
    folder = write(tmp_path / "theirs", body="0_Transformer", length=12)
    result = command("import", folder, "--run", tmp_path / "run")
    assert result["code"] == 0
    assert load_run(tmp_path / "run/run.yaml").export.embedding_length == 12
    # What stands below belongs to the checkpoint, too.
    assert command("import", folder, "--run", tmp_path / "run")["skipped"]
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode": "cls"}')
    assert "skipped" not in command("import", folder, "--run", tmp_path / "run")
    assert load_run(tmp_path / "run/run.yaml").export.embedding_pooling == "first"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"more": ("sentence_transformers.models.Dense",)}, "the module Dense is not"),
        (
            {"mode": "pooling_mode_lasttoken"},
            "pooling of the last token is not",
        ),
    ],
)
def test_vectors_that_would_be_others_are_not_made(tmp_path, changed, said, capsys):
    folder = write(tmp_path / "theirs", **changed)
    code = transbeam.main(["import", str(folder), "--run", str(tmp_path / "run")])
    assert code == 0
    out, err = capsys.readouterr()
    assert said in " ".join(err.split())
    assert "its head is new and has learned nothing" in " ".join(out.split())
    assert not (tmp_path / "run/training").exists()


def test_a_decoder_embeds_texts_by_its_last_token(command, tmp_path):
    folder = write(tmp_path / "theirs", mode="pooling_mode_lasttoken")
    write_gpt2(folder)
    (folder / "vocab.txt").unlink()
    assert command("import", folder, "--run", tmp_path / "run")["exportable"]
    trained = load_trained(tmp_path / "run")
    assert not trained.has_head
    endpoints = make_signature_task(trained).endpoints()
    assert {"serving_default", "embed", "tokenize", "attention"} == set(endpoints)
    found = endpoints["embed"].function(tf.constant(TEXTS))["embedding"].numpy()
    keras = KerasEmbedder(trained)
    body, end = find_body(trained.model), trained.tokenizer.special.end
    for text, vector in zip(TEXTS, found, strict=True):
        tokens = trained.tokenizer.tokenize([text]).to_list()[0] or [end]
        row = {name: x[np.newaxis] for name, x in row_inputs(np.array(tokens)).items()}
        expected = np.asarray(body(row)["sequence_output"])[0, -1]
        np.testing.assert_allclose(vector, expected, rtol=0, atol=1e-5)
        checked = keras.vector(keras.ids(text))
        np.testing.assert_allclose(checked, expected, rtol=0, atol=1e-6)


def test_two_poolings_at_once_are_one_that_is_not_known(tmp_path):
    folder = write(tmp_path)
    told = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling/config.json").write_text(json.dumps(told))
    found = read_sentence_transformer(folder)
    assert found.changes_vectors
    assert "pooling_mode_cls_token with pooling_mode_mean_tokens" in found.problems[0]


def test_prompts_are_named(tmp_path):
    folder = write(tmp_path)
    told = {"prompts": {"query": "query: ", "passage": "passage: "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(told))
    found = read_sentence_transformer(folder)
    assert not found.changes_vectors
    assert "query='query: ', passage='passage: '" in found.problems[0]


def test_the_prompt_that_is_put_before_all_texts_is_named(tmp_path):
    folder = write(tmp_path)
    told = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(told))
    (folder / "1_Pooling/config.json").write_text(
        '{"pooling_mode": "mean", "include_prompt": false}'
    )
    pooled, put_before = read_sentence_transformer(folder).problems
    assert "include_prompt is not imported" in pooled
    assert put_before.endswith("query='query: ' (query where none is named)")


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ((TRANSFORMER, NORMALIZE, POOLING), "are Transformer, Normalize, Pooling, "),
        ((TRANSFORMER, POOLING, POOLING), "expected Transformer, Pooling: v"),
        ((TRANSFORMER, NORMALIZE), "expected Transformer, Pooling, Normalize: v"),
        ((POOLING, TRANSFORMER), "are Pooling, Transformer, expected Transformer"),
    ],
)
def test_modules_in_another_order_or_number(tmp_path, kinds, said):
    folder = write(tmp_path)
    places = {TRANSFORMER: "", POOLING: "1_Pooling", NORMALIZE: "2_Normalize"}
    modules = [{"type": kind, "path": places[kind]} for kind in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))
    found = read_sentence_transformer(folder)
    assert found.changes_vectors
    assert said in found.problems[0]


@pytest.mark.parametrize(
    ("mode", "pooled"), [(["cls"], "first"), (["cls", "mean"], None)]
)
def test_several_named_modes(tmp_path, mode, pooled):
    folder = write(tmp_path)
    (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode": mode}))
    found = read_sentence_transformer(folder)
    if pooled is None:
        assert found.changes_vectors
        assert "config.json: cls with mean is not supported" in found.problems[0]
    else:
        assert found.export.embedding_pooling == pooled


@pytest.mark.parametrize(
    ("name", "told", "length"),
    [
        ("sentence_bert_config.json", {"max_seq_length": 9}, 9),
        ("sentence_roberta_config.json", {"max_seq_length": 9}, 9),
        ("sentence_bert_config.json", {"max_seq_length": None}, 12),
        ("other.json", {}, 12),
    ],
)
def test_the_length_of_texts(tmp_path, name, told, length):
    folder = write(tmp_path)
    (folder / name).write_text(json.dumps(told))
    settings = folder / "tokenizer_config.json"
    settings.write_text('{"model_max_length": 12}')
    assert read_sentence_transformer(folder).export.embedding_length == length
    if length == 12:
        settings.write_text('{"model_max_length": 1000000000000000019884624838656}')
        assert read_sentence_transformer(folder).export.embedding_length is None


def test_a_head_that_the_body_is_named_for_is_not_looked_for(command, tmp_path):
    """Many are named for what they were trained from, `BertForMaskedLM`."""
    folder = write(tmp_path / "theirs")
    config = json.loads((folder / "config.json").read_text())
    told = {**config, "architectures": ["BertForMaskedLM"]}
    (folder / "config.json").write_text(json.dumps(told))
    assert command("import", folder, "--run", tmp_path / "run")["exportable"]


NN = "torch.nn.modules"


@pytest.mark.parametrize(
    ("told", "activation"),
    [
        ({"sentence_transformers": {"version": "5.0.0"}}, "Sigmoid"),
        (
            {"sentence_transformers": {"activation_fn": f"{NN}.linear.Identity"}},
            None,
        ),
        ({"sbert_ce_default_activation_function": f"{NN}.linear.Identity"}, None),
        ({"sbert_ce_default_activation_function": f"{NN}.activation.Tanh"}, "Tanh"),
    ],
)
def test_what_a_cross_encoder_puts_its_scores_through(tmp_path, told, activation):
    (tmp_path / "config.json").write_text(json.dumps(told))
    assert score_activation(tmp_path) == activation


@pytest.mark.parametrize(
    "modules",
    [
        *("{", "{}", '[{"type": "x.Transformer"}]', '[{"type": "T", "path": "../x"}]'),
        *('[{"type": "T", "path": {"a": 1}}]', '[{"type": "T", "path": "\\ud800"}]'),
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
    ],
)
def test_a_damaged_list_of_modules(tmp_path, modules):
    (tmp_path / "modules.json").write_text(modules)
    with pytest.raises(ArtifactError, match=r"modules.json: "):
        read_sentence_transformer(tmp_path)


@pytest.mark.thorough(instead="test_vectors_are_made_as_the_folder_says")
def test_trained_on_it_is_a_masked_model_again(command, tmp_path):
    """The export then has the head, which has learned something."""
    run_folder = tmp_path / "run"
    (tmp_path / "corpus.txt").write_text("\n\n".join(paragraphs(60)))
    command(
        *("import", write(tmp_path / "theirs"), "--run", run_folder),
        *("--set", f"data.source={{kind: text, path: {tmp_path}/corpus.txt}}"),
        *("--set", "data.sequence_length=16", "--set", "training.batch_size=2"),
        *("--set", "training.steps=1", "--set", "data.validation_fraction=0.2"),
        *("--set", "training.schedule={peak: 1e-9, warmup_steps: 0}"),
    )
    file = run_folder / "run.yaml"
    for stage in ("data", "train"):
        done = command(stage, file, "--run", run_folder)
        assert done["code"] == 0, done
    trained = load_trained(run_folder)
    assert trained.has_head
    assert "fill_mask" in make_signature_task(trained).endpoints()
    tensors = CASES["bert"].tensors()
    table = variables_by_path(trained.model)["segment_embedding/embeddings"]
    expected = tensors["embeddings.token_type_embeddings.weight"]
    np.testing.assert_allclose(table, expected, rtol=0, atol=1e-6)
    assert len(PIECES) == trained.tokenizer.vocabulary_size


@eagerly
@pytest.mark.parametrize(
    "adaptation",
    [
        "{kind: all}",
        pytest.param("{kind: lora, rank: 2}", marks=pytest.mark.thorough),
    ],
)
def test_training_on_pairs_begins_with_the_vectors_of_the_folder(
    command, tmp_path, monkeypatch, adaptation
):
    """After an update at a learning rate of almost 0 they are still the same."""
    monkeypatch.chdir(tmp_path)
    folder = write(tmp_path / "theirs", more=(NORMALIZE,), length=9)
    assert command("import", folder, "--run", "runs/theirs")["code"] == 0
    letters = "abcdefghijklmnop"
    rows = [f"{one} {two},{two}" for one in letters for two in letters if one != two]
    Path("pairs.csv").write_text("\n".join(["text,other", *rows]))
    Path("own.yaml").write_text(
        "name: own\n"
        "data:\n"
        "  source: {kind: csv, path: pairs.csv, columns: {second_text: other}}\n"
        "  sequence_length: 9\n"
        "objective: {kind: contrastive_pairs}\n"
        "model: {init_from: runs/theirs, pooler: {kind: mean, projection: false}}\n"
        "training:\n"
        "  steps: 1\n"
        "  batch_size: 8\n"
        "  schedule: {kind: constant, peak: 1e-9, warmup_steps: 0}\n"
        f"  adaptation: {adaptation}\n"
        "export: {normalize_embeddings: true, embedding_length: 9}\n"
    )
    assert command("data", "own.yaml", "--workers", 1)["code"] == 0
    assert command("train", "own.yaml")["code"] == 0
    found = [
        make_signature_task(load_trained(Path("runs") / run))
        .endpoints()["embed"]
        .function(tf.constant(TEXTS))["embedding"]
        .numpy()
        for run in ("theirs", "own")
    ]
    np.testing.assert_allclose(*found, atol=1e-5)


def test_other_vectors_than_those_of_the_folder_are_not_ready(command, tmp_path):
    """Also where the objective is one of embeddings, which has no head to train."""
    command("import", write(tmp_path / "theirs"), "--run", tmp_path / "run")
    tokenizer = read_tokenizer(tmp_path / "run/imported/tokenizer").model
    config = config_of("contrastive_pairs")
    assert is_ready(config, tokenizer, [])
    assert not is_ready(config, tokenizer, [], has_vectors=False)
    assert not is_ready(config, tokenizer, ["pooler/kernel"])
