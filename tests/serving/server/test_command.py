"""`transbeam serve` as a process: what it says, how it stops, and what it refuses."""

import argparse
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from serving.server.command import add_serve_arguments
from tests.serving.server.conftest import NAME

A_WHILE = 300_000  # turns, about a second


@contextmanager
def started(*arguments):
    """A process that serves, and the address of its REST API."""
    command = [sys.executable, "-m", "serving", "serve", "--json", *arguments]
    ports = ["--port", "0", "--rest-port", "0"]
    with subprocess.Popen(
        [*command, *ports],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            said = ""
            while not said.endswith("}\n"):
                line = process.stdout.readline()
                assert line, process.stderr.read()
                said += line
            yield process, json.loads(said)["rest"]
        finally:
            process.kill()


def ask(address, body):
    url = f"{address}/v1/models/{NAME}:predict"
    request = urllib.request.Request(url, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_answers_what_it_began(half_plus_two, number):
    with started("--model", str(half_plus_two)) as (process, address):
        assert ask(address, {"instances": [1.0]}) == {"predictions": [2.5]}
        answers = []
        body = {"signature_name": "slow", "instances": [A_WHILE]}
        asking = threading.Thread(target=lambda: answers.append(ask(address, body)))
        asking.start()
        metrics = f"{address}/monitoring/prometheus/metrics"
        under_way = b"\ntransbeam_requests_in_flight 1.0"
        while under_way not in urllib.request.urlopen(metrics, timeout=10).read():
            assert asking.is_alive()
            time.sleep(0.01)
        process.send_signal(number)
        asking.join(60)
        assert answers == [{"predictions": [A_WHILE]}]
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "All requests are answered. Stopped." in told
    with pytest.raises(urllib.error.URLError):
        ask(address, {"instances": [1.0]})


def test_killed_under_load_it_begins_again(half_plus_two):
    for _ in range(2):
        with started("--model", str(half_plus_two)) as (process, address):
            stop = threading.Event()

            def load(address=address, stop=stop):
                while not stop.is_set():
                    try:
                        assert ask(address, {"instances": [1.0]}) == ANSWER
                    except OSError:
                        return

            threads = [threading.Thread(target=load) for _ in range(4)]
            for thread in threads:
                thread.start()
            assert ask(address, {"instances": [1.0]}) == ANSWER
            process.kill()
            process.wait(60)
            stop.set()
            for thread in threads:
                thread.join(60)


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
    from serving.__main__ import main

    given = [argument.format(folder=half_plus_two) for argument in arguments]
    assert main(["serve", "--port", "0", "--rest-port", "0", *given]) == 2
    told = capsys.readouterr().err
    assert told.splitlines()[-1].startswith("error: ")
    assert message in told
    assert "Traceback" not in told


@pytest.mark.parametrize("share", ["2", "-0.1", "nan", "some", ""])
def test_a_share_that_is_none(capsys, share):
    from serving.__main__ import main

    arguments = ["serve", "--model", "x", "--log-requests", "x", "--log-sample", share]
    with pytest.raises(SystemExit):
        main(arguments)
    assert f"{share!r} is not a share: 0 to 1" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["-1", "0.5", "often", ""])
def test_a_wait_that_is_none(capsys, seconds):
    from serving.__main__ import main

    with pytest.raises(SystemExit):
        main(["serve", f"--model-config-file-poll-wait-seconds={seconds}"])
    assert f"{seconds!r} is no time: 0 s or more" in capsys.readouterr().err


def test_a_port_that_is_taken(half_plus_two, capsys):
    from serving.__main__ import main

    with started("--model", str(half_plus_two)) as (_, address):
        port = address.rpartition(":")[2]
        command = ["serve", "--model", str(half_plus_two), "--port", "0"]
        assert main([*command, "--rest-port", port]) == 2
        told = capsys.readouterr().err
        assert f"cannot listen on 127.0.0.1:{port}" in told
        assert "--rest-port" in told
        assert main([*command[:-1], port, "--rest-port", "0"]) == 2
        assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


def test_one_version_alone(half_plus_two):
    with started("--model", str(half_plus_two / "123")) as (_, address):
        assert ask(address, {"instances": [1.0]}) == ANSWER


def test_several_models_by_their_configuration(half_plus_two, tmp_path):
    file = tmp_path / "model.config"
    models = "".join(
        f'config {{ name: "{name}" base_path: "{half_plus_two}" }}\n'
        for name in (NAME, "other")
    )
    file.write_text(f"model_config_list {{\n{models}}}\n")
    batching = tmp_path / "batching.txt"
    batching.write_text("max_batch_size { value: 8 }\n")
    arguments = ["--model-config-file", str(file)]
    arguments += ["--batching-parameters-file", str(batching)]
    with started(*arguments) as (_, address):
        assert ask(address, {"instances": [1.0]}) == ANSWER
        other = f"{address}/v1/models/other"
        assert urllib.request.urlopen(other, timeout=10).status == 200


def test_what_the_configuration_of_models_may_do(half_plus_two, tmp_path):
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
    with started(*arguments) as (process, address):
        # The version brings no parameters along, so nobody fills its batches up to 4.
        body = {"signature_name": "rows", "instances": ["a"]}
        [row] = ask(address, body)["predictions"]
        assert row["rows"] == 1
        file.unlink()
        said = ""
        while "All models stay as they are" not in said:
            said = process.stderr.readline()
            assert said
        assert str(file) in said
        assert ask(address, {"instances": [1.0]}) == ANSWER


def test_it_listens_on_this_machine_alone_unless_told_otherwise():
    parser = argparse.ArgumentParser()
    add_serve_arguments(parser)
    assert parser.parse_args([]).host == "127.0.0.1"


def test_it_writes_nothing_down_unless_told_otherwise():
    parser = argparse.ArgumentParser()
    add_serve_arguments(parser)
    assert parser.parse_args([]).log_requests is None
    assert "what people send is private" in " ".join(parser.format_help().split())
