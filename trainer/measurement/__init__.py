"""Measured time and memory of a configuration, against its size."""
