"""Fixtures of the tests of models."""

from tests.model.conftest import randomise

__all__ = ["randomise"]
