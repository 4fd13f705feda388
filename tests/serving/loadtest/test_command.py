"""`transbeam loadtest` on a server of our own."""

import csv
import json

import pytest

from tests.serving.server.conftest import NAME, half_plus_two, server
from transbeam.serving.__main__ import main

__all__ = ["half_plus_two", "server"]

SHORT = [
    "--seconds",
    "0.25",
    "--warm-up",
    "0.05",
    "--signature",
    "rows",
    "--name",
    NAME,
]
TEXTS = ["--text", "a", "--text", "bcd"]


@pytest.mark.parametrize("door", ["rest", "grpc"])
def test_stages_of_clients(server, tmp_path, capsys, door):
    addresses = server.addresses
    address = addresses.rest if door == "rest" else f"grpc://{addresses.grpc}"
    command = ["loadtest", address, *SHORT, *TEXTS, "--clients", "1", "4"]
    assert main([*command, "--output", str(tmp_path / "out"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["stages"]
    assert [stage["load"] for stage in found] == ["1 clients", "4 clients"]
    assert all(stage["errors"] == {} and stage["asked"] > 10 for stage in found)
    # Over gRPC the server has no page to tell of itself.
    assert all((stage["queue_ms"] is not None) == (door == "rest") for stage in found)
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["stages"] == found
    with (tmp_path / "out/requests.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == sum(stage["asked"] for stage in found)
    assert (tmp_path / "out/latency.png").read_bytes().startswith(b"\x89PNG")


def test_stages_of_rates_and_rows(server, tmp_path, capsys):
    given = tmp_path / "texts.txt"
    given.write_text("a\nbc\n")
    command = ["loadtest", server.addresses.rest, *SHORT, "--input", str(given)]
    assert main([*command, "--rate", "50", "--rows", "3"]) == 0
    told = capsys.readouterr().out
    assert "50/s" in told
    assert "rows/batch" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "there is no text to ask about"),
        (["--text", "a", "--signature", "two"], "expected one that takes a text"),
        (["--text", "a", "--signature", "zz"], "there is none"),
        (["--text", "poison"], "poison"),
        (["--text", "a", "--name", "other"], "NOT_FOUND"),
    ],
)
def test_what_cannot_be_tested(server, capsys, arguments, message):
    assert main(["loadtest", server.addresses.rest, *SHORT, *arguments]) == 2
    assert message in capsys.readouterr().err
