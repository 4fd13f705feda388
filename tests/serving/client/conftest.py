"""The servers that the clients ask are those of the server's own tests."""

from tests.serving.server.conftest import half_plus_two, server

__all__ = ["half_plus_two", "server"]
