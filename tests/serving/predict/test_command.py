"""`transbeam predict`, on the exported SavedModel."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.serving.conftest import TINY, invocation_of
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.base.saved_models import find_version
from transbeam.configs.loader.yaml_dump import dump_run
from transbeam.serving.__main__ import main
from transbeam.serving.client.saved_model_client import LocalClient
from transbeam.serving.export.saved_model_writer import write_endpoints
from transbeam.serving.predict.formatting.masked import fill
from transbeam.serving.predict.prediction import describe, predict
from transbeam.serving.server.background_server import in_background
from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.models.catalog import ModelSettings


def test_guesses_are_those_of_the_signature(client, ask):
    texts = ["the [MASK] of the [MASK]", "a [MASK]"]
    answers = ask("serving_default", texts)
    found = predict(client, texts)
    for row, prediction in enumerate(found):
        assert prediction["text"] == texts[row]
        assert not prediction["truncated"]
        for mask, guesses in enumerate(prediction["masks"]):
            assert guesses == [
                {"piece": piece.decode(), "score": float(score)}
                for piece, score in zip(
                    answers["fills"][row, mask],
                    answers["scores"][row, mask],
                    strict=True,
                )
            ]
        best = [guesses[0]["piece"] for guesses in prediction["masks"]]
        assert prediction["filled"] == fill(texts[row], best)
    assert [len(prediction["masks"]) for prediction in found] == [2, 1]


def test_masks_filled_together_in_iterations(client):
    (prediction,) = predict(client, ["the [MASK] [MASK] of it"], iterations=2)
    answer = client.ask(
        "refine",
        {"text": ["the [MASK] [MASK] of it"], "iterations": np.array([2], np.int32)},
    )
    pieces = [piece.decode() for (piece,) in answer["fills"][0]]
    assert [guess["piece"] for (guess,) in prediction["masks"]] == pieces
    assert prediction["filled"] == fill("the [MASK] [MASK] of it", pieces)


def test_iterations_that_are_none(client):
    with pytest.raises(ConfigError, match="--iterations 0: expected a number from 1"):
        predict(client, ["[MASK]"], iterations=0)


def test_a_mask_that_was_cut_off_stays(client):
    (prediction,) = predict(client, ["[MASK] " + "a " * 99 + "[MASK]"])
    assert prediction["truncated"]
    assert len(prediction["masks"]) == 1
    assert prediction["filled"].endswith("a [MASK]")
    assert "truncated" in describe(prediction)


@pytest.mark.parametrize(
    ("text", "pieces", "filled"),
    [
        ("[MASK]", ["a"], "a"),
        ("[MASK] b [MASK].", ["a", "c"], "a b c."),
        ("ten [MASK] [MASK].", ["##s", "##or"], "tensor."),
        ("no end [MASK] [MASK]", ["x"], "no end x [MASK]"),
        ("[MASK][MASK]", [], "[MASK][MASK]"),
    ],
)
def test_fill(text, pieces, filled):
    assert fill(text, pieces) == filled


def test_describe():
    guesses = [{"piece": "list", "score": 0.412}, {"piece": "a", "score": 0.09}]
    prediction = {
        "text": "the [MASK]",
        "masks": [guesses],
        "filled": "the list",
        "truncated": False,
    }
    assert describe(prediction).splitlines() == [
        "the [MASK]",
        "  [MASK] 1   list   41.2%",
        "             a       9.0%",
        "  → the list",
    ]


def test_the_highest_version_is_taken(tmp_path):
    for name in ("2", "10", "9x", "11"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").touch()
    (tmp_path / "11/saved_model.pb").unlink()  # not a SavedModel yet
    assert find_version(tmp_path) == tmp_path / "10"
    assert find_version(tmp_path / "2") == tmp_path / "2"


def test_no_saved_model(tmp_path):
    with pytest.raises(ArtifactError, match="holds no SavedModel"):
        predict(LocalClient(tmp_path), ["[MASK]"])
    with pytest.raises(ArtifactError, match="there is no such folder"):
        predict(LocalClient(tmp_path / "x"), ["[MASK]"])
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff")
    with pytest.raises(ArtifactError, match="cannot be loaded as a SavedModel"):
        predict(LocalClient(tmp_path), ["[MASK]"])


def test_a_saved_model_of_something_else(tmp_path):
    spec = tf.TensorSpec([None], tf.float32, name="x")
    endpoint = (lambda x: {"y": x + 1}, [spec])
    write_endpoints(tmp_path, {"serving_default": endpoint})
    with pytest.raises(ArtifactError, match=r"takes \['x'\] and gives \['y'\]"):
        predict(LocalClient(tmp_path), ["[MASK]"])


def test_texts_to_fill_are_needed(client):
    with pytest.raises(ConfigError, match=r"'plain': there is no \[MASK\] to fill"):
        predict(client, ["a [MASK]", "plain"])
    with pytest.raises(ConfigError, match="give --text"):
        predict(client, [])


@pytest.fixture
def command(run_folder, tmp_path):
    config = tmp_path / "tiny.yaml"
    config.write_text(dump_run(TINY))
    return ["predict", str(config), "--run", str(run_folder)]


@pytest.fixture
def loaded(client, monkeypatch):
    """A client that is already loaded; other tests show that a command loads it."""
    monkeypatch.setattr(
        "transbeam.serving.predict.command.local_client", lambda model: client
    )


def test_command_tries_the_examples(loaded, command, capsys):
    assert main(command) == 0
    printed = capsys.readouterr().out
    for text in TINY.export.examples:
        assert text in printed
    assert printed.count("→") == 2


def test_command_in_json(exported, client, command, capsys):
    text = "the [MASK] list"
    assert main([*command, "--text", text, "--json"]) == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert result["model"] == str(exported.folder / "saved_model")
    assert result["predictions"] == predict(client, [text])
    assert text in printed.err


def test_command_on_another_model(exported, command, capsys):
    assert main([*command, "--model", str(exported.saved_model)]) == 0
    assert "→" in capsys.readouterr().out
    assert main([*command, "--model", "nowhere"]) == 2
    assert "nowhere: there is no such folder" in capsys.readouterr().err


def test_command_before_any_export(command, tmp_path, capsys):
    command[-1] = str(tmp_path / "new")
    assert main(command) == 2
    told = capsys.readouterr().err
    assert "there is no such folder" in told
    assert "transbeam export" in told


def test_command_refuses_a_text_without_a_mask(loaded, command, capsys):
    assert main([*command, "--text", "plain"]) == 2
    assert "'plain': there is no [MASK] to fill" in capsys.readouterr().err


def test_the_command_line_is_read_without_tensorflow():
    code = (
        "import sys, transbeam.serving.__main__ as command\n"
        "try: command.main(['predict', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'tensorflow', 'keras', 'numpy', 'h5py'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--text TEXT" in done.stdout


def test_a_run_ends_with_its_examples(loaded, run_folder):
    from transbeam.serving.__main__ import predict as predict_stage

    result = predict_stage(invocation_of(run_folder))
    texts = [prediction["text"] for prediction in result["predictions"]]
    assert texts == list(TINY.export.examples)


@pytest.fixture(scope="module")
def server(exported):
    folder = exported.saved_model.parent
    settings = ServerSettings(
        models=(ModelSettings("tiny", folder),), port=0, rest_port=0
    )
    with in_background(settings) as addresses:
        yield addresses


TEXT = "the [MASK] of a list"


@pytest.mark.parametrize("door", ["rest", "grpc"])
def test_a_server_is_asked_as_the_folder_is(client, server, capsys, door):
    address = server.rest if door == "rest" else f"grpc://{server.grpc}"
    asked = ["predict", "--server", address, "--name", "tiny", "--text", TEXT]
    assert main([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["server"], found["model"]) == (address, "tiny")
    [expected] = predict(client, [TEXT])
    [prediction] = found["predictions"]
    assert prediction["filled"] == expected["filled"]
    pairs = zip(prediction["masks"][0], expected["masks"][0], strict=True)
    for one, other in pairs:
        assert one["piece"] == other["piece"]
        assert one["score"] == pytest.approx(other["score"], rel=1e-5)


def test_over_rest_no_tensorflow_is_needed(server):
    program = (
        "import sys; from transbeam.serving.__main__ import main; "
        "code = main(sys.argv[1:]); "
        "assert 'tensorflow' not in sys.modules; sys.exit(code)"
    )
    asked = ["predict", "--server", server.rest, "--name", "tiny", "--text", TEXT]
    done = subprocess.run(
        [sys.executable, "-c", program, *asked], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert TEXT in done.stdout


def test_files_in_and_out(client, server, tmp_path, capsys):
    texts = [f"{'a ' * (n % 20)}[MASK] of a list" for n in range(100)]
    given = tmp_path / "texts.jsonl"
    given.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    output = tmp_path / "answers.jsonl"
    files = ["--input", str(given), "--output", str(output)]
    assert main(["predict", "--server", server.rest, "--name", "tiny", *files]) == 0
    found = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    assert [one["text"] for one in found] == texts
    expected = predict(client, texts)
    assert [one["filled"] for one in found] == [one["filled"] for one in expected]
    assert f"100 predictions in {output}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"text": "a [MASK]"}\n{"txt": "b"}\n', 'texts.jsonl:2: \'{"txt": "b"}\''),
        ('{"text": "a [MASK]"}\n\nnonsense\n', "texts.jsonl:3: not JSON"),
        ('{"text": "a", "second_text": 3}\n', "texts.jsonl:1: "),
        ("\n", "there is no text in it"),
        ('{"text": "plain"}\n', "plain"),
    ],
)
def test_files_that_cannot_be_asked_about(
    exported, loaded, tmp_path, capsys, lines, message
):
    given = tmp_path / "texts.jsonl"
    given.write_text(lines)
    output = tmp_path / "answers.jsonl"
    command = ["predict", "--model", str(exported.saved_model)]
    files = ["--input", str(given), "--output", str(output)]
    assert main([*command, *files]) == 2
    assert message in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no model is given: give CONFIG, --model DIR or --server URL"),
        (["--server", "http://x"], "give the model's name at the server with --name"),
        (["--server", "x", "--name", "m", "--text", "a"], "'x' is not the address"),
        (["--model", "x", "--server", "http://x"], "give one of --model and --server"),
        (["--model", "x", "--input", "f"], "go together"),
        (["--model", "x", "--input", "f", "--output", "g", "--text", "a"], "give one"),
    ],
)
def test_commands_that_make_no_sense(capsys, arguments, message):
    assert main(["predict", *arguments]) == 2
    assert message in capsys.readouterr().err
