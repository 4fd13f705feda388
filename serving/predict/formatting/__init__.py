"""Formats signature outputs as JSON and as text lines, one module per kind."""
