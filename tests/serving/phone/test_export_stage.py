"""`transbeam export --target phone`: what it leaves, and when it leaves nothing."""

import hashlib
import json
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import InterpreterWithCustomOps
from tensorflow_text import tflite_registrar

from tests.serving.conftest import LENGTH, TINY, invocation_of, make_run
from tests.serving.phone.quantization_error import weights_in_4_bits
from tests.serving.untrained import untrained
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.loader.yaml_dump import dump_run
from transbeam.configs.schema.tokenizer import ByteBPEConfig, PretrainedConfig
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.__main__ import export, main
from transbeam.serving.parity.base.parity_checks import ParityCheck
from transbeam.serving.parity.checker_factory import make_parity_checker
from transbeam.serving.parity.export_parity import check_phone_files
from transbeam.serving.phone.conversion.text_input_models import text_signature
from transbeam.serving.phone.export_stage import export_for_phones
from transbeam.serving.phone.quantization.int4_weights import NONE_ROUNDED
from transbeam.serving.phone.quantization.quantizer import quantized
from transbeam.serving.phone.report.variant_report import Measured, Report
from transbeam.serving.phone.tflite_format.tflite_flatbuffer import unpacked
from transbeam.serving.signatures.task_factory import make_signature_task

VARIANTS = ("float32", "dynamic_int8", "dynamic_int4")
KEYS = {"tflite": VARIANTS, "tflite_text": True}
PASSED = ParityCheck("form", "check", 0.1, 0.2, True)


def contents(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def phone(run_folder, tmp_path_factory):
    """A run whose folder for phones is made, beside an export made before."""
    folder = tmp_path_factory.mktemp("phone") / "tiny"
    for name in ("data", "training"):
        shutil.copytree(run_folder / name, folder / name)
    (folder / "export/saved_model").mkdir(parents=True)
    (folder / "export/saved_model/what is served").write_text("before")
    before = contents(folder / "export")
    result = export(invocation_of(folder, **KEYS), "phone")
    return SimpleNamespace(
        run=folder, folder=folder / "phone", result=result, before=before
    )


@pytest.fixture
def run(phone, tmp_path, monkeypatch):
    """A copy of it, where making files is copying and nothing is asked or measured."""
    folder = tmp_path / "tiny"
    shutil.copytree(phone.run, folder)

    def copy_tflite(trained, run_folder, target, rounded):
        target.mkdir(parents=True, exist_ok=True)
        made = {}
        for variant in trained.config.export.tflite:
            made[variant] = target / f"model_{variant}.tflite"
            shutil.copy(phone.folder / made[variant].name, target)
        return made

    for name, value in {
        "rounded_weights": lambda *_: NONE_ROUNDED,
        "write_tflite": copy_tflite,
        "write_tokenizer": lambda *_: [],
        "make_parity_checker": lambda *_: SimpleNamespace(size=1),
        "check_phone_files": lambda *_: [PASSED],
        "make_task_metric": lambda *_: None,
        "measure_latencies": lambda *_: {1: {32: 2.0}, 2: {32: 1.0}},
    }.items():
        monkeypatch.setattr(f"transbeam.serving.phone.export_stage.{name}", value)
    return folder


def test_what_lies_in_the_folder(phone):
    assert sorted(path.name for path in phone.folder.iterdir()) == [
        "README.md",
        "Tokenizer.kt",
        "Tokenizer.swift",
        "golden_ids.json",
        "model_dynamic_int4.tflite",
        "model_dynamic_int8.tflite",
        "model_float32.tflite",
        "parity.json",
        "phone_report.md",
        "phone_report.png",
        "phone_tokenizer.json",
        "run.yaml",
        "stage.json",
        "text_dynamic_int4.tflite",
        "text_dynamic_int8.tflite",
        "text_float32.tflite",
        "tokenizer.py",
        "vocab.txt",
    ]
    assert not list(phone.run.glob(".phone*"))


def test_files_in_4_bits_have_weights_that_were_rounded_beforehand(phone, tmp_path):
    ours, of_text = (
        weights_in_4_bits(phone.folder / f"{kind}_dynamic_int4.tflite")
        for kind in ("model", "text")
    )
    assert of_text <= ours  # which has the head of the vocabulary, too
    nearest = tmp_path / "nearest.tflite"
    float32 = (phone.folder / "model_float32.tflite").read_bytes()
    nearest.write_bytes(quantized(float32, "dynamic_int4"))
    table, products = 1, 2 * 6 + 1  # of two blocks, and of the head
    assert len(ours - weights_in_4_bits(nearest)) == table + products


def test_what_was_exported_to_serve_stays_as_it_was(phone):
    assert contents(phone.run / "export") == phone.before
    assert not (phone.run / "superseded").exists()


def test_what_the_result_tells(phone):
    result = json.loads(json.dumps(phone.result))
    assert result.keys() == {
        "path",
        "tflite",
        "parity",
        "scores",
        "summary",
        "peak_memory_mb",
    }
    assert result["path"] == str(phone.folder)
    assert list(result["tflite"]) == list(VARIANTS)
    for variant, told in result["tflite"].items():
        file = phone.folder / f"model_{variant}.tflite"
        assert told["path"] == str(file)
        assert told["bytes"] == file.stat().st_size
        times = told["latency_ms"]
        assert {threads: list(of) for threads, of in times.items()} == {
            "1": [str(LENGTH)],
            "2": [str(LENGTH)],
        }
        assert all(ms > 0 for of in times.values() for ms in of.values())
    (scores,) = result["scores"].values()
    assert list(result["scores"]) == ["perplexity"]
    assert scores.keys() == {"keras", *VARIANTS}
    assert scores["float32"] == pytest.approx(scores["keras"], rel=1e-4)
    assert result["parity"] == json.loads((phone.folder / "parity.json").read_text())
    forms = {row["form"] for row in result["parity"]}
    assert forms == {
        f"TFLite {form}"
        for variant in VARIANTS
        for form in (
            variant,
            f"{variant}, XNNPACK",
            f"{variant}, XNNPACK, filled up",
            f"{variant}, builtin kernels",
            f"with the tokenizer, {variant}",
        )
    }
    count = len(result["parity"])
    assert f"all {count} comparisons with Keras passed" in result["summary"]
    assert re.search(
        rf"dynamic_int8 \d\.\d MB, [\d.]+ ms for {LENGTH} tokens, perplexity \d+\.\d+ "
        r"\([+-]\d+\.\d\d%\)",
        result["summary"],
    )


def test_the_report_has_every_variant_and_what_it_loses(phone):
    text = (phone.folder / "phone_report.md").read_text()
    assert text.startswith("# tiny on phones")
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    scores = phone.result["scores"]["perplexity"]
    assert f"perplexity (Keras {scores['keras']:.4f})" in text
    full = phone.result["tflite"]["float32"]["bytes"]
    for line, variant in zip(lines, VARIANTS, strict=True):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        times = phone.result["tflite"][variant]["latency_ms"]
        size = phone.result["tflite"][variant]["bytes"]
        assert cells == [
            f"`{variant}`",
            f"{size / 1e6:.1f}",
            f"{size / full:.2f}x",
            *(f"{ms:.2f}" for of in times.values() for ms in of.values()),
            f"{scores[variant]:.4f}",
            f"{100 * (scores[variant] / scores['keras'] - 1):+.2f}%",
        ]
    for row in phone.result["parity"]:
        assert f"| {row['form']} | {row['check']} | {row['value']:.3g} |" in text


def test_the_picture_is_one(phone):
    content = (phone.folder / "phone_report.png").read_bytes()
    pixels = tf.io.decode_png(content, channels=3).numpy()
    assert min(pixels.shape[:2]) > 100
    shown = {tuple(color) for color in pixels.reshape(-1, 3)[::7].tolist()}
    bars = {(0x44, 0x77, 0xAA), (0x22, 0x88, 0x33), (255, 255, 255)}
    assert bars <= shown


def measured(score=None):
    return Measured(1_000_000, {1: {1: 3.0}, 2: {1: 2.0}}, score)


def test_a_report_of_what_is_not_judged(tmp_path):
    """Without a metric, without float32, and of images."""
    report = Report("photos", "image", {"int8": measured()}, None, None, [PASSED])
    report.write(tmp_path)
    text = (tmp_path / "phone_report.md").read_text()
    assert "| variant | MB | of float32 | 1 image, 1 thread | 1 image, 2 threads |" in (
        text
    )
    assert "| `int8` | 1.0 | – | 3.00 | 2.00 |" in text
    assert tf.io.decode_png((tmp_path / "phone_report.png").read_bytes()).shape[0] > 100
    assert report.scores() == {}
    assert report.summary() == (
        "int8 1.0 MB, 2.0 ms for 1 image; all 1 comparisons with Keras passed"
    )


def test_a_loss_is_in_points_or_a_share_of_perplexity():
    variants = {"int8": measured(0.75), "float16": measured()}
    report = Report("x", "tokens", variants, "accuracy", 0.8, [])
    assert report.loss_of("int8") == pytest.approx(0.05)
    assert report.loss_of("float16") is None
    assert report.scores() == {"accuracy": {"keras": 0.8, "int8": 0.75}}
    lines = report.as_markdown().splitlines()
    assert "| `int8` | 1.0 | – | 3.00 | 2.00 | 0.7500 | 5.00 points |" in lines
    assert "| `float16` | 1.0 | – | 3.00 | 2.00 | – | – |" in lines
    report = Report("x", "tokens", {"int8": measured(11.0)}, "perplexity", 10.0, [])
    assert report.loss_of("int8") == pytest.approx(0.1)


def test_the_command_finds_it_made(phone, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "transbeam.serving.export.atomic_publish.load_trained", None
    )  # is called first
    config = invocation_of(phone.run, **KEYS).config
    file = tmp_path / "tiny.yaml"
    file.write_text(dump_run(config))
    before = contents(phone.folder)
    arguments = ["export", str(file), "--run", str(phone.run), "--target", "phone"]
    assert main([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads(json.dumps(phone.result)) | {"skipped": True}
    assert contents(phone.folder) == before


def test_files_from_a_text_answer_as_the_plain_ones(phone, trained):
    encode = make_signature_task(trained).endpoints()["tokenize"].function
    texts = ["returns a list", "", "The NAME, of a tensor!", "a list " * 40]
    for variant in VARIANTS:
        file = str(phone.folder / f"text_{variant}.tflite")
        interpreter = InterpreterWithCustomOps(
            custom_op_registerers=tflite_registrar.SELECT_TFTEXT_OPS, model_path=file
        )
        assert interpreter.get_signature_list() == {
            "embed_text": {"inputs": ["text"], "outputs": ["embedding"]}
        }
        runner = interpreter.get_signature_runner("embed_text")
        plain = TFLiteRunner(phone.folder / f"model_{variant}.tflite", resized=False)
        vectors, answers = [], []
        for text in texts:
            found = runner(text=np.array([text.encode()], object))["embedding"][0]
            row = encode(tf.constant([text]))
            ids = row["token_ids"].numpy()[0, : row["length"].numpy()[0]]
            mask = np.ones_like(ids)
            expected = plain.ask("embed", token_ids=ids, padding_mask=mask)["embedding"]
            answers.append(expected)
            vectors.append(found)
        assert np.ptp(answers, axis=0).max() > 0.1  # the texts are told apart
        off = np.subtract(vectors, answers)
        if variant == "float32":
            assert np.abs(off).max() < 5e-6
        else:  # what flows is rounded, by kernels of another kind
            assert rms(off) < 0.05 * rms(answers)


def rms(values):
    return np.sqrt(np.mean(np.square(values)))


def test_files_from_a_text_have_the_weights_of_the_plain_ones(phone, trained):
    table = trained.model.get_layer("token_embedding").embeddings.shape
    for variant, width in (("float32", 4), ("dynamic_int8", 1)):
        plain, text = (
            {
                buffer.data.tobytes()
                for buffer in unpacked((phone.folder / name).read_bytes()).buffers
                if buffer.data is not None and len(buffer.data) >= width * 32 * 32
            }
            for name in (f"model_{variant}.tflite", f"text_{variant}.tflite")
        )
        shared = plain & text
        assert width * table[0] * table[1] in map(len, shared)
        assert len(shared) > 10


def test_a_changed_key_moves_the_folder_aside(run):
    before = contents(run / "phone")
    result = export_for_phones(invocation_of(run, **KEYS | {"tflite_text": False}))
    (aside,) = (run / "superseded").iterdir()
    assert aside.name.startswith("phone-")
    assert contents(aside) == before
    assert "skipped" not in result
    assert result["scores"] == {}
    assert result["parity"] == [PASSED.as_json()]
    assert not list((run / "phone").glob("text_*"))
    assert (run / "phone/README.md").is_file()
    assert contents(run / "export") == {
        "saved_model/what is served": hashlib.sha256(b"before").hexdigest()
    }


@pytest.mark.parametrize(
    "name", ["model_float32.tflite", "README.md", "text_float32.tflite"]
)
def test_a_folder_that_lost_a_file_is_made_again(run, monkeypatch, name):
    (run / "phone" / name).unlink()
    again = {}
    monkeypatch.setattr(
        "transbeam.serving.phone.export_stage._write_optional_files",
        lambda *_: again.setdefault("made", []),
    )
    export_for_phones(invocation_of(run, **KEYS))
    assert again
    assert (run / "phone/README.md").is_file()
    assert not (run / "superseded").exists()


def test_a_failed_gate_publishes_nothing(run, monkeypatch):
    for real in (make_parity_checker, check_phone_files):
        monkeypatch.setattr(
            f"transbeam.serving.phone.export_stage.{real.__name__}", real
        )
    before = contents(run / "phone")
    tolerance = replace(TINY.export.tolerance, dynamic_int8=0.0)
    keys = KEYS | {"tolerance": tolerance, "tflite_text": False}
    with pytest.raises(ArtifactError) as caught:
        export_for_phones(invocation_of(run, **keys))
    message = str(caught.value)
    assert "TFLite dynamic_int8, XNNPACK, filled up: log-probability, RMS" in message
    assert "TFLite float32" not in message
    assert contents(run / "phone") == before
    assert not (run / "superseded").exists()
    assert not list(run.glob(".phone*"))


def test_a_file_that_loses_too_much_is_not_published(run, monkeypatch):
    """By the measure of the task alone."""
    lost = ParityCheck("TFLite float32", "accuracy lost", 0.05, 0.02, False)
    metric = SimpleNamespace(
        name="accuracy", of_keras=0.9, measured=lambda model: (0.85, lambda form: lost)
    )
    monkeypatch.setattr(
        "transbeam.serving.phone.export_stage.make_task_metric", lambda *_: metric
    )
    shutil.rmtree(run / "phone")
    keys = KEYS | {"tflite_text": False}
    with pytest.raises(ArtifactError, match=r"accuracy lost: 0\.05, allowed 0\.02"):
        export_for_phones(invocation_of(run, **keys))
    assert not (run / "phone").exists()


def test_without_a_variant_there_is_nothing_to_make(run):
    with pytest.raises(ConfigError, match=r"export\.tflite is empty.*dynamic_int8"):
        export_for_phones(invocation_of(run, tflite=()))


def test_a_message_names_the_whole_command(run):
    (run / "phone/stage.json").write_text("{")
    with pytest.raises(ArtifactError, match=r"transbeam export .* --target phone"):
        export_for_phones(invocation_of(run, **KEYS))


def test_a_tokenizer_that_was_brought_along_and_is_no_wordpiece(tmp_path):
    assert text_signature(untrained("classifier_small", tmp_path)) == "classify_ids"
    assert text_signature(untrained("masked", tmp_path)) == "embed"
    trained = untrained("roberta_base", tmp_path)
    with pytest.raises(ConfigError, match=r"tokenizer\.kind=byte_bpe has no ops"):
        text_signature(trained)
    tokenizer = PretrainedConfig(path="there")
    trained = replace(trained, config=replace(trained.config, tokenizer=tokenizer))
    with pytest.raises(ConfigError, match=r"tokenizer\.path names has no ops"):
        text_signature(trained)


@pytest.fixture
def refused(run_folder, tmp_path, capsys):
    """Asks for files by the command, in vain: what it says."""

    def refused(config, spoil=lambda folder: None):
        folder = tmp_path / "tiny"
        shutil.copytree(run_folder, folder, ignore=shutil.ignore_patterns("export"))
        spoil(folder)
        before = contents(folder)
        file = tmp_path / "tiny.yaml"
        file.write_text(dump_run(config))
        arguments = ["export", str(file), "--run", str(folder), "--target", "phone"]
        assert main(arguments) == 2
        left = contents(folder)
        assert {name: left.pop(name) for name in before} == before
        assert all(name.startswith(".lock") for name in left), left
        told = capsys.readouterr().err
        assert "error: " in told
        assert "Traceback" not in told
        return told

    return refused


def with_keys(**keys):
    return replace(TINY, export=replace(TINY.export, **keys))


def few_records(folder):
    """Leaves five to calibrate on."""
    (file,) = folder.glob("data/records/train-*")
    kept = list(tf.data.TFRecordDataset(str(file)).take(5).as_numpy_iterator())
    file.unlink()
    with tf.io.TFRecordWriter(str(file)) as writer:
        for record in kept:
            writer.write(record)


def test_too_little_to_calibrate_on(refused, monkeypatch):
    # It is converted before.
    monkeypatch.setattr(
        "transbeam.serving.phone.conversion.tflite_converter.convert",
        lambda *_, **__: b"",
    )
    told = refused(with_keys(tflite=("float32", "int8")), few_records)
    assert "the training split has 15 to calibrate int8 on; expected 16" in told
    assert "or leave int8 out of export.tflite" in told


@pytest.fixture
def without_plain_files(monkeypatch):
    """They are made before those that are refused."""
    monkeypatch.setattr(
        "transbeam.serving.phone.export_stage.write_tflite", lambda *_: {}
    )


@pytest.mark.usefixtures("without_plain_files")
def test_a_text_that_mediapipe_reads_otherwise(refused):
    keys = {"mediapipe": True, "examples": ("[MASK] né",), "tflite": ("float32",)}
    told = refused(with_keys(**keys))
    assert "export.examples: MediaPipe reads '[MASK] né' as" in told
    assert "`tokenizer.strip_accents: false`" in told


@pytest.mark.usefixtures("without_plain_files")
def test_no_wordpiece_is_put_into_a_file(refused, tmp_path):
    """Of a tokenizer that was brought along, which no configuration tells."""
    tokenizer = ByteBPEConfig(vocabulary_size=300, specials="roberta")
    made = make_run(tmp_path / "made", replace(TINY, tokenizer=tokenizer))

    def spoil(folder):
        shutil.rmtree(folder)
        shutil.copytree(made, folder)

    config = with_keys(tflite=("float32",), tflite_text=True)
    path = str(made / "data/tokenizer")
    told = refused(replace(config, tokenizer=PretrainedConfig(path=path)), spoil)
    assert "the tokenizer that tokenizer.path names has no ops that TFLite" in told
    assert "expected a WordPiece. Remove the key: the tokenizer in Kotlin" in told


def test_the_help_tells_of_both_targets(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["export", "--help"])
    assert caught.value.code == 0
    told = capsys.readouterr().out
    assert "--target {all,phone}" in told
    assert "what to export; `all` by default" in told
    assert "transbeam export CONFIG --target phone   RUN/phone:" in told


@pytest.mark.parametrize("target", ["watch", "phon", ""])
def test_an_unknown_target(target, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["export", "tiny.yaml", "--target", target])
    assert caught.value.code == 2
    told = capsys.readouterr().err
    assert f"argument --target: invalid choice: {target!r}" in told
    assert "all" in told
