"""Texts of errors that fit into a trailer."""

from urllib.parse import quote

import grpc
import pytest

from tests.serving.server.grpc_api.test_services import predict_request
from transbeam.serving.server.base.status import short_details


@pytest.mark.parametrize("character", ["a", "%", "\n", "ä", "€", "😀", "\ud800"])
def test_a_text_takes_as_much_as_it_may(character):
    size = 1 if character == "a" else len(quote(character, errors="replace"))
    size = 3 if character in "%\n" else size
    for most in (100, 101, 4096):
        fits = character * (most // size)
        assert short_details(fits, most) == fits
        cut = short_details(fits + character, most)
        kept = cut.removesuffix("…")
        assert kept == character * len(kept)
        assert size * len(kept) + 9 <= most < size * (len(kept) + 1) + 9


def test_a_long_text_reaches_the_client(server):
    with pytest.raises(grpc.RpcError) as caught:
        server.prediction.Predict(predict_request(name="€" * 100_000), 30.0)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert caught.value.details().endswith("€…")
