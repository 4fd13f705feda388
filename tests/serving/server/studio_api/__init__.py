"""Tests of `transbeam.serving.server.studio_api`."""
