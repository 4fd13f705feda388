"""Outputs of signatures as JSON and as lines, one module a kind."""
