"""Tests of what the page shows of a run."""
