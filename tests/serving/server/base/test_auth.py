"""Rights of clients by their access token."""

import pytest
from grpc import StatusCode

from transbeam.configs.base.errors import ConfigError
from transbeam.serving.base.credentials import read_tokens
from transbeam.serving.server.arguments import RIGHTS
from transbeam.serving.server.base.auth import AccessTokens, Right
from transbeam.serving.server.base.status import StatusError

READER, KEEPER = frozenset({Right.PREDICT}), frozenset(Right)
TOKENS = AccessTokens({"read": READER, "keep": KEEPER})


@pytest.mark.parametrize(
    ("shown", "right"),
    [
        ("Bearer read", None),
        ("bearer  read ", Right.PREDICT),
        ("Bearer keep", Right.RELOAD),
        ("Bearer keep", Right.METRICS),
    ],
)
def test_a_token_lets_its_client_do_what_it_is_for(shown, right):
    TOKENS.check(shown, right)


@pytest.mark.parametrize(
    ("shown", "right", "code"),
    [
        (None, None, StatusCode.UNAUTHENTICATED),
        ("read", None, StatusCode.UNAUTHENTICATED),
        ("Basic read", None, StatusCode.UNAUTHENTICATED),
        ("Bearer", None, StatusCode.UNAUTHENTICATED),
        ("Bearer ", None, StatusCode.UNAUTHENTICATED),
        ("Bearer reader", Right.PREDICT, StatusCode.UNAUTHENTICATED),
        ("Bearer read", Right.METRICS, StatusCode.PERMISSION_DENIED),
        ("Bearer read", Right.RELOAD, StatusCode.PERMISSION_DENIED),
    ],
)
def test_it_lets_nobody_do_anything_else(shown, right, code):
    with pytest.raises(StatusError) as error:
        TOKENS.check(shown, right)
    assert error.value.code is code


def test_without_tokens_everybody_may_do_everything():
    AccessTokens().check(None, Right.RELOAD)


def test_a_token_is_not_shown_in_what_is_printed():
    assert "read" not in repr(TOKENS)


def test_a_file_says_what_each_token_is_for(tmp_path):
    file = tmp_path / "tokens"
    file.write_text("# of the scraper\nscrape metrics\n\nall\nboth predict metrics\n")
    found = read_tokens(file, RIGHTS)
    assert found == {
        "scrape": {"metrics"},
        "all": set(RIGHTS),
        "both": {"predict", "metrics"},
    }
    assert set(RIGHTS) == set(Right)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("secret write", "line 1: 'write' is no right of a token"),
        ("a\nb\na predict", "line 3: the token is listed twice"),
        ("# nothing", "has no token"),
        ("", "is empty"),
    ],
)
def test_a_file_that_says_something_else(tmp_path, content, said):
    file = tmp_path / "tokens"
    file.write_text(content)
    with pytest.raises(ConfigError, match=said) as error:
        read_tokens(file, RIGHTS)
    assert "secret" not in str(error.value)
