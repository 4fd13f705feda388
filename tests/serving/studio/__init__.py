"""Tests of `transbeam.serving.studio`."""
