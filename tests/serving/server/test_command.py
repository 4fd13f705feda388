"""`transbeam serve`: what it says, how it stops, and what it refuses."""

import argparse
import json
import signal
import threading
import urllib.error
import urllib.request

import pytest

from tests.serving.server.conftest import NAME
from tests.serving.server.sample_models.half_plus_two_model import Held, save_half_plus
from tests.serving.server.server_process import commanded, started
from tests.serving.server.test_fault_tolerance import until
from transbeam.configs.cli.argument_parser import parse
from transbeam.serving.__main__ import main
from transbeam.serving.server.arguments import ServeArguments


def ask(address, body):
    url = f"{address}/v1/models/{NAME}:predict"
    request = urllib.request.Request(url, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def listens(address):
    try:
        return urllib.request.urlopen(f"{address}/livez", timeout=60).status == 200
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_answers_what_it_began(half_plus_two, tmp_path, number):
    with started("--model", str(half_plus_two)) as (process, address):
        assert ask(address, {"instances": [1.0]}) == {"predictions": [2.5]}
        question, answers = Held(tmp_path / "question"), []
        asking = threading.Thread(
            target=lambda: answers.append(ask(address, question.body))
        )
        asking.start()
        until(lambda: question.is_run)
        process.send_signal(number)
        until(lambda: not listens(address))
        assert process.poll() is None
        question.let()
        asking.join(60)
        assert answers == [question.answer]
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Stopped after all requests were answered." in told
    with pytest.raises(urllib.error.URLError):
        ask(address, {"instances": [1.0]})


ANSWER = {"predictions": [2.5]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give one of CONFIG, --model DIR and --model-config-file FILE"),
        (["--model", "{folder}", "--model-config-file", "x"], "give one of CONFIG"),
        (["--model", "{folder}/.."], "there is no version folder, such as 1"),
        (["--model", "{folder}", "--name", "../x"], "'../x' is not a name for a model"),
        (["--model", "{folder}", "--key", "k.pem"], "TLS needs both --certificate"),
        (["--model", "{folder}", "--token-file", "none"], "none: cannot be read"),
        (["--model-config-file", "none"], "none: cannot be read"),
        (["--model", "{folder}", "--host", "203.0.113.1"], "cannot listen on 203.0"),
        (["--model", "{folder}", "--log-sample", "1"], "needs --log-requests FOLDER"),
        (
            ["--model", "{folder}", "--model-config-file-poll-wait-seconds", "1"],
            "--model-config-file-poll-wait-seconds SECONDS needs --model-config-file",
        ),
        (
            [
                "--model={folder}",
                "--no-batching",
                "--enable-per-model-batching-parameters",
            ],
            "--enable-per-model-batching-parameters does nothing with --no-batching",
        ),
        (
            ["--model={folder}", "--no-batching", "--batching-parameters-file", "x"],
            "--batching-parameters-file does nothing with --no-batching; give one of",
        ),
        (
            ["--model", "{folder}", "--log-requests", "{folder}/123/saved_model.pb"],
            "saved_model.pb: cannot be written: a file is in the way",
        ),
    ],
)
def test_what_cannot_be_served(half_plus_two, capsys, arguments, message):
    given = [argument.format(folder=half_plus_two) for argument in arguments]
    assert main(["serve", "--port", "0", "--rest-port", "0", *given]) == 2
    told = capsys.readouterr().err
    assert told.splitlines()[-1].startswith("error: ")
    assert message in told
    assert "Traceback" not in told


@pytest.mark.parametrize("share", ["2", "-0.1", "nan", "some", ""])
def test_a_share_that_is_none(capsys, share):
    arguments = ["serve", "--model", "x", "--log-requests", "x", "--log-sample", share]
    with pytest.raises(SystemExit):
        main(arguments)
    assert f"{share!r} is not a share: 0 to 1" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["-1", "0.5", "often", ""])
def test_a_wait_that_is_none(capsys, seconds):
    with pytest.raises(SystemExit):
        main(["serve", f"--model-config-file-poll-wait-seconds={seconds}"])
    assert f"{seconds!r} is no time: 0 s or more" in capsys.readouterr().err


def test_a_port_that_is_taken(server, half_plus_two, capsys):
    command = ["serve", "--model", str(half_plus_two)]
    port = server.addresses.rest.rpartition(":")[2]
    assert main([*command, "--port", "0", "--rest-port", port]) == 2
    told = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1:{port}" in told
    assert "--rest-port" in told
    port = server.addresses.grpc.rpartition(":")[2]
    for taken in (port, server.addresses.rest.rpartition(":")[2]):
        assert main([*command, "--port", taken, "--rest-port", "0"]) == 2
        assert f"cannot listen on 127.0.0.1:{taken}" in capsys.readouterr().err


def test_a_dry_run_tells_what_would_answer(half_plus_two, capsys):
    assert main(["serve", "--model", str(half_plus_two), "--dry-run"]) == 0
    assert f"{NAME}: version 123 is ready to serve" in capsys.readouterr().out


def test_a_dry_run_fails_for_one_version_that_would_not(tmp_path, capsys):
    for number in (1, 2):
        save_half_plus(tmp_path / NAME / str(number))
    (tmp_path / NAME / "2/saved_model.pb").write_bytes(b"no graph")
    (tmp_path / "model.config").write_text(
        f'model_config_list {{ config {{ name: "{NAME}" base_path: "{tmp_path / NAME}" '
        "model_version_policy { all {} } } }"
    )
    file = str(tmp_path / "model.config")
    assert main(["serve", "--model-config-file", file, "--dry-run"]) == 2
    assert f"{NAME}: version 2: " in capsys.readouterr().err


def test_a_model_may_have_a_time_of_its_own(half_plus_two, tmp_path):
    question = Held(tmp_path / "question")
    arguments = ["--model", str(half_plus_two), "--model-timeout", f"{NAME}=1"]
    with commanded(*arguments, "--quiet") as addresses:
        with pytest.raises(urllib.error.HTTPError) as error:
            ask(addresses.rest, question.body)
        assert error.value.code == 504
        assert "no answer within 1 s" in error.value.read().decode()


@pytest.mark.parametrize("given", ["5", "=5", "a=", "a=0", "a=x"])
def test_a_time_of_a_model_that_is_none(half_plus_two, capsys, given):
    arguments = ["serve", "--model", str(half_plus_two), "--model-timeout", given]
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "expected NAME=SECONDS" in capsys.readouterr().err


def test_one_version_alone(tmp_path, capsys):
    folder = tmp_path / NAME
    save_half_plus(folder / "123")
    save_half_plus(folder / "124", 3.0)
    with commanded("--model", str(folder / "123")) as addresses:
        assert ask(addresses.rest, {"instances": [1.0]}) == ANSWER
    told = capsys.readouterr().out
    assert f"REST  {addresses.rest}/v1/models/{NAME}\n" in told
    assert f"gRPC  {addresses.grpc}\n" in told
    assert told.endswith("Stopped after all requests were answered.\n")


def test_several_models_by_their_configuration(half_plus_two, tmp_path, capsys):
    file = tmp_path / "model.config"
    models = "".join(
        f'config {{ name: "{name}" base_path: "{half_plus_two}" }}\n'
        for name in (NAME, "other")
    )
    file.write_text(f"model_config_list {{\n{models}}}\n")
    batching = tmp_path / "batching.txt"
    batching.write_text("max_batch_size { value: 8 } allowed_batch_sizes: 8")
    arguments = ["--model-config-file", str(file), "--json"]
    arguments += ["--batching-parameters-file", str(batching)]
    with commanded(*arguments) as addresses:
        body = {"signature_name": "rows", "instances": ["a"]}
        answer = {"predictions": [{"length": 1, "rows": 8}]}
        assert ask(addresses.rest, body) == answer
        other = f"{addresses.rest}/v1/models/other"
        assert urllib.request.urlopen(other, timeout=10).status == 200
    told = json.loads(capsys.readouterr().out)
    assert told == {"rest": addresses.rest, "grpc": addresses.grpc}


def test_what_the_configuration_of_models_may_do(half_plus_two, tmp_path, capsys):
    """Each flag does its work in the process, and the server says what it waits for."""
    config = f'name: "{NAME}" base_path: "{half_plus_two}"'
    file = tmp_path / "model.config"
    label = "version_labels { key: 'next' value: 124 }"
    file.write_text(f"model_config_list {{ config {{ {config} {label} }} }}")
    arguments = ["--model-config-file", str(file)]
    arguments += ["--model-config-file-poll-wait-seconds", "1"]
    arguments += ["--allow-version-labels-for-unavailable-models"]
    arguments += ["--enable-per-model-batching-parameters"]
    batching = tmp_path / "batching.txt"
    batching.write_text("max_batch_size: 4 allowed_batch_sizes: 4")
    arguments += ["--batching-parameters-file", str(batching)]
    said = ""

    def says(text):
        nonlocal said
        said += capsys.readouterr().err
        return text in said

    with commanded(*arguments) as addresses:
        # The version brings no parameters along, so nobody fills its batches up to 4.
        body = {"signature_name": "rows", "instances": ["a"]}
        [row] = ask(addresses.rest, body)["predictions"]
        assert row["rows"] == 1
        file.unlink()
        until(lambda: says("All models stay as they are"))
        assert str(file) in said
        assert ask(addresses.rest, {"instances": [1.0]}) == ANSWER


def test_it_listens_on_this_machine_alone_unless_told_otherwise():
    assert parse(argparse.ArgumentParser(), ServeArguments, []).host == "127.0.0.1"


def test_it_writes_nothing_down_unless_told_otherwise():
    parser = argparse.ArgumentParser()
    assert parse(parser, ServeArguments, []).log_requests is None
    assert "what clients send is private" in " ".join(parser.format_help().split())
