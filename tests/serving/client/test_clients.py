"""Both clients get the same from a server, and tell in the same way what goes wrong."""

import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.serving.server.conftest import NAME, SECRET, running, settings_for
from transbeam.configs.base.errors import ConfigError
from transbeam.serving.client.connect import connect
from transbeam.serving.client.interface import ServerError

DOORS = ["rest", "grpc"]


def address_of(client, door):
    addresses = client.addresses
    return addresses.rest if door == "rest" else f"grpc://{addresses.grpc}"


@pytest.fixture(scope="module", params=DOORS)
def client(server, request):
    with connect(address_of(server, request.param), NAME) as client:
        yield client


def test_what_can_be_asked(client):
    found = client.signatures()
    assert "__saved_model_init_op" not in found
    assert found["two"].inputs == {"scale": "DT_INT32", "x": "DT_FLOAT"}
    assert found["two"].outputs == {"as_text": "DT_STRING", "y": "DT_FLOAT"}


def test_numbers(client):
    found = client.ask("serving_default", {"x": np.array([1, np.nan, np.inf])})
    assert found["y"].dtype == np.float32
    np.testing.assert_array_equal(found["y"], np.float32([2.5, np.nan, np.inf]))


def test_numbers_that_need_all_their_digits(client):
    values = np.float32([1 / 3, 0.1, 16777215, 1e-40, -0.0])
    found = client.ask("serving_default", {"x": values})["y"]
    np.testing.assert_array_equal(found, values * np.float32(0.5) + np.float32(2))


def test_several_inputs_and_outputs(client):
    found = client.ask("two", {"x": [2.0, 4.0], "scale": [3, -1]})
    assert found["y"].tolist() == [9.0, -4.0]
    assert found["as_text"].tolist() == [b"3", b"-1"]


def test_texts_and_bytes(client):
    texts = ["a", "żółw", b"\xff\xfe\xfd"]
    found = client.ask("rows", {"text": texts})
    assert found["length"].tolist() == [1, 7, 3]


def test_rows_of_several(client):
    found = client.ask("codes", {"text": ["abc", "d"]})["codes"]
    assert found.tolist() == [[97, 98, 99], [100, -1, -1]]
    found = client.ask("sums", {"matrix": np.array([[1, 2], [3, 4]])})["sums"]
    assert found.tolist() == [3, 7]


@pytest.mark.parametrize(
    ("signature", "inputs", "code", "message"),
    [
        ("zz", {"x": [1.0]}, None, '"zz" not found'),
        ("serving_default", {"x": ["a"]}, "INVALID_ARGUMENT", ""),
        ("serving_default", {"z": [1.0]}, "INVALID_ARGUMENT", "x"),
        ("rows", {"text": ["poison"]}, "INVALID_ARGUMENT", "poison"),
    ],
)
def test_what_the_server_refuses(client, signature, inputs, code, message):
    with pytest.raises(ServerError) as error:
        client.ask(signature, inputs)
    # For an unknown signature the two doors of TF Serving have two codes.
    assert code in (error.value.code, None)
    assert message in str(error.value)
    assert not error.value.again


@pytest.mark.parametrize("door", DOORS)
def test_models_and_versions(server, door):
    address = address_of(server, door)
    with connect(address, NAME, version=123) as client:
        assert client.ask("serving_default", {"x": [1.0]})["y"].tolist() == [2.5]
    for name, version in ((NAME, 9), ("other", None)):
        with connect(address, name, version=version) as client:
            with pytest.raises(ServerError) as error:
                client.ask("serving_default", {"x": [1.0]})
            assert error.value.code == "NOT_FOUND"


@pytest.mark.parametrize("door", DOORS)
def test_the_token_is_shown(half_plus_two, door):
    with running(settings_for(half_plus_two, tokens=SECRET)) as server:
        address = address_of(server, door)
        with connect(address, NAME, token="secret") as client:
            assert client.ask("serving_default", {"x": [1.0]})["y"].tolist() == [2.5]
        with connect(address, NAME) as client:
            with pytest.raises(ServerError) as error:
                client.signatures()
            assert error.value.code == "UNAUTHENTICATED"


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_nobody_there(scheme):
    with connect(f"{scheme}://127.0.0.1:1", NAME, timeout=0.5) as client:
        with pytest.raises(ServerError) as error:
            client.signatures()
        assert error.value.code == "UNAVAILABLE"
        assert error.value.again


@pytest.mark.parametrize("address", ["localhost:8501", "ftp://x", "http://", ""])
def test_what_is_no_address(address):
    with pytest.raises(ConfigError, match="is not the address of a server"):
        connect(address, NAME)


def test_who_was_refused_says_goodbye_while_the_error_is_still_held():
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        ThreadPoolExecutor() as one,
    ):

        def refuse():
            there, _ = listening.accept()
            with there:
                there.settimeout(10.0)
                there.recv(65536)
                body = b'{"error": "no"}'
                there.sendall(b"HTTP/1.1 401 No\r\nContent-Length: 15\r\n\r\n" + body)
                return there.recv(1)

        heard = one.submit(refuse)
        host, port = listening.getsockname()
        with (
            connect(f"http://{host}:{port}", NAME) as client,
            pytest.raises(ServerError, match="no") as error,
        ):
            client.signatures()
        assert heard.result() == b""
        assert error.value.code == "UNAUTHENTICATED"
