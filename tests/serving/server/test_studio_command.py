"""`transbeam studio` and `transbeam serve --studio`."""

import json
import signal
import subprocess
import sys
import urllib.request

import pytest

from tests.serving.conftest import TINY, make_run
from transbeam.serving.__main__ import main


def test_the_page_is_served_until_it_is_stopped(tmp_path):
    run = make_run(tmp_path / "run", TINY)
    command = [sys.executable, "-m", "transbeam.serving", "studio", str(run)]
    with subprocess.Popen(
        [*command, "--port", "0", "--json"],
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
            page = json.loads(said)["page"]
            with urllib.request.urlopen(page, timeout=60) as answer:
                assert b"Transbeam Studio" in answer.read()
            with urllib.request.urlopen(f"{page}api/runs", timeout=60) as answer:
                assert [r["name"] for r in json.loads(answer.read())["runs"]] == ["run"]
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    assert f"Open {page} in a browser" in said


@pytest.fixture
def process_as_it_was(monkeypatch):
    """Settings of the process are the command's alone, not those of the tests."""
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: None)


@pytest.mark.usefixtures("process_as_it_was")
@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["studio", "nowhere", "--port", "0"], "nowhere: there is no such folder"),
        (["studio", "--port", "0"], "no trained run"),
        (["studio", "--key", "key.pem"], "--certificate FILE and --key FILE"),
        (["serve", "--model", "nowhere", "--studio"], "--studio shows the run of CONF"),
    ],
)
def test_mistakes(argv, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if "--key" in argv:
        (tmp_path / "key.pem").touch()
    assert main(argv) == 2
    assert words in capsys.readouterr().err


@pytest.mark.usefixtures("process_as_it_was")
def test_an_untrained_run_is_named(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    assert main(["studio", str(tmp_path / "run"), "--port", "0"]) == 2
    error = capsys.readouterr().err
    assert "transbeam train" in error
    assert "Traceback" not in error
