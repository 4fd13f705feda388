"""The stock server is asked where there is one; one that does not work is told of."""

import sys

import pytest

from tests.serving.server.sample_models.half_plus_two_model import save_half_plus
from transbeam.configs.base.errors import ArtifactError
from transbeam.serving.parity.server_clients import our_server, stock_server

# Takes the flags of the stock server, and is ours.
STAND_IN = """\
#!{python}
import sys
from transbeam.serving.__main__ import main

flags = dict(flag.removeprefix("--").split("=") for flag in sys.argv[1:])
sys.exit(main([
    "serve", "--model", flags["model_base_path"], "--name", flags["model_name"],
    "--port", flags["port"], "--rest-port", flags["rest_api_port"],
]))
"""


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    return save_half_plus(tmp_path_factory.mktemp("model") / "7")


def binary(folder, text):
    file = folder / "tensorflow_model_server"
    file.write_text(text.format(python=sys.executable))
    file.chmod(0o755)
    return str(file)


def test_our_server_is_asked_over_both_doors(saved_model):
    with our_server(saved_model) as served:
        assert list(served.asks) == ["our server, REST", "our server, gRPC"]
        assert served.streams == {}  # it writes no texts
        for ask in served.asks.values():
            assert ask("serving_default", {"x": [1.0]})["y"].tolist() == [2.5]


def test_a_model_that_cannot_be_loaded(tmp_path):
    (tmp_path / "1").mkdir()
    with (
        pytest.raises(ArtifactError, match="nothing to serve"),
        our_server(tmp_path / "1"),
    ):
        pass


def test_without_a_stock_server_there_is_nobody_to_ask(saved_model, monkeypatch):
    monkeypatch.delenv("TENSORFLOW_MODEL_SERVER", raising=False)
    with stock_server(saved_model) as served:
        assert served.asks == served.streams == {}


def test_the_stock_server_is_asked_over_both_doors(saved_model, tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORFLOW_MODEL_SERVER", binary(tmp_path, STAND_IN))
    with stock_server(saved_model) as served:
        assert list(served.asks) == ["TF Serving, REST", "TF Serving, gRPC"]
        for ask in served.asks.values():
            assert ask("serving_default", {"x": [1.0]})["y"].tolist() == [2.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [("#!/bin/sh\nexit 3\n", "ended with 3"), (None, "cannot be run")],
)
def test_a_stock_server_that_does_not_work(
    saved_model, tmp_path, monkeypatch, text, message
):
    file = str(tmp_path / "missing") if text is None else binary(tmp_path, text)
    monkeypatch.setenv("TENSORFLOW_MODEL_SERVER", file)
    with pytest.raises(ArtifactError, match=message), stock_server(saved_model):
        pass
