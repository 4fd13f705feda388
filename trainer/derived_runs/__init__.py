"""Runs derived from other runs: `transbeam trim` and `prune`."""
